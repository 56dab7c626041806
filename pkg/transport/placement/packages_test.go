package placement

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/customtransform"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/workload"
)

// shelf is a store of packages that counts how often it is read.
type shelf struct {
	mu        sync.Mutex
	revisions map[string]*storev1alpha1.PackageRevision
	reads     int
	away      bool
	unserved  bool
}

func (s *shelf) Revision(_ context.Context, _, name string) (*storev1alpha1.PackageRevision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.revisions[name]; r != nil {
		return r, nil
	}
	return nil, errors.New("not there")
}

func (s *shelf) Get(_ context.Context, digest string) (kpt.Files, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.away {
		return nil, errors.New("not now")
	}
	return kpt.Files{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: web}\ndata: {of: \"" + digest + "\"}\n"}, nil
}

func (s *shelf) Resource(context.Context, schema.GroupVersionKind) (workload.Resource, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.away:
		return workload.Resource{}, false, errors.New("not now")
	case s.unserved:
		return workload.Resource{}, false, nil
	}
	return workload.Resource{Name: "configmaps", Namespaced: true}, true, nil
}

func (s *shelf) clause(name, digest string) controlv1alpha1.PackageClause {
	r := &storev1alpha1.PackageRevision{}
	r.Spec = porchv1alpha1.PackageRevisionSpec{RepositoryName: name, PackageName: "web", Revision: 1, Lifecycle: porchv1alpha1.LifecyclePublished}
	r.Content.Digest = digest
	s.revisions[name] = r
	return controlv1alpha1.PackageClause{Namespace: "default", Repository: name, Package: "web", Revision: 1, Name: name, Digest: digest}
}

// TestPackagesAreReadOnce: content is read once for each digest and set of CustomTransforms, and is
// forgotten when no Binding lists it.
func TestPackagesAreReadOnce(t *testing.T) {
	store := &shelf{revisions: map[string]*storev1alpha1.PackageRevision{}}
	p := newPackages(store)
	none := func(schema.GroupResource) *customtransform.Instructions { return &customtransform.Instructions{} }
	one, same, other := store.clause("one", "sha256:1"), store.clause("same", "sha256:1"), store.clause("other", "sha256:2")
	type list = []controlv1alpha1.PackageClause
	p.use("b1", list{one})
	p.use("b2", list{same})
	p.use("b3", list{other, one})
	var reading sync.WaitGroup
	for range 20 {
		for _, clause := range (list{one, same, other}) {
			reading.Go(func() {
				found, err := p.find(t.Context(), &clause, none)
				if err != nil || len(found.objects) != 1 || found.objects[0].finding.manifest == nil || !strings.Contains(string(found.objects[0].finding.manifest.JSON), clause.Digest) {
					t.Errorf("%v: %+v, %v", clause, found, err)
				}
			})
		}
	}
	reading.Wait()
	if store.reads != 2 {
		t.Errorf("two contents were read %d times", store.reads)
	}

	// Another CustomTransform is another content; one that is not known holds it.
	for i, digest := range []string{"x", "x", "y"} {
		by := func(schema.GroupResource) *customtransform.Instructions {
			return &customtransform.Instructions{Digest: digest}
		}
		if _, err := p.find(t.Context(), &one, by); err != nil {
			t.Fatal(err)
		}
		if want := []int{3, 3, 4}[i]; store.reads != want {
			t.Errorf("%d: %d reads, want %d", i, store.reads, want)
		}
	}
	unknown := func(schema.GroupResource) *customtransform.Instructions {
		return &customtransform.Instructions{Unknown: []string{"bad"}}
	}
	if found, err := p.find(t.Context(), &one, unknown); err != nil || found.objects[0].finding.manifest != nil {
		t.Errorf("it is not known what to remove, but the object is delivered (%v)", err)
	}

	p.use("b1", nil)
	p.use("b3", list{other})
	if content := p.contents["sha256:1"]; content == nil || content.parcel == nil {
		t.Error("forgotten, though b2 lists it")
	}
	p.use("b2", nil)
	p.use("b3", nil)
	if n := len(p.contents) + len(p.revisions) + len(p.lists); n != 0 {
		t.Errorf("%d things are kept of nothing: %+v", n, p)
	}
	// A gathering that is still under way leaves nothing behind.
	if _, err := p.find(t.Context(), &one, none); err != nil || len(p.contents)+len(p.revisions) != 0 {
		t.Errorf("kept %+v (%v)", p, err)
	}
}

