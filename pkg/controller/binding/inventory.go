package binding

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned/typed/cluster/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/logging"
)

// ManagedClusters is the resource that an inventory must serve.
var ManagedClusters = clusterv1.SchemeGroupVersion.WithResource("managedclusters")

// Inventory is an ITS as far as it says which clusters there are.
type Inventory struct {
	// Name of the ITS.
	Name string
	// Connect waits until the ITS is there and serves ManagedClusters, and returns an informer of them (see
	// NewManagedClusterInformer), not started. It fails only when it makes no sense to try again, or the context ended.
	Connect func(ctx context.Context) (cache.SharedIndexInformer, error)
}

// NewManagedClusterInformer returns an informer of ManagedClusters that keeps what decides about destinations and no more:
// at a thousand clusters, claims and conditions would be most of the memory.
func NewManagedClusterInformer(config *rest.Config) (cache.SharedIndexInformer, error) {
	c, err := clusterclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build client for ManagedClusters: %w", err)
	}
	informer, err := client.NewInformer(c.ManagedClusters(), &clusterv1.ManagedCluster{}, nil)
	if err != nil {
		return nil, err
	}
	return informer, informer.SetTransform(keepDestination)
}

func keepDestination(obj any) (any, error) {
	cluster, ok := obj.(*clusterv1.ManagedCluster)
	if !ok {
		return obj, nil
	}
	return &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{
			Name:              cluster.Name,
			UID:               cluster.UID,
			ResourceVersion:   cluster.ResourceVersion,
			Labels:            cluster.Labels,
			DeletionTimestamp: cluster.DeletionTimestamp,
		},
		Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: cluster.Spec.HubAcceptsClient},
	}, nil
}

// inventory is all inventories together. One that cannot be read holds up nothing of the others.
type inventory struct {
	list []Inventory
	// onCluster is told of every change; accepted is false for a cluster that is no destination (any more).
	onCluster func(name string, labels map[string]string, accepted bool)
	// onRead is told when one more inventory was read, and whether that was the last.
	onRead func(all bool)

	mu   sync.Mutex
	read []bool
	// clusters are the clusters of each inventory, by name; nil those that are gone.
	clusters []map[string]*clusterv1.ManagedCluster
}

func newInventory(list []Inventory, onCluster func(string, map[string]string, bool), onRead func(bool)) *inventory {
	v := &inventory{list: list, onCluster: onCluster, onRead: onRead, read: make([]bool, len(list))}
	for range list {
		v.clusters = append(v.clusters, map[string]*clusterv1.ManagedCluster{})
	}
	return v
}

// run starts reading all inventories, and returns.
func (v *inventory) run(ctx context.Context, running *sync.WaitGroup) {
	for i := range v.list {
		running.Go(func() {
			if err := v.runOne(ctx, i); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Cannot read the inventory; its clusters stay as they are", logging.Space, v.list[i].Name)
			}
		})
	}
}

func (v *inventory) runOne(ctx context.Context, i int) error {
	informer, err := v.list[i].Connect(ctx)
	if err != nil {
		return err
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { v.set(i, obj) },
		UpdateFunc: func(_, obj any) { v.set(i, obj) },
		DeleteFunc: func(obj any) { v.remove(i, obj) },
	})
	if err != nil {
		return fmt.Errorf("watch ManagedClusters: %w", err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { informer.RunWithContext(ctx) })
	if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		v.onRead(v.setRead(i))
	}
	return nil
}

func (v *inventory) setRead(i int) (all bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.read[i] = true
	for _, read := range v.read {
		if !read {
			return false
		}
	}
	return true
}

func (v *inventory) set(i int, obj any) {
	if cluster, ok := obj.(*clusterv1.ManagedCluster); ok {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.clusters[i][cluster.Name] = cluster
		v.tell(cluster.Name)
	}
}

func (v *inventory) remove(i int, obj any) {
	if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.clusters[i][name] = nil // it was seen to go, which is more than not to know
		v.tell(name)
	}
}

// tell says what the cluster of that name is now. It is called with the lock held, so that nobody is told of two states in
// the wrong order.
func (v *inventory) tell(name string) {
	for _, clusters := range v.clusters {
		// A cluster that is being deleted is no destination: its hub waits for the works to go.
		if cluster := clusters[name]; cluster != nil && cluster.Spec.HubAcceptsClient && cluster.DeletionTimestamp == nil {
			v.onCluster(name, cluster.Labels, true)
			return
		}
	}
	v.onCluster(name, nil, false)
}

// unread tells whether the cluster could be in an inventory that was not read.
func (v *inventory) unread(name string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	unread := false
	for i, read := range v.read {
		if _, ok := v.clusters[i][name]; ok {
			return false
		}
		unread = unread || !read
	}
	return unread
}

// missing returns the inventories that were not read, as "inventory its1", in their order.
func (v *inventory) missing() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var missing []string
	for i, read := range v.read {
		if !read {
			missing = append(missing, "inventory "+v.list[i].Name)
		}
	}
	return missing
}
