package variant_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/upgrade"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
)

// TestOnlyOwnContentIsApproved: automatic approval takes only drafts whose content is from the
// controller alone, and that overwrite nothing. The status says what to do with others.
func TestOnlyOwnContentIsApproved(t *testing.T) {
	for name, tc := range map[string]struct {
		policy    string
		authors   []string
		conflicts porchv1alpha1.ConditionStatus
		approves  bool
		waitsFor  string
		unmarked  bool
	}{
		"Own":               {configv1alpha1.ApprovalAlways, []string{self}, "", true, "", false},
		"AlsoByAnother":     {configv1alpha1.ApprovalAlways, []string{self, "mallory"}, "", false, `user "mallory" changed its content`, false},
		"ByAnother":         {configv1alpha1.ApprovalInitial, []string{"mallory"}, "", false, `user "mallory" changed its content`, false},
		"NotKnown":          {configv1alpha1.ApprovalAlways, nil, "", false, "an unknown user changed its content", false},
		"NoPolicy":          {"", []string{self, "mallory"}, "", false, "to be proposed and approved", false},
		"Conflicts":         {configv1alpha1.ApprovalAlways, []string{self}, porchv1alpha1.ConditionTrue, false, "a.yaml: ConfigMap a: data.k: changed on both sides", false},
		"NoConflicts":       {configv1alpha1.ApprovalAlways, []string{self}, porchv1alpha1.ConditionFalse, true, "", false},
		"UnmarkedOfAnother": {configv1alpha1.ApprovalAlways, []string{self, "mallory"}, "", false, `user "mallory" changed its content`, false},
		"Unmarked":          {configv1alpha1.ApprovalAlways, []string{self}, "", false, "created or changed while this policy did not apply", true},
	} {
		for _, lifecycle := range []string{"Draft", "Proposed"} {
			w := newWorld(t, "")
			w.settle()
			r := w.downstream(draft)
			r.Status.Authors = tc.authors
			if !strings.HasPrefix(name, "Unmarked") {
				r.Annotations = map[string]string{configv1alpha1.AnnotationPolicyOf: string(w.pv.UID)}
			}
			if tc.conflicts != "" {
				r.Status.Conditions = append(r.Status.Conditions, porchv1alpha1.Condition{
					Type: upgrade.ConditionMergeConflicts, Status: tc.conflicts, Message: "a.yaml: ConfigMap a: data.k: changed on both sides",
				})
			}
			if lifecycle == "Proposed" {
				w.move(r, proposed)
			}
			if tc.policy != "" {
				w.pv.Annotations = map[string]string{configv1alpha1.AnnotationApprovalPolicy: tc.policy}
			}
			plan := variant.PlanVariant(w.input())
			approves := slices.ContainsFunc(plan.Actions, func(a variant.Action) bool { return a.Verb == variant.Propose || a.Verb == variant.Approve })
			deletes := slices.ContainsFunc(plan.Actions, func(a variant.Action) bool { return a.Verb == variant.Delete })
			if deletes != (tc.unmarked && lifecycle == "Draft") {
				t.Errorf("%s, %s: deletes: %t", name, lifecycle, deletes)
			}
			if approves != tc.approves {
				t.Errorf("%s, %s: approves: %t", name, lifecycle, approves)
			}
			if got := plan.Status.WaitsFor; tc.policy != "" && !strings.Contains(got, tc.waitsFor) {
				t.Errorf("%s, %s: waits for %q", name, lifecycle, got)
			}
		}
	}
}

