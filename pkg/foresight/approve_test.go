package foresight

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/foresight/forecast"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/version"
)

// served returns a revision as users see it.
func served(name string, number int, lifecycle porchv1alpha1.PackageRevisionLifecycle) *porchv1alpha1.PackageRevision {
	return &porchv1alpha1.PackageRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       porchv1alpha1.PackageRevisionSpec{RepositoryName: "c1", PackageName: "web", Revision: number, Lifecycle: lifecycle},
	}
}

// TestApprove: of several revisions of a package, each gets the number after the one before, and
// the number of a revision that has one stays.
func TestApprove(t *testing.T) {
	t.Parallel()
	p := &forecast.Package{}
	for _, r := range []*porchv1alpha1.PackageRevision{
		served("v1", 1, porchv1alpha1.LifecyclePublished), served("v2", 2, porchv1alpha1.LifecycleDeletionProposed),
		served("a", 0, porchv1alpha1.LifecycleProposed), served("b", 0, porchv1alpha1.LifecycleProposed),
	} {
		p.Before = append(p.Before, stored(r))
		p.After = append(p.After, stored(r))
	}
	approve(p, "a", served("a", 3, porchv1alpha1.LifecyclePublished), "")
	approve(p, "x", nil, "it is a Draft")
	approve(p, "b", served("b", 3, porchv1alpha1.LifecyclePublished), "")
	approve(p, "v1", served("v1", 1, porchv1alpha1.LifecyclePublished), "")
	approve(p, "new", served("new", 0, porchv1alpha1.LifecyclePublished), "")
	want := []forecast.ApprovedRevision{
		{Name: "a", Version: "3"}, {Name: "x", Refused: "it is a Draft"}, {Name: "b", Version: "4"}, {Name: "v1", Version: "1"}, {Name: "new", Version: "5"},
	}
	if diff := cmp.Diff(want, p.Approved); diff != "" {
		t.Errorf("approved (-want +got):\n%s", diff)
	}
	var after []string
	for _, r := range p.After {
		after = append(after, r.Name+" "+string(r.Spec.Lifecycle)+" "+strconv.Itoa(r.Spec.Revision))
	}
	if diff := cmp.Diff([]string{"v1 Published 1", "v2 DeletionProposed 2", "a Published 3", "b Published 4", "new Published 5"}, after); diff != "" {
		t.Errorf("after (-want +got):\n%s", diff)
	}
	if latest := version.Latest(p.Before); latest.Name != "v2" {
		t.Errorf("the latest before is %s, want v2", latest.Name)
	}
}

// TestApproved: what is decided if the server may not be asked is what it would say.
func TestApproved(t *testing.T) {
	t.Parallel()
	gated := served("a", 0, porchv1alpha1.LifecycleProposed)
	gated.Spec.ReadinessGates = []porchv1alpha1.ReadinessGate{{ConditionType: "Tested"}, {ConditionType: "Rendered"}}
	gated.Status.Conditions = []porchv1alpha1.Condition{{Type: "Rendered", Status: porchv1alpha1.ConditionTrue}}
	cases := map[string]struct {
		before *porchv1alpha1.PackageRevision
		want   string
	}{
		"Proposed":  {before: served("a", 0, porchv1alpha1.LifecycleProposed)},
		"Gated":     {before: gated, want: "the package revision is not ready; readiness gates that are not met: Tested (no such condition)"},
		"Draft":     {before: served("a", 0, porchv1alpha1.LifecycleDraft), want: "cannot approve package with Draft lifecycle value; only Proposed packages can be approved"},
		"Published": {before: served("a", 1, porchv1alpha1.LifecyclePublished), want: "cannot change approval from Published to Published; it can change to DeletionProposed only"},
	}
	for name, tc := range cases {
		after, refused := approved(tc.before)
		if refused != tc.want || (after == nil) != (tc.want != "") {
			t.Errorf("%s: refused %q, want %q", name, refused, tc.want)
		}
		if after != nil && after.Spec.Lifecycle != porchv1alpha1.LifecyclePublished {
			t.Errorf("%s: %s", name, after.Spec.Lifecycle)
		}
	}
}

// TestStored: a stored revision has the version of the served one.
func TestStored(t *testing.T) {
	t.Parallel()
	tag, branch := served("tag", -1, porchv1alpha1.LifecyclePublished), served("branch", -1, porchv1alpha1.LifecyclePublished)
	tag.Status.SelfLock = &porchv1alpha1.Locator{Git: &porchv1alpha1.GitLock{Directory: "web", Ref: "web/v1.2.3"}}
	branch.Status.SelfLock = &porchv1alpha1.Locator{Git: &porchv1alpha1.GitLock{Directory: "web", Ref: "main"}}
	for _, r := range []*porchv1alpha1.PackageRevision{tag, branch, served("a", 0, ""), served("b", 7, porchv1alpha1.LifecyclePublished)} {
		of := stored(r)
		if got, want := version.Of(of), version.OfServed(r); got != want {
			t.Errorf("%s: %+v, want %+v", r.Name, got, want)
		}
		if of.Spec.Lifecycle == "" {
			t.Errorf("%s has no lifecycle", r.Name)
		}
	}
	if latest := version.Latest([]*storev1alpha1.PackageRevision{stored(tag), stored(branch)}); latest.Name != "tag" {
		t.Errorf("the latest is %s, want tag", latest.Name)
	}
}
