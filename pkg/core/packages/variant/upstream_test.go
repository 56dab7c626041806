package variant_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
)

func revision(workspace string, number int, at porchv1alpha1.PackageRevisionLifecycle, tags ...string) *storev1alpha1.PackageRevision {
	r := &storev1alpha1.PackageRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "up.web." + workspace, Labels: map[string]string{}},
		Spec:       porchv1alpha1.PackageRevisionSpec{RepositoryName: "up", PackageName: "web", WorkspaceName: workspace, Revision: number, Lifecycle: at},
		Content:    storev1alpha1.Content{Digest: "sha256:" + workspace},
	}
	for _, tag := range tags {
		r.Labels[configv1alpha1.LabelTagPrefix+tag] = ""
	}
	return r
}

func TestFindUpstream(t *testing.T) {
	all := []*storev1alpha1.PackageRevision{
		revision("main", -1, published), revision("a", 1, published, "stable"), revision("b", 2, published, "stable", "beta"),
		revision("c", 3, published), revision("d", 4, deletion, "beta", "old"), revision("e", 0, draft, "alpha"), revision("f", 0, proposed),
	}
	all[0].External = storev1alpha1.External{Ref: "main", Branch: true}
	other := revision("b", 2, published, "alpha")
	other.Name, other.Spec.PackageName = "up.db.b", "db"
	all = append(all, other)
	for _, tag := range []string{"v1.9.0", "v1.10.0", "v2.0.0-rc.1", "candidate"} { // web also has numbers, api has none
		for _, pkg := range []string{"web", "api"} {
			r := revision(strings.ReplaceAll(tag, ".", "-"), -1, published)
			r.Name, r.Spec.PackageName, r.External.Ref = "up."+pkg+"."+r.Spec.WorkspaceName, pkg, pkg+"/"+tag
			all = append(all, r)
		}
	}
	const absent = "could not find upstream package revision "
	for text, want := range map[string]string{
		"revision: 2":                      "up.web.b",
		"revision: v2":                     "up.web.b",
		"revision: '2'":                    "up.web.b",
		"revision: latest":                 "up.web.d", // also if it is proposed for deletion
		"revision: 4":                      "up.web.d",
		"workspaceName: c":                 "up.web.c",
		"{revision: 2, workspaceName: b}":  "up.web.b",
		"{revision: 2, workspaceName: c}":  absent + "'web/2, c' in repo 'up'",
		"revision: 9":                      absent + "'web/9' in repo 'up'",
		"workspaceName: main":              absent + "'web/main' in repo 'up': up.web.main is the content of a branch, which changes and cannot be cloned: publish a revision, or tag a commit as web/vN, and use its number or latest",
		"workspaceName: dev":               absent + "'web/dev' in repo 'up'",
		"revision: main":                   `spec.upstream.revision: Invalid value: "main": must be the number of a revision, such as 3 or "v3", a semantic version, or latest; a branch cannot be cloned, because its content changes`,
		"revision: -1":                     "spec.upstream.revision: Invalid value: -1: the content of a branch changes and cannot be cloned; use the number of a published revision, or latest",
		"workspaceName: e":                 "upstream package revision up.web.e is Draft; only a published one can be cloned: approve it",
		"workspaceName: f":                 "upstream package revision up.web.f is Proposed; only a published one can be cloned: approve it",
		"tag: stable":                      "up.web.b", // while it is moved, the higher one
		"tag: beta":                        "up.web.d",
		"tag: old":                         "up.web.d",
		"tag: alpha":                       "upstream package revision up.web.e is Draft; only a published one can be cloned: approve it",
		"tag: none":                        absent + "'web/tag none' in repo 'up'",
		"revision: v1.9.0":                 "up.web.v1-9-0",
		"revision: v2.0.0-rc.1":            "up.web.v2-0-0-rc-1",
		"revision: v9.9.9":                 absent + "'web/v9.9.9' in repo 'up'",
		"workspaceName: candidate":         "up.web.candidate",
		"{package: api, revision: latest}": "up.api.v1-10-0",
	} {
		u := parse[configv1alpha1.Upstream](t, text)
		u.Repo, u.Package = "up", cmp.Or(u.Package, "web")
		for range 2 {
			got := ""
			if r, err := variant.FindUpstream(u, all); err != nil {
				got = err.Error()
			} else {
				got = r.Name
			}
			if got != want {
				t.Errorf("%s: got %s, want %s", text, got, want)
			}
			slices.Reverse(all) // the order does not matter
		}
	}
}