// TestDeletionKeepsWhatPeopleWrote: a draft goes with its PackageVariant only if nobody else has
// written into it, and nothing goes with one that is deleted with --cascade=orphan.
func TestDeletionKeepsWhatPeopleWrote(t *testing.T) {
	for name, tc := range map[string]struct {
		authors      []string
		orphan, move bool
		at           porchv1alpha1.PackageRevisionLifecycle
		want         variant.Verb
	}{
		"Own":              {[]string{self}, false, false, draft, variant.Delete},
		"OwnProposed":      {[]string{self}, false, false, proposed, variant.Delete},
		"Edited":           {[]string{self, "ann"}, false, false, draft, variant.Leave},
		"EditedProposed":   {[]string{self, "ann"}, false, false, proposed, variant.Leave},
		"Unknown":          {nil, false, false, draft, variant.Leave},
		"Published":        {[]string{self, "ann"}, false, false, published, variant.ProposeDeletion},
		"ProposedAlready":  {[]string{self}, false, false, deletion, variant.Release},
		"Orphan":           {[]string{self}, true, false, draft, variant.Release},
		"OrphanEdited":     {[]string{self, "ann"}, true, false, draft, variant.Release},
		"OrphanPublished":  {[]string{self}, true, false, published, variant.Release},
		"AnotherPackage":   {[]string{self}, false, true, draft, variant.Delete},
		"LeavesForAnother": {[]string{self, "ann"}, false, true, draft, variant.Leave},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "")
			w.settle()
			r := w.downstream(draft)
			r.Spec.Lifecycle, r.Status.Authors = tc.at, tc.authors
			if tc.move {
				w.pv.Spec.Downstream.Package = "other"
				w.reconcile(1) // the draft of the other package
			} else {
				w.pv.DeletionTimestamp = &metav1.Time{}
			}
			if tc.orphan {
				w.pv.Finalizers = append(w.pv.Finalizers, metav1.FinalizerOrphanDependents)
			}
			var got []variant.Verb
			for _, a := range variant.PlanVariant(w.input()).Actions {
				if a.Revision == r.Name {
					got = append(got, a.Verb)
				}
			}
			if diff := cmp.Diff([]variant.Verb{tc.want}, got); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
			w.settle()
			if left := w.revisions[r.Name]; (left == nil) != (tc.want == variant.Delete) || left != nil && len(left.Served.OwnerReferences) > 0 {
				t.Errorf("left %+v", left)
			}
			if tc.at == deletion { // a person proposed that, and only a person withdraws it
				w.variant("")
				w.settle()
				if left := w.revisions[r.Name]; left.Spec.Lifecycle != deletion || len(left.Served.OwnerReferences) > 0 {
					t.Errorf("a PackageVariant of the same name has withdrawn it: %+v", left)
				}
			}
			if tc.want != variant.Leave || tc.move {
				return
			}
			w.variant("")
			w.settle()
			if left := w.revisions[r.Name]; len(left.Served.OwnerReferences) != 1 || left.Served.OwnerReferences[0].UID != w.pv.UID || len(w.revisions) != 2 {
				t.Errorf("a PackageVariant of the same name has not adopted it: %+v of %d", left.Served, len(w.revisions))
			}
		})
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

// TestPolicyOfWhoControlsTheSpec: an annotation of a PackageVariant of a set publishes nothing,
// since the author of the set decides what the PackageVariant has.
func TestPolicyOfWhoControlsTheSpec(t *testing.T) {
	const always = configv1alpha1.ApprovalAlways
	for name, tc := range map[string]struct {
		metadata, spec string
		set, approves  bool
	}{
		"OwnAnnotation":      {always, "", false, true},
		"OwnSpec":            {"", always, false, true},
		"AnnotationInASet":   {always, "", true, false},
		"SpecOfASet":         {"", always, true, true},
		"SpecOfASetDecides":  {configv1alpha1.ApprovalInitial, always, true, true},
		"MetadataDecides":    {configv1alpha1.ApprovalInitial, always, false, true},
		"InvalidOutsideASet": {"never", always, false, false},
		"InvalidInASet":      {"never", always, true, true},
	} {
		w := newWorld(t, "")
		if tc.metadata != "" {
			w.pv.Annotations = map[string]string{configv1alpha1.AnnotationApprovalPolicy: tc.metadata}
		}
		if tc.spec != "" {
			w.pv.Spec.Annotations = map[string]string{configv1alpha1.AnnotationApprovalPolicy: tc.spec}
		}
		if tc.set {
			yes := true
			w.pv.OwnerReferences = []metav1.OwnerReference{{APIVersion: "config.porch.kpt.dev/v1alpha2", Kind: "PackageVariantSet", Name: "s", UID: "s", Controller: &yes}}
		}
		w.settle()
		if approves := w.downstream(published) != nil; approves != tc.approves {
			t.Errorf("%s: approves: %t; %+v", name, approves, w.pv.Status)
		}
	}
}