// TestGuessedKinds: the resource of a kind that the WDS does not serve is guessed, and corrected
// when the WDS serves it. While discovery fails, nothing is known of it.
func TestGuessedKinds(t *testing.T) {
	store := &shelf{revisions: map[string]*storev1alpha1.PackageRevision{}, unserved: true}
	p := newPackages(store)
	none := func(schema.GroupResource) *customtransform.Instructions { return &customtransform.Instructions{} }
	clause := store.clause("one", "sha256:1")
	p.use("b", []controlv1alpha1.PackageClause{clause})
	kind := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	for _, step := range []struct {
		name           string
		unserved, away bool
		want           []schema.GroupVersionKind
		wantReads      int
		wantErr        string
	}{
		{"NotServed", true, false, []schema.GroupVersionKind{kind}, 1, ""},
		{"StillNotServed", true, false, []schema.GroupVersionKind{kind}, 1, ""},
		{"DiscoveryFails", true, true, nil, 1, "discovery of its kinds failed"},
		{"Served", false, false, nil, 2, ""},
		{"KnownForGood", true, false, nil, 2, ""},
	} {
		store.unserved, store.away = step.unserved, step.away
		found, err := p.find(t.Context(), &clause, none)
		if step.wantErr != "" {
			if err == nil || !strings.Contains(err.Error(), step.wantErr) {
				t.Errorf("%s: error %v, want %q", step.name, err, step.wantErr)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if diff := cmp.Diff(step.want, found.guessed); diff != "" || store.reads != step.wantReads {
			t.Errorf("%s: read %d times, want %d; guessed (-want +got):\n%s", step.name, store.reads, step.wantReads, diff)
		}
	}
}

// TestPackagesThatCannotBeRead: the reason is reported, and nothing is invented.
func TestPackagesThatCannotBeRead(t *testing.T) {
	store := &shelf{revisions: map[string]*storev1alpha1.PackageRevision{}}
	none := func(schema.GroupResource) *customtransform.Instructions { return &customtransform.Instructions{} }
	good := store.clause("good", "sha256:1")
	for name, tc := range map[string]struct {
		source Packages
		change func()
		want   string
	}{
		"NoStore":  {nil, func() {}, "does not deliver packages"},
		"Draft":    {store, func() { store.revisions["good"].Spec.Lifecycle = porchv1alpha1.LifecycleDraft }, "is Draft"},
		"Digest":   {store, func() { store.revisions["good"].Content.Digest = "sha256:2" }, "has the digest sha256:2"},
		"Gone":     {store, func() { delete(store.revisions, "good") }, "its revision cannot be read"},
		"Content":  {store, func() { store.away = true }, "its content cannot be read"},
		"Another":  {store, func() { store.revisions["good"].Spec.PackageName = "db" }, "of package db"},
		"Unstated": {store, func() { store.revisions["good"].Spec.Lifecycle = "" }, "only published revisions"},
	} {
		t.Run(name, func(t *testing.T) {
			store.away = false
			good = store.clause("good", "sha256:1")
			tc.change()
			p := newPackages(tc.source)
			p.use("b", []controlv1alpha1.PackageClause{good})
			if found, err := p.find(t.Context(), &good, none); err == nil || !strings.Contains(err.Error(), tc.want) || found != nil {
				t.Errorf("%+v, %v, want %q", found, err, tc.want)
			}
		})
	}
}

func BenchmarkPackagesUse(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := newPackages(nil)
			clauses := make([][]controlv1alpha1.PackageClause, n)
			for i := range clauses {
				clauses[i] = []controlv1alpha1.PackageClause{{Name: fmt.Sprint(i), Digest: fmt.Sprint(i)}}
				p.use(fmt.Sprint(i), clauses[i])
			}
			for i := 0; b.Loop(); i++ {
				p.use(fmt.Sprint(i%n), clauses[(i+1)%n])
			}
		})
	}
}

// TestPackageName: a revision that was imported from a tag has no number.
func TestPackageName(t *testing.T) {
	clause := controlv1alpha1.PackageClause{Namespace: "apps", Repository: "edge1", Package: "web", Revision: 2, Name: "edge1.web.w"}
	if got, want := packageName(&clause), "package apps/edge1/web v2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	clause.Revision, clause.Name = -1, "edge1.web.v1-2-3"
	if got, want := packageName(&clause), "package apps/edge1/web, revision edge1.web.v1-2-3"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
