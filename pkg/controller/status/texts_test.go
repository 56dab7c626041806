package status

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts: these follow "status return: " in status.errors of policies.
func TestTexts(t *testing.T) {
	ref := objref.Ref{Group: "apps", Resource: "deployments", Namespace: "web", Name: "shop"}
	one := refusals{fields: []string{"replicas"}, why: map[string]string{"replicas": "Invalid value: 20: must be less than or equal to 10"}}
	two := refusals{fields: []string{"replicas", "phase"}, why: map[string]string{"replicas": "Invalid value: 20: too many", "phase": "Unsupported value: \"Odd\""}}
	forbidden := apierrors.NewForbidden(ref.GroupResource(), ref.Name, errors.New("policy \"no-status\" denied the request"))
	golden.Texts(t,
		golden.Text{Heading: "Another client writes the status", Text: conflictText(ref, "kube-controller-manager")},
		golden.Text{Heading: "The WDS refuses a field", Text: one.message(ref)},
		golden.Text{Heading: "The WDS refuses fields", Text: two.message(ref)},
		golden.Text{Heading: "The WDS refuses the write", Text: asRefusal(ref, forbidden).text},
		golden.Text{Heading: "A right is missing", Text: ungranted(ref.GroupResource())},
	)
}
