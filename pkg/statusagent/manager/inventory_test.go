package manager

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/starlinghq/starling/pkg/clusters"
)

func TestAccepts(t *testing.T) {
	source := fcache.NewFakeControllerSource()
	for name, change := range map[string]func(*clusterv1.ManagedCluster){
		"accepted": func(*clusterv1.ManagedCluster) {},
		"pending":  func(c *clusterv1.ManagedCluster) { c.Spec.HubAcceptsClient = false },
		"leaving":  func(c *clusterv1.ManagedCluster) { c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
	} {
		cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}}
		change(cluster)
		source.Add(cluster)
	}
	i := &inventory{clusters: clusters.New(clusters.ITS{Name: "its", Connect: func(context.Context) (clusters.Source, error) {
		return clusters.Source{Informer: cache.NewSharedIndexInformer(source, &clusterv1.ManagedCluster{}, 0, nil)}, nil
	}})}
	synced := make(chan struct{})
	i.clusters.OnChange(func(name string) {
		if name == "" {
			close(synced)
		}
	})
	ended := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- i.clusters.Run(ctx) }()
	<-synced
	for name, want := range map[string]bool{"accepted": true, "pending": false, "leaving": false, "missing": false, everywhere: false} {
		if got := i.accepts(name); got != want {
			t.Errorf("accepts(%q) = %t, want %t", name, got, want)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
