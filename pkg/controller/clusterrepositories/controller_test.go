package clusterrepositories

import (
	"context"
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/inventory"
	"github.com/starlinghq/starling/pkg/packagewatch"
	"github.com/starlinghq/starling/pkg/write"
)

// server is a WDS, of which the caches may know less.
type server struct {
	empty  bool
	err    error
	reads  int
	writes []string
}

func (s *server) Empty(context.Context, string, string) (bool, error) {
	s.reads++
	return s.empty, s.err
}

func (s *server) Create(context.Context, write.Target, any, string) (*metav1.PartialObjectMetadata, error) {
	s.writes = append(s.writes, "create")
	return &metav1.PartialObjectMetadata{}, nil
}

func (s *server) Update(_ context.Context, t write.Target, _ any, _ string) (*metav1.PartialObjectMetadata, error) {
	s.writes = append(s.writes, "update "+t.Subresource)
	return &metav1.PartialObjectMetadata{}, nil
}

func (s *server) Delete(context.Context, write.Target, types.UID, string) error {
	s.writes = append(s.writes, "delete")
	return nil
}

// TestCachesThatAreBehind: the Repository of a cluster that left goes only if nothing is in it where it lies, and not where it was read.
func TestCachesThatAreBehind(t *testing.T) {
	revision := &storev1alpha1.PackageRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "edge1.web.w1"}, Spec: porchv1alpha1.PackageRevisionSpec{RepositoryName: "edge1", PackageName: "web"},
	}
	for name, tc := range map[string]struct {
		cached  *storev1alpha1.PackageRevision
		server  server
		want    string
		wantErr bool
		reads   int
	}{
		"Empty":        {server: server{empty: true}, want: "[delete]", reads: 1},
		"Used":         {cached: revision, want: "[update status]"},
		"NotSeenYet":   {want: "[update status]", reads: 1},
		"CannotBeRead": {server: server{err: errors.New("away")}, want: "[]", wantErr: true, reads: 1},
	} {
		t.Run(name, func(t *testing.T) {
			watch, err := packagewatch.New(&rest.Config{})
			if err != nil {
				t.Fatal(err)
			}
			s := &tc.server
			c, err := New(Config{Watch: watch, Inventory: inventory.New(), Namespaces: []string{"default"}, Writer: s, Reader: s, Clock: clock.RealClock{}})
			if err != nil {
				t.Fatal(err)
			}
			if err := watch.Repositories.GetStore().Add(&configv1alpha1.Repository{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "edge1", Annotations: map[string]string{configv1alpha1.ClusterAnnotation: "edge1"}},
				Spec:       configv1alpha1.RepositorySpec{Deployment: true},
			}); err != nil {
				t.Fatal(err)
			}
			if tc.cached != nil {
				if err := watch.Revisions.GetStore().Add(tc.cached); err != nil {
					t.Fatal(err)
				}
			}
			err = c.sync(t.Context(), types.NamespacedName{Namespace: "default", Name: "edge1"})
			if got := fmt.Sprint(s.writes); got != tc.want || (err != nil) != tc.wantErr || s.reads != tc.reads {
				t.Errorf("wrote %s, want %s; %d reads, want %d; error %v", got, tc.want, s.reads, tc.reads, err)
			}
		})
	}
}