// TestExportChangesNothing: a package stays up to date if its upstream revision is exported or
// imported.
func TestExportChangesNothing(t *testing.T) {
	w := newWorld(t, "")
	w.settle()
	w.move(w.downstream(draft), published)
	w.settle()
	writes := len(w.trace)
	w.revisions["up.web.w1"].Status.SelfLock = &porchv1alpha1.Locator{Type: "git", Git: &porchv1alpha1.GitLock{Repo: "https://example.com/r", Directory: "web", Ref: "web/v1", Commit: "abc"}}
	w.settle()
	if len(w.trace) != writes {
		t.Errorf("%q", w.trace[writes:])
	}
}

// TestTerminatingUpstream: a revision that only waits for its finalizers is not cloned any more.
func TestTerminatingUpstream(t *testing.T) {
	w := newWorld(t, "")
	w.settle()
	w.move(w.downstream(draft), published)
	w.settle()
	writes := len(w.trace)
	w.upstream(2)
	w.revisions["up.web.w2"].DeletionTimestamp = &metav1.Time{}
	w.settle()
	if len(w.trace) != writes {
		t.Errorf("%q", w.trace[writes:])
	}
}

// TestStale: a plan from a stale cache has the same draft, under the same name.
func TestStale(t *testing.T) {
	w := newWorld(t, "")
	w.reconcile(1) // the finalizer
	stale := w.input()
	w.settle()
	for range 2 {
		plan := variant.PlanVariant(stale)
		if len(plan.Actions) != 1 || w.revisions[plan.Actions[0].Revision] == nil || plan.Actions[0].Verb != variant.Create {
			t.Fatalf("%v", plan.Actions)
		}
		w.upstream(2)
		stale.Upstreams = w.input().Upstreams // nor does another upstream make it another draft
	}
}

// TestRevisionsOfOtherPackages: packages of other PackageVariants, of branches, and without a
// Repository.
func TestRevisionsOfOtherPackages(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *world, in *variant.Input)
		want   string
	}{
		"OtherVariant": {func(_ *world, in *variant.Input) {
			r := revision("x", 1, published)
			controller := true
			r.Served.OwnerReferences = []metav1.OwnerReference{{Kind: "PackageVariant", Name: "theirs", UID: "other", Controller: &controller}}
			in.Downstreams = append(in.Downstreams, r)
		}, "DownstreamExists package edge/web already belongs to PackageVariant theirs: delete that PackageVariant, or choose another package"},
		"Branch": {func(_ *world, in *variant.Input) {
			main := revision("main", -1, published)
			main.External = storev1alpha1.External{Ref: "main", Branch: true}
			in.Downstreams = append(in.Downstreams, main)
		}, "DownstreamExists package edge/web exists only on the branch of the repository, so there is no revision to adopt: choose another package"},
		"Going": {func(_ *world, in *variant.Input) {
			r := revision("x", 1, deletion)
			r.DeletionTimestamp = &metav1.Time{}
			in.Downstreams = append(in.Downstreams, r)
		}, "Error package revision up.web.x is being deleted; it is re-created afterwards"},
		"NoRepository": {
			func(_ *world, in *variant.Input) { in.HasRepository = false },
			`Error spec.downstream.repo: repository "edge" could not be loaded: no such Repository in this namespace`,
		},
	} {
		w := newWorld(t, "adoptionPolicy: adoptExisting")
		w.pv.Finalizers = []string{configv1alpha1.PackageVariantFinalizer}
		in := w.input()
		tc.change(w, in)
		for _, r := range in.Downstreams {
			r.Spec.RepositoryName = "edge"
		}
		plan := variant.PlanVariant(in)
		c := plan.Status.Conditions[0]
		if got := c.Reason + " " + c.Message; got != tc.want || len(plan.Actions)+len(plan.Work) > 0 {
			t.Errorf("%s: %s, %v", name, got, plan.Actions)
		}
	}
}
