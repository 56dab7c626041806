package delivery

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/transport/plugin"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts: what users read of deliveries in status.errors and in the condition Delivered, after
// the name of the cluster.
func TestTexts(t *testing.T) {
	theirs := plan.Owner{WDS: plan.WDS{UID: "2", Name: "wds2"}, Binding: "web", State: plan.OwnerPending}
	claiming := theirs
	claiming.State = plan.OwnerClaimed
	ofPackage := plan.Owner{Source: "package default/edge/web", Binding: "edge", State: plan.OwnerPending}
	claims, disputes := conflictTexts([]plan.Conflict{
		{Ref: settings, With: theirs}, {Ref: nginx, With: claiming}, {Ref: web, With: ofPackage}, {Ref: settings, With: theirs, Ours: true},
	})
	leaving, failures := leavingTexts([]plan.HandOver{
		{Ref: settings, To: theirs},
		{Ref: web, To: plan.Owner{Binding: "b"}, Waits: true},
		{Ref: nginx, To: plan.Owner{Binding: "b"}, Failed: &plan.Item{Ref: nginx, Reason: "AppliedManifestFailed", Message: "no room"}},
	})
	orphaning, unorphaned := leavingTexts([]plan.HandOver{
		{Ref: settings},
		{Ref: web, Behind: &plan.Item{Ref: nginx, Reason: "AppliedManifestFailed", Message: "the server doesn't have a resource type \"Deployment\""}},
		{Ref: nginx, Failed: &plan.Item{Ref: nginx, Reason: "AppliedManifestFailed", Message: "no room"}},
		{Ref: nginx, Former: true},
		{Ref: settings, Former: true, Kept: true},
	})
	var written writings
	repair := plan.Action{Verb: plan.Patch, Reason: plan.ReasonRepair, Name: "w", UID: "1", Generation: 5, Recorded: transform.HashOf([]byte("x"))}
	written.note(plugin.Receipt{UID: "1", Generation: 5, Recorded: repair.Recorded}, &repair)
	_, futile := written.sift([]plan.Action{repair})
	action := &plan.Action{Verb: plan.Create, Name: "uid-2-0", After: []plan.Entry{{Ref: settings}}}
	secret := &plan.Action{Verb: plan.Create, Name: "uid-2-0", After: []plan.Entry{{Ref: password}}}
	works := schema.GroupResource{Group: "work.open-cluster-management.io", Resource: "manifestworks"}
	wrap := func(err error) error { return fmt.Errorf("create work uid-2-0: %w", err) }
	widgets, gadgets := plan.DefinitionOf(schema.GroupResource{Group: "example.com", Resource: "widgets"}), plan.DefinitionOf(schema.GroupResource{Group: "example.com", Resource: "gadgets"})
	golden.Compare(t, "texts", strings.Join([]string{
		"# others deliver the object\n" + strings.Join(claims, "\n"),
		"# others want to deliver the object\n" + strings.Join(disputes, "\n"),
		"# objects are handed over\n" + strings.Join(leaving, "\n"),
		"# and cannot be\n" + strings.Join(failures, "\n"),
		"# objects are to stay in the cluster, or leave it\n" + strings.Join(orphaning, "\n"),
		"# and may not\n" + strings.Join(unorphaned, "\n"),
		"# a CustomResourceDefinition stays\n" + strings.Join(requiredTexts([]plan.Requirement{
			{Ref: widgets, Own: []objref.Ref{{Group: "example.com", Resource: "widgets", Namespace: "web", Name: "a"}}},
			{Ref: gadgets, Others: []plan.Dependent{
				{Owner: plan.Owner{Binding: "b"}, Unknown: true},
				{Ref: objref.Ref{Group: "example.com", Resource: "gadgets", Name: "a"}, Owner: theirs},
				{Ref: objref.Ref{Group: "example.com", Resource: "gadgets", Name: "b"}, Owner: ofPackage},
				{Ref: objref.Ref{Group: "example.com", Resource: "gadgets", Name: "c"}, Owner: theirs},
			}},
		}), "\n"),
		"# a Namespace stays\n" + strings.Join(requiredTexts([]plan.Requirement{
			{Ref: objref.Ref{Resource: "namespaces", Name: "web"}, Others: []plan.Dependent{{Ref: settings, Owner: theirs}}},
		}), "\n"),
		"# the ITS changes what is written\n" + strings.Join(futile, "\n"),
		"# a write is forbidden\n" + writeError(action, wrap(apierrors.NewForbidden(works, "uid-2-0", errors.New("no")))),
		"# a write with a Secret is refused\n" + writeError(secret, wrap(apierrors.NewBadRequest("hunter2"))),
		"# a label of a work was changed\n" + writeError(action, wrap(apierrors.NewAlreadyExists(works, "uid-2-0"))),
		"# a cluster refused an object\n" + (&plan.Item{Ref: settings, Reason: "AppliedManifestFailed", Message: "Failed to apply manifest: no\nway"}).Refusal(),
		"# a cluster refused a Secret\n" + (&plan.Item{Ref: password, Reason: "AppliedManifestFailed", Message: "hunter2"}).Refusal(),
		"# what a deletion waits for\n" + Leftover{Name: "cluster1"}.String() + "\n" + Leftover{Name: "its2", ITS: true}.String(),
	}, "\n\n")+"\n")
}
