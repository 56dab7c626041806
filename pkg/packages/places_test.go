package packages

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
)

// lying is the metadata of a revision, as the watch tells it.
func lying(packageName, workspace, version string, o ...func(*storev1alpha1.PackageRevision)) *metav1.PartialObjectMetadata {
	cr := &storev1alpha1.PackageRevision{}
	cr.Name, cr.Namespace, cr.UID = "r."+packageName+"."+workspace, "n", types.UID(packageName+workspace)
	cr.ResourceVersion, cr.Generation = version, 1
	cr.Spec.RepositoryName, cr.Spec.PackageName, cr.Spec.WorkspaceName = "r", packageName, workspace
	for _, o := range o {
		o(cr)
	}
	setPrivateLabels(cr)
	return &metav1.PartialObjectMetadata{ObjectMeta: cr.ObjectMeta}
}

func cloned(cr *storev1alpha1.PackageRevision) {
	cr.Spec.Tasks = []porchv1alpha1.Task{{Type: porchv1alpha1.TaskTypeClone, Clone: &porchv1alpha1.PackageCloneTaskSpec{}}}
}

func touched(cr *storev1alpha1.PackageRevision) { cr.Generation = 2 }

func imported(cr *storev1alpha1.PackageRevision) {
	cr.Status.SelfLock = &porchv1alpha1.Locator{Type: porchv1alpha1.RepositoryTypeGit, Git: &porchv1alpha1.GitLock{Repo: "https://example.com/r.git"}}
}

func createdAt(second int64) func(*storev1alpha1.PackageRevision) {
	return func(cr *storev1alpha1.PackageRevision) { cr.CreationTimestamp = metav1.Unix(second, 0) }
}

