package bindings

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	readinventory "github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/packages/binding"
	"github.com/starlinghq/starling/pkg/packages/informers"
	"github.com/starlinghq/starling/pkg/writer"
)

// server is a WDS, of which the caches may know less.
type server struct {
	err          error
	revisions    map[string]*storev1alpha1.PackageRevision
	repositories map[string]*configv1alpha1.Repository
	reads        int
	writes       []string
}

func get[T any](s *server, of map[string]*T, name string) (*T, error) {
	s.reads++
	if s.err != nil {
		return nil, s.err
	}
	if found := of[name]; found != nil {
		return found, nil
	}
	return nil, apierrors.NewNotFound(storev1alpha1.PackageRevisions.GroupResource(), name)
}

func (s *server) Binding(context.Context, string) (*controlv1alpha1.Binding, error) {
	return nil, errors.New("not expected")
}

func (s *server) Revision(_ context.Context, _, name string) (*storev1alpha1.PackageRevision, error) {
	return get(s, s.revisions, name)
}

func (s *server) Repository(_ context.Context, _, name string) (*configv1alpha1.Repository, error) {
	return get(s, s.repositories, name)
}

func (s *server) Create(context.Context, writer.Target, any, string) (*metav1.PartialObjectMetadata, error) {
	s.writes = append(s.writes, "create")
	return &metav1.PartialObjectMetadata{}, nil
}

func (s *server) Update(_ context.Context, _ writer.Target, obj any, _ string) (*metav1.PartialObjectMetadata, error) {
	b, _ := obj.(*controlv1alpha1.Binding)
	s.writes = append(s.writes, fmt.Sprintf("v%d", b.Spec.Workload.Packages[0].Revision))
	return &metav1.PartialObjectMetadata{}, nil
}

func (s *server) Delete(context.Context, writer.Target, types.UID, string) error {
	s.writes = append(s.writes, "delete")
	return nil
}

func (s *server) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}

// TestStaleCaches: the revision of a Binding is removed only if it does not exist in the API
// server, not if only a cache lacks it.
func TestStaleCaches(t *testing.T) {
	p := binding.Package{Namespace: "default", Repository: "edge1", Name: "web"}
	revision := func(number int, lifecycle porchv1alpha1.PackageRevisionLifecycle) *storev1alpha1.PackageRevision {
		r := &storev1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: fmt.Sprint("edge1.web.w", number)}}
		r.Spec = porchv1alpha1.PackageRevisionSpec{RepositoryName: p.Repository, PackageName: p.Name, WorkspaceName: fmt.Sprint("w", number), Revision: number, Lifecycle: lifecycle}
		r.Content.Digest = fmt.Sprint("sha256:", number)
		return r
	}
	const published = porchv1alpha1.LifecyclePublished
	v1, v2, v3 := revision(1, published), revision(2, published), revision(3, published)
	deleted := revision(2, porchv1alpha1.LifecycleDeletionProposed)
	deleted.DeletionTimestamp = &metav1.Time{}
	elsewhere := revision(2, published)
	elsewhere.Spec.PackageName = "other"
	repository := func(deployment bool) *configv1alpha1.Repository {
		return &configv1alpha1.Repository{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Repository}, Spec: configv1alpha1.RepositorySpec{Deployment: deployment}}
	}
	type revisions = []*storev1alpha1.PackageRevision
	for name, tc := range map[string]struct {
		cached      revisions
		cachedRepo  *configv1alpha1.Repository
		there       *storev1alpha1.PackageRevision // of the name that the Binding carries
		thereRepo   *configv1alpha1.Repository
		unreachable error
		want        string
		wantErr     bool
		wantReads   int
	}{
		"Unchanged":              {cached: revisions{v1, v2}, cachedRepo: repository(true), want: "[]"},
		"Newer":                  {cached: revisions{v2, v3}, cachedRepo: repository(true), want: "[v3]"},
		"Gone":                   {cached: revisions{v1}, cachedRepo: repository(true), want: "[v1]", wantReads: 1},
		"AllGone":                {cachedRepo: repository(true), want: "[delete]", wantReads: 1},
		"NotSeenYet":             {cached: revisions{v1}, cachedRepo: repository(true), there: v2, want: "[]", wantReads: 1},
		"NoneSeenYet":            {cachedRepo: repository(true), there: v2, want: "[]", wantReads: 1},
		"SeenAsADraft":           {cached: revisions{revision(2, porchv1alpha1.LifecycleProposed)}, cachedRepo: repository(true), there: v2, want: "[]", wantReads: 1},
		"DeletedButForItsTag":    {cached: revisions{v1}, cachedRepo: repository(true), there: deleted, want: "[v1]", wantReads: 1},
		"ThatOfAnotherPackage":   {cachedRepo: repository(true), there: elsewhere, want: "[delete]", wantReads: 1},
		"CannotBeRead":           {cachedRepo: repository(true), unreachable: errors.New("away"), want: "[]", wantErr: true, wantReads: 1},
		"NothingDeployedAnyMore": {cached: revisions{v2}, cachedRepo: repository(false), there: v2, thereRepo: repository(false), want: "[delete]", wantReads: 2},
		"DeployedAgain":          {cached: revisions{v2}, cachedRepo: repository(false), there: v2, thereRepo: repository(true), want: "[]", wantReads: 2},
		"RepositoryGone":         {cached: revisions{v2}, cachedRepo: repository(false), there: v2, want: "[]", wantReads: 2},
	} {
		t.Run(name, func(t *testing.T) {
			watch, err := informers.New(&rest.Config{})
			if err != nil {
				t.Fatal(err)
			}
			bindings, err := informers.NewBindings(&rest.Config{})
			if err != nil {
				t.Fatal(err)
			}
			s := &server{err: tc.unreachable, revisions: map[string]*storev1alpha1.PackageRevision{v2.Name: tc.there}, repositories: map[string]*configv1alpha1.Repository{p.Repository: tc.thereRepo}}
			c, err := New(Config{
				Watch: watch, Bindings: bindings, Inventory: readinventory.New(), Namespaces: []string{p.Namespace}, Writer: s, Reader: s, Events: s, Clock: clock.RealClock{},
			})
			if err != nil {
				t.Fatal(err)
			}
			stored := binding.PlanBinding(&binding.Input{Package: p, Revisions: revisions{v2}, Repository: repository(true), Cluster: inventory.Accepted}).Create
			for _, add := range []error{bindings.Informer.GetStore().Add(stored), watch.Repositories.GetStore().Add(tc.cachedRepo)} {
				if add != nil {
					t.Fatal(add)
				}
			}
			for _, r := range tc.cached {
				if err := watch.Revisions.GetStore().Add(r); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := c.sync(t.Context(), p); (err != nil) != tc.wantErr {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(tc.want, fmt.Sprint(s.writes)); diff != "" || s.reads != tc.wantReads {
				t.Errorf("%d reads, want %d; writes (-want +got):\n%s", s.reads, tc.wantReads, diff)
			}
		})
	}
}
