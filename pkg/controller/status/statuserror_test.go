package status

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/starlinghq/starling/pkg/core/objref"
)

func TestRefusals(t *testing.T) {
	kind := schema.GroupKind{Group: "apps", Kind: "Deployment"}
	status := field.NewPath("status")
	invalid := func(errs ...*field.Error) error {
		return fmt.Errorf("patch it: %w", apierrors.NewInvalid(kind, "d", errs))
	}
	for name, tc := range map[string]struct {
		before     []string
		err        error
		want       bool
		wantFields []string
		wantText   string
	}{
		"None":    {},
		"Another": {err: errors.New("no answer")},
		"Spec":    {err: invalid(field.Invalid(field.NewPath("spec", "x"), 1, "is bad"))},
		"SpecToo": {err: invalid(field.Invalid(status.Child("a"), 1, "is bad"), field.Invalid(field.NewPath("spec", "x"), 1, "is bad"))},
		"Whole":   {err: invalid(field.Invalid(status, 1, "is bad"))},
		"Again":   {before: []string{"a"}, err: invalid(field.Invalid(status.Child("a"), 1, "is bad")), wantFields: []string{"a"}},
		"Fields": {
			err: invalid(
				field.Invalid(status.Child("conditions").Index(2).Child("type"), "x", "is bad"), field.Invalid(status.Child("conditions"), 1, "is worse"),
				field.Invalid(status.Child("a").Key("k"), 1, "is bad")),
			want: true, wantFields: []string{"a", "conditions"},
			wantText: `the WDS refuses 2 fields of the status of deployments.apps web/d and keeps the previous values: .status.a (Invalid value: 1: is bad), .status.conditions (Invalid value: "x": is bad)`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := refusals{fields: tc.before}
			if got := r.add(tc.err); got != tc.want {
				t.Errorf("add = %v, want %v", got, tc.want)
			}
			if diff := cmp.Diff(tc.wantFields, r.fields); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
			if !tc.want {
				return
			}
			if diff := cmp.Diff(tc.wantText, r.message(objref.Ref{Group: "apps", Resource: "deployments", Namespace: "web", Name: "d"})); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}