// TestSuspects: of two revisions that cannot both be, the later is suspected, and no other.
func TestSuspects(t *testing.T) {
	all := func(list ...*metav1.PartialObjectMetadata) []any {
		var out []any
		for _, m := range list {
			out = append(out, m)
		}
		return out
	}
	for name, tc := range map[string]struct {
		there   []any
		created []*metav1.PartialObjectMetadata
		want    []string
	}{
		"Beside":              {created: []*metav1.PartialObjectMetadata{lying("a/b", "v1", "5"), lying("a/c", "v1", "6"), lying("d", "v1", "7")}},
		"Inside":              {created: []*metav1.PartialObjectMetadata{lying("a", "v1", "5"), lying("a/b/c", "v1", "6")}, want: []string{"r.a/b/c.v1"}},
		"Around":              {created: []*metav1.PartialObjectMetadata{lying("a/b/c", "v1", "5"), lying("a", "v1", "6")}, want: []string{"r.a.v1"}},
		"AnotherRevision":     {created: []*metav1.PartialObjectMetadata{lying("a", "v1", "5", cloned), lying("a", "v2", "6")}},
		"ClonedTwice":         {created: []*metav1.PartialObjectMetadata{lying("a", "v1", "5", cloned), lying("a", "v2", "6", cloned)}, want: []string{"r.a.v2"}},
		"TwiceBefore":         {there: all(lying("a", "v1", "5", cloned, createdAt(10)), lying("a", "v2", "6", cloned, createdAt(12))), want: []string{"r.a.v2"}},
		"RevisionsBefore":     {there: all(lying("a", "v1", "9", cloned, touched, createdAt(10)), lying("a", "v2", "6", createdAt(10)))},
		"EitherBefore":        {there: all(lying("a", "v1", "5"), lying("a/b", "v1", "6")), want: []string{"r.a.v1", "r.a/b.v1"}},
		"OneBefore":           {there: all(lying("a", "v1", "5")), created: []*metav1.PartialObjectMetadata{lying("a/b", "v1", "6")}, want: []string{"r.a/b.v1"}},
		"ImportedInside":      {created: []*metav1.PartialObjectMetadata{lying("a", "v1", "5", imported), lying("a/b", "v1", "6", imported)}},
		"GoneOnWithAndInside": {created: []*metav1.PartialObjectMetadata{lying("a", "v1", "5"), lying("a/b", "v1", "6", touched)}, want: []string{"r.a/b.v1"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlaces()
			if err := p.Replace(tc.there, "1"); err != nil {
				t.Fatal(err)
			}
			for _, m := range tc.created {
				if err := p.Add(m); err != nil {
					t.Fatal(err)
				}
			}
			select {
			case <-p.found:
				if len(tc.want) == 0 {
					t.Error("told that there is a suspect")
				}
			default:
				if len(tc.want) > 0 {
					t.Error("not told")
				}
			}
			var got []string
			for _, name := range p.takeSuspects() {
				got = append(got, name.Name)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			// Who goes is no suspect.
			for _, m := range tc.created {
				p.again(types.NamespacedName{Namespace: "n", Name: m.Name})
				if err := p.Delete(m); err != nil {
					t.Fatal(err)
				}
			}
			if left := p.takeSuspects(); len(left) > 0 || len(tc.there) == 0 && len(p.revisions)+len(p.at) > 0 {
				t.Errorf("left: %v, %v", left, p.at)
			}
		})
	}
}

// TestLook: each sees those that were created before it, however often they were written or listed since.
func TestLook(t *testing.T) {
	p := newPlaces()
	key := placeKey{"n", withinLabel("r", "a"), true}
	if _, watching := p.look(key, 9); watching {
		t.Error("nothing is known yet, and it says otherwise")
	}
	if err := p.Replace([]any{lying("a", "v1", "3")}, "4"); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{p.Add(lying("a", "v2", "5")), p.Add(lying("a", "v3", "7")), p.Update(lying("a", "v2", "8")), p.Add(lying("a/b", "v1", "9"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	names := func(key placeKey, until uint64) (out []string) {
		found, _ := p.look(key, until)
		for _, n := range found {
			out = append(out, n.name)
		}
		slices.Sort(out)
		return out
	}
	for range 2 {
		for until, want := range map[uint64][]string{4: {"r.a.v1"}, 5: {"r.a.v1", "r.a.v2"}, 8: {"r.a.v1", "r.a.v2", "r.a.v3"}} {
			if diff := cmp.Diff(want, names(key, until)); diff != "" {
				t.Errorf("until %d: %s", until, diff)
			}
		}
		inside := placeKey{key.namespace, key.label, false}
		if diff := cmp.Diff([]string{"r.a/b.v1"}, names(inside, 9)); diff != "" {
			t.Error(diff)
		}
		// The watch broke, and all is listed.
		if err := p.Replace([]any{lying("a", "v1", "3"), lying("a", "v2", "8"), lying("a", "v3", "7"), lying("a/b", "v1", "9")}, "9"); err != nil {
			t.Fatal(err)
		}
	}
	// The same name, another revision.
	again := lying("a", "v2", "10")
	again.UID = "other"
	if err := p.Add(again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"r.a.v1", "r.a.v3"}, names(key, 9)); diff != "" {
		t.Error(diff)
	}
}

func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		made := lying("a", "v1", "5")
		name := types.NamespacedName{Namespace: made.Namespace, Name: made.Name}
		if p.await(t.Context(), name, made.UID, time.Minute) {
			t.Error("waited for a watch that there is not")
		}
		if err := p.Replace(nil, "1"); err != nil {
			t.Fatal(err)
		}
		known := make(chan bool)
		go func() { known <- p.await(t.Context(), name, made.UID, time.Minute) }()
		synctest.Wait()
		if err := p.Add(made); err != nil {
			t.Fatal(err)
		}
		if !<-known || !p.await(t.Context(), name, made.UID, time.Minute) {
			t.Error("what was told is not known")
		}
		if p.await(t.Context(), name, "other", time.Minute) {
			t.Error("one of the same name will do")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if p.await(ctx, types.NamespacedName{Namespace: "n", Name: "x"}, "x", time.Minute) || len(p.awaited) > 0 {
			t.Errorf("waits on: %v", p.awaited)
		}
	})
}
