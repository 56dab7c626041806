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
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/packages/informers"
	"github.com/starlinghq/starling/pkg/writer"
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

func (s *server) Create(context.Context, writer.Target, any, string) (*metav1.PartialObjectMetadata, error) {
	s.writes = append(s.writes, "create")
	return &metav1.PartialObjectMetadata{}, nil
}

func (s *server) Update(_ context.Context, t writer.Target, _ any, _ string) (*metav1.PartialObjectMetadata, error) {
	s.writes = append(s.writes, "update "+t.Subresource)
	return &metav1.PartialObjectMetadata{}, nil
}

func (s *server) Delete(context.Context, writer.Target, types.UID, string) error {
	s.writes = append(s.writes, "delete")
	return nil
}

// TestStaleCaches: the Repository of a cluster that left is deleted only if it is empty in the API
// server, not only in a cache.
func TestStaleCaches(t *testing.T) {
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
			watch, err := informers.New(&rest.Config{})
			if err != nil {
				t.Fatal(err)
			}
			s := &tc.server
			c, err := New(Config{Watch: watch, Inventory: clusters.New(), Namespaces: []string{"default"}, Writer: s, Empty: s.Empty, Clock: clock.RealClock{}})
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
			_, err = c.sync(t.Context(), types.NamespacedName{Namespace: "default", Name: "edge1"})
			if got := fmt.Sprint(s.writes); got != tc.want || (err != nil) != tc.wantErr || s.reads != tc.reads {
				t.Errorf("wrote %s, want %s; %d reads, want %d; error %v", got, tc.want, s.reads, tc.reads, err)
			}
		})
	}
}
