package store

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

// metadataOf returns the metadata of a revision, as the watch delivers it.
func metadataOf(packageName, workspace, version string, o ...func(*storev1alpha1.PackageRevision)) *metav1.PartialObjectMetadata {
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

// TestSuspects checks that of two conflicting revisions only the later is suspected.
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
		"Beside":              {created: []*metav1.PartialObjectMetadata{metadataOf("a/b", "v1", "5"), metadataOf("a/c", "v1", "6"), metadataOf("d", "v1", "7")}},
		"Inside":              {created: []*metav1.PartialObjectMetadata{metadataOf("a", "v1", "5"), metadataOf("a/b/c", "v1", "6")}, want: []string{"r.a/b/c.v1"}},
		"Around":              {created: []*metav1.PartialObjectMetadata{metadataOf("a/b/c", "v1", "5"), metadataOf("a", "v1", "6")}, want: []string{"r.a.v1"}},
		"AnotherRevision":     {created: []*metav1.PartialObjectMetadata{metadataOf("a", "v1", "5", cloned), metadataOf("a", "v2", "6")}},
		"ClonedTwice":         {created: []*metav1.PartialObjectMetadata{metadataOf("a", "v1", "5", cloned), metadataOf("a", "v2", "6", cloned)}, want: []string{"r.a.v2"}},
		"TwiceBefore":         {there: all(metadataOf("a", "v1", "5", cloned, createdAt(10)), metadataOf("a", "v2", "6", cloned, createdAt(12))), want: []string{"r.a.v2"}},
		"RevisionsBefore":     {there: all(metadataOf("a", "v1", "9", cloned, touched, createdAt(10)), metadataOf("a", "v2", "6", createdAt(10)))},
		"EitherBefore":        {there: all(metadataOf("a", "v1", "5"), metadataOf("a/b", "v1", "6")), want: []string{"r.a.v1", "r.a/b.v1"}},
		"OneBefore":           {there: all(metadataOf("a", "v1", "5")), created: []*metav1.PartialObjectMetadata{metadataOf("a/b", "v1", "6")}, want: []string{"r.a/b.v1"}},
		"ImportedInside":      {created: []*metav1.PartialObjectMetadata{metadataOf("a", "v1", "5", imported), metadataOf("a/b", "v1", "6", imported)}},
		"GoneOnWithAndInside": {created: []*metav1.PartialObjectMetadata{metadataOf("a", "v1", "5"), metadataOf("a/b", "v1", "6", touched)}, want: []string{"r.a/b.v1"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newLayoutIndex()
			if err := p.Replace(tc.there, "1"); err != nil {
				t.Fatal(err)
			}
			for _, m := range tc.created {
				if err := p.Add(m); err != nil {
					t.Fatal(err)
				}
			}
			select {
			case <-p.suspected:
				if len(tc.want) == 0 {
					t.Error("notified of a suspect")
				}
			default:
				if len(tc.want) > 0 {
					t.Error("not notified of the suspects")
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
			// A deleted revision is not suspected.
			for _, m := range tc.created {
				p.suspectAgain(types.NamespacedName{Namespace: "n", Name: m.Name})
				if err := p.Delete(m); err != nil {
					t.Fatal(err)
				}
			}
			if left := p.takeSuspects(); len(left) > 0 || len(tc.there) == 0 && len(p.revisions)+len(p.byLabel) > 0 {
				t.Errorf("left: %v, %v", left, p.byLabel)
			}
		})
	}
}

// TestFind checks that a creation finds the revisions that were created before it, even if they
// were written or listed since.
func TestFind(t *testing.T) {
	p := newLayoutIndex()
	key := layoutKey{"n", withinLabel("r", "a"), true}
	if _, watching := p.find(key, 9); watching {
		t.Error("nothing is known yet, and it says otherwise")
	}
	if err := p.Replace([]any{metadataOf("a", "v1", "3")}, "4"); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{p.Add(metadataOf("a", "v2", "5")), p.Add(metadataOf("a", "v3", "7")), p.Update(metadataOf("a", "v2", "8")), p.Add(metadataOf("a/b", "v1", "9"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	names := func(key layoutKey, until uint64) (out []string) {
		found, _ := p.find(key, until)
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
		inside := layoutKey{key.namespace, key.label, false}
		if diff := cmp.Diff([]string{"r.a/b.v1"}, names(inside, 9)); diff != "" {
			t.Error(diff)
		}
		// The watch broke, and everything is listed.
		if err := p.Replace([]any{metadataOf("a", "v1", "3"), metadataOf("a", "v2", "8"), metadataOf("a", "v3", "7"), metadataOf("a/b", "v1", "9")}, "9"); err != nil {
			t.Fatal(err)
		}
	}
	// Another revision with the same name.
	again := metadataOf("a", "v2", "10")
	again.UID = "other"
	if err := p.Add(again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"r.a.v1", "r.a.v3"}, names(key, 9)); diff != "" {
		t.Error(diff)
	}
}

func TestWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newLayoutIndex()
		made := metadataOf("a", "v1", "5")
		name := types.NamespacedName{Namespace: made.Namespace, Name: made.Name}
		if p.waitFor(t.Context(), name, made.UID, time.Minute) {
			t.Error("waited for a watch that there is not")
		}
		if err := p.Replace(nil, "1"); err != nil {
			t.Fatal(err)
		}
		known := make(chan bool)
		go func() { known <- p.waitFor(t.Context(), name, made.UID, time.Minute) }()
		synctest.Wait()
		if err := p.Add(made); err != nil {
			t.Fatal(err)
		}
		if !<-known || !p.waitFor(t.Context(), name, made.UID, time.Minute) {
			t.Error("what was notified is not known")
		}
		if p.waitFor(t.Context(), name, "other", time.Minute) {
			t.Error("one of the same name will do")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if p.waitFor(ctx, types.NamespacedName{Namespace: "n", Name: "x"}, "x", time.Minute) || len(p.waiters) > 0 {
			t.Errorf("waits on: %v", p.waiters)
		}
	})
}
