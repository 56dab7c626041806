package variant_test

import (
	"slices"
	"strings"
	"testing"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
)

// TestOnlyOwnContentIsApproved: automatic approval takes only drafts whose content is from the
// controller alone, and the status says what to do with others.
func TestOnlyOwnContentIsApproved(t *testing.T) {
	for name, tc := range map[string]struct {
		policy   string
		authors  []string
		approves bool
		waitsFor string
	}{
		"Own":           {configv1alpha1.ApprovalAlways, []string{self}, true, ""},
		"AlsoByAnother": {configv1alpha1.ApprovalAlways, []string{self, "mallory"}, false, `user "mallory" changed its content`},
		"ByAnother":     {configv1alpha1.ApprovalInitial, []string{"mallory"}, false, `user "mallory" changed its content`},
		"NotKnown":      {configv1alpha1.ApprovalAlways, nil, false, "an unknown user changed its content"},
		"NoPolicy":      {"", []string{self, "mallory"}, false, "to be proposed and approved"},
	} {
		for _, lifecycle := range []string{"Draft", "Proposed"} {
			w := newWorld(t, "")
			w.settle()
			r := w.downstream(draft)
			r.Status.Authors = tc.authors
			if lifecycle == "Proposed" {
				w.move(r, proposed)
			}
			if tc.policy != "" {
				w.pv.Annotations = map[string]string{configv1alpha1.AnnotationApprovalPolicy: tc.policy}
			}
			plan := variant.PlanVariant(w.input())
			approves := slices.ContainsFunc(plan.Actions, func(a variant.Action) bool { return a.Verb == variant.Propose || a.Verb == variant.Approve })
			if approves != tc.approves {
				t.Errorf("%s, %s: approves: %t", name, lifecycle, approves)
			}
			if got := plan.Status.WaitsFor; tc.policy != "" && !strings.Contains(got, tc.waitsFor) {
				t.Errorf("%s, %s: waits for %q", name, lifecycle, got)
			}
		}
	}
}

// TestForgedOwner: an owner reference with the UID of a PackageVariant and the name or kind of
// another object does not make it the owner. The server checks the right to add an owner by its
// kind and name.
func TestForgedOwner(t *testing.T) {
	for _, change := range []func(kind, name *string){
		func(kind, _ *string) { *kind = "ConfigMap" },
		func(_, name *string) { *name = "another" },
	} {
		w := newWorld(t, "")
		w.settle()
		owner := &w.downstream(draft).Served.OwnerReferences[0]
		change(&owner.Kind, &owner.Name)
		plan := variant.PlanVariant(w.input())
		if plan.Status.State != "" || len(plan.Actions)+len(plan.Work) > 0 {
			t.Errorf("%s %s: state %q, actions %v, work %v", owner.Kind, owner.Name, plan.Status.State, plan.Actions, plan.Work)
		}
	}
}
