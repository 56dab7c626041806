package version_test

import (
	"iter"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/version"
)

func TestCompare(t *testing.T) {
	want := []version.Version{
		{}, {Tag: "candidate"}, {Tag: "v1.2"}, {Tag: "v0.9.0"}, {Tag: "v1.2.3-rc.1"}, {Tag: "v1.2.3-rc.2"}, {Tag: "1.2.3"}, {Tag: "v1.2.3"}, {Tag: "v1.10.0"}, {Number: 1}, {Number: 2},
	}
	rnd := rand.New(rand.NewSource(1))
	for range 50 {
		got := slices.Clone(want)
		rnd.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		slices.SortFunc(got, version.Compare)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
	var releases []version.Version
	for _, v := range want {
		if v.IsRelease() {
			releases = append(releases, v)
		}
		if v.IsZero() != (v == version.Version{}) {
			t.Errorf("%+v: IsZero %t", v, v.IsZero())
		}
	}
	if diff := cmp.Diff([]version.Version{{Tag: "v0.9.0"}, {Tag: "1.2.3"}, {Tag: "v1.2.3"}, {Tag: "v1.10.0"}, {Number: 1}, {Number: 2}}, releases); diff != "" {
		t.Errorf("releases (-want +got):\n%s", diff)
	}
}

// TestOf: the stored revision and the one that users see have the same version.
func TestOf(t *testing.T) {
	type lock = porchv1alpha1.Locator
	git := func(ref string) *lock {
		return &lock{Git: &porchv1alpha1.GitLock{Directory: "/apps/web/", Ref: ref}}
	}
	for name, tc := range map[string]struct {
		number   int
		external storev1alpha1.External
		self     *lock
		want     version.Version
	}{
		"Draft":       {0, storev1alpha1.External{}, nil, version.Version{}},
		"Approved":    {3, storev1alpha1.External{}, nil, version.Version{Number: 3}},
		"Numbered":    {3, storev1alpha1.External{Ref: "apps/web/v3"}, git("apps/web/v3"), version.Version{Number: 3}},
		"Tag":         {-1, storev1alpha1.External{Ref: "apps/web/v1.2.3"}, git("apps/web/v1.2.3"), version.Version{Tag: "v1.2.3"}},
		"Image":       {-1, storev1alpha1.External{Ref: "example.com:5000/apps/web:1.2.3"}, &lock{OCI: &porchv1alpha1.OCILock{Image: "example.com:5000/apps/web:1.2.3"}}, version.Version{Tag: "1.2.3"}},
		"Placeholder": {-1, storev1alpha1.External{Ref: "main", Branch: true}, git("main"), version.Version{}},
		"Unknown":     {-1, storev1alpha1.External{}, nil, version.Version{}},
	} {
		stored := &storev1alpha1.PackageRevision{External: tc.external}
		served := &porchv1alpha1.PackageRevision{}
		stored.Spec.Revision, served.Spec.Revision, served.Status.SelfLock = tc.number, tc.number, tc.self
		if of, ofServed := version.Of(stored), version.OfServed(served); of != tc.want || ofServed != tc.want {
			t.Errorf("%s: stored %+v, served %+v, want %+v", name, of, ofServed, tc.want)
		}
	}
}

// TestLatest: one rule for numbers and tags, whatever the order of the revisions.
func TestLatest(t *testing.T) {
	revision := func(name string, number int, ref string) *storev1alpha1.PackageRevision {
		r := &storev1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{Name: name}, External: storev1alpha1.External{Ref: ref, Branch: ref == "main"}}
		r.Spec.Revision, r.Spec.Lifecycle = number, porchv1alpha1.LifecyclePublished
		return r
	}
	proposed, deleted, draft := revision("proposed", 9, ""), revision("deleted", 10, ""), revision("draft", 0, "")
	proposed.Spec.Lifecycle = porchv1alpha1.LifecycleDeletionProposed
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	draft.Spec.Lifecycle = porchv1alpha1.LifecycleDraft
	var (
		branch = revision("branch", -1, "main")
		low    = revision("low", -1, "web/v1.2.3")
		high   = revision("high", -1, "web/v1.3.0")
		early  = revision("early", -1, "web/v1.10.0-rc.1")
		word   = revision("word", -1, "web/stable")
		first  = revision("first", 1, "web/v1")
	)
	for name, tc := range map[string]struct {
		revisions []*storev1alpha1.PackageRevision
		want      *storev1alpha1.PackageRevision
	}{
		"None":      {nil, nil},
		"NoRelease": {[]*storev1alpha1.PackageRevision{branch, early, word, draft}, nil},
		"Tags":      {[]*storev1alpha1.PackageRevision{branch, low, high, early, word, draft}, high},
		"Number":    {[]*storev1alpha1.PackageRevision{branch, low, high, early, word, first}, first},
		"Proposed":  {[]*storev1alpha1.PackageRevision{proposed, deleted, first, high}, proposed},
		"TwoNames":  {[]*storev1alpha1.PackageRevision{revision("a", 2, ""), revision("b", 2, "")}, revision("b", 2, "")},
	} {
		for _, all := range [][]*storev1alpha1.PackageRevision{tc.revisions, slices.Collect(reversed(tc.revisions))} {
			if diff := cmp.Diff(tc.want, version.Latest(all)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}

// TestRelabel: the revision that gets the label comes first, so that there is always one with it.
func TestRelabel(t *testing.T) {
	revision := func(name string, number int, labels map[string]string) *storev1alpha1.PackageRevision {
		r := &storev1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		r.Spec.Revision, r.Spec.Lifecycle = number, porchv1alpha1.LifecyclePublished
		return r
	}
	label := map[string]string{porchv1alpha1.LatestRevisionLabel: "true"}
	v1, v2, v3, v4 := revision("v1", 1, label), revision("v2", 2, nil), revision("v3", 3, nil), revision("v4", 4, label)
	for name, tc := range map[string]struct {
		all, want []*storev1alpha1.PackageRevision
	}{
		"Right":  {[]*storev1alpha1.PackageRevision{v2, v3, v4}, nil},
		"Newer":  {[]*storev1alpha1.PackageRevision{v1, v2, v3}, []*storev1alpha1.PackageRevision{revision("v3", 3, label), revision("v1", 1, map[string]string{})}},
		"TwoOld": {[]*storev1alpha1.PackageRevision{v1, v4}, []*storev1alpha1.PackageRevision{revision("v1", 1, map[string]string{})}},
		"None":   {[]*storev1alpha1.PackageRevision{v2}, []*storev1alpha1.PackageRevision{revision("v2", 2, label)}},
	} {
		if diff := cmp.Diff(tc.want, version.Relabel(tc.all)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if len(label) != 1 || v3.Labels != nil {
		t.Errorf("the revisions themselves were changed: %v, %v", label, v3.Labels)
	}
}

func reversed(all []*storev1alpha1.PackageRevision) iter.Seq[*storev1alpha1.PackageRevision] {
	return func(yield func(*storev1alpha1.PackageRevision) bool) {
		for _, r := range slices.Backward(all) {
			if !yield(r) {
				return
			}
		}
	}
}
