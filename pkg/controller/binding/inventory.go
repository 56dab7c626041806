package binding

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned/typed/cluster/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	coreinventory "github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/write"
)

// ManagedClusters is the resource that an inventory must serve.
var ManagedClusters = clusterv1.SchemeGroupVersion.WithResource("managedclusters")

// Inventory is an ITS as far as it says which clusters there are.
type Inventory struct {
	// Name of the ITS.
	Name string
	// Connect waits until the ITS is there and serves ManagedClusters. It fails only when it makes no sense to try again, or
	// the context ended.
	Connect func(ctx context.Context) (*Connection, error)
}

// Connection is an ITS that answered.
type Connection struct {
	// Clusters is an informer of its ManagedClusters, not started.
	Clusters cache.SharedIndexInformer
	// Writer writes to it: a condition on ManagedClusters whose name another one bears.
	Writer Writer
}

// NewConnection returns a Connection that keeps of ManagedClusters what decides about destinations and no more: at a thousand
// clusters, claims and conditions would be most of the memory.
func NewConnection(name string, config *rest.Config) (*Connection, error) {
	c, err := clusterclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build client for ManagedClusters: %w", err)
	}
	informer, err := client.NewInformer(c.ManagedClusters(), &clusterv1.ManagedCluster{}, nil)
	if err != nil {
		return nil, err
	}
	if err := informer.SetTransform(keepDestination); err != nil {
		return nil, err
	}
	writer, err := write.New(config, name, "binding-controller")
	return &Connection{Clusters: informer, Writer: writer}, err
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
			CreationTimestamp: cluster.CreationTimestamp,
			Labels:            cluster.Labels,
			DeletionTimestamp: cluster.DeletionTimestamp,
		},
		Spec:   clusterv1.ManagedClusterSpec{HubAcceptsClient: cluster.Spec.HubAcceptsClient},
		Status: clusterv1.ManagedClusterStatus{Conditions: coreinventory.Conditions(cluster.Status.Conditions)},
	}, nil
}

// inventory is all inventories together. One that cannot be read holds up nothing of the others.
type inventory struct {
	list  []Inventory
	clock clock.WithTicker
	// onCluster is told of every change; accepted is false for a cluster that is no destination (any more).
	onCluster func(name string, labels map[string]string, accepted bool)
	// onRead is told when one more inventory was read, and whether that was the last.
	onRead func(all bool)
	// marks are the clusters whose mark, the condition NameTaken, is to be looked at.
	marks workqueue.TypedRateLimitingInterface[place]

	mu      sync.Mutex
	read    []bool
	writers []Writer
	// clusters are the clusters of each inventory, by name; nil those that are gone.
	clusters []map[string]*clusterv1.ManagedCluster
}

// place is a cluster of one inventory.
type place struct {
	inventory int
	name      string
}

func newInventory(list []Inventory, clock clock.WithTicker, onCluster func(string, map[string]string, bool), onRead func(bool)) *inventory {
	v := &inventory{
		list: list, clock: clock, onCluster: onCluster, onRead: onRead,
		marks: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[place](100*time.Millisecond, time.Minute),
			workqueue.TypedRateLimitingQueueConfig[place]{Name: "cluster-names", Clock: clock}),
		read: make([]bool, len(list)), writers: make([]Writer, len(list)),
	}
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

// runMarks marks clusters whose name another one bears, until the queue is shut down.
func (v *inventory) runMarks(ctx context.Context, running *sync.WaitGroup) {
	running.Go(func() {
		for {
			at, shutdown := v.marks.Get()
			if shutdown {
				return
			}
			if err := v.mark(ctx, at); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).V(2).Info("Cannot mark the cluster; trying again", logging.Space, v.list[at.inventory].Name, "cluster", at.name, logging.Reason, err.Error())
				v.marks.AddRateLimited(at)
			} else {
				v.marks.Forget(at)
			}
			v.marks.Done(at)
		}
	})
}

func (v *inventory) runOne(ctx context.Context, i int) error {
	connection, err := v.list[i].Connect(ctx)
	if err != nil {
		return err
	}
	v.mu.Lock()
	v.writers[i] = connection.Writer
	v.mu.Unlock()
	registration, err := connection.Clusters.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { v.set(i, obj) },
		UpdateFunc: func(_, obj any) { v.set(i, obj) },
		DeleteFunc: func(obj any) { v.remove(i, obj) },
	})
	if err != nil {
		return fmt.Errorf("watch ManagedClusters: %w", err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { connection.Clusters.RunWithContext(ctx) })
	if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		v.onRead(v.setRead(i))
	}
	return nil
}

func (v *inventory) setRead(i int) (all bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.read[i] = true
	if !v.allRead() {
		return false
	}
	// Now it is known who bears the names of those that were refused.
	for _, clusters := range v.clusters {
		for name, cluster := range clusters {
			if cluster != nil && refused(cluster) {
				v.tell(name)
			}
		}
	}
	return true
}

func (v *inventory) allRead() bool {
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
		if before := v.clusters[i][name]; before != nil && refused(before) {
			delete(v.clusters[i], name) // it was not the one that is meant by the name
		} else {
			v.clusters[i][name] = nil // it was seen to go, which is more than not to know
		}
		v.tell(name)
	}
}

// tell says what the cluster of that name is now. It is called with the lock held, so that nobody is told of two states in
// the wrong order.
func (v *inventory) tell(name string) {
	candidates := v.candidates(name)
	bearer, ok := coreinventory.Bearer(candidates, v.allRead())
	if ok {
		v.onCluster(name, v.clusters[bearer][name].Labels, true)
	} else {
		v.onCluster(name, nil, false)
	}
	for i := range candidates {
		if bears := ok && i == bearer; bears == refused(v.clusters[i][name]) {
			v.marks.Add(place{i, name})
		}
	}
}

// candidates returns the clusters of that name that are accepted, by inventory. One that is being deleted is none: its hub
// waits for the works to go.
func (v *inventory) candidates(name string) map[int]coreinventory.Candidate {
	candidates := map[int]coreinventory.Candidate{}
	for i, clusters := range v.clusters {
		if c := clusters[name]; c != nil && c.Spec.HubAcceptsClient && c.DeletionTimestamp == nil {
			candidates[i] = coreinventory.NewCandidate(c, c.Status.Conditions)
		}
	}
	return candidates
}

// mark brings the condition NameTaken of one cluster up to date.
func (v *inventory) mark(ctx context.Context, at place) error {
	v.mu.Lock()
	cluster, writer := v.clusters[at.inventory][at.name], v.writers[at.inventory]
	candidates := v.candidates(at.name)
	bearer, borne := coreinventory.Bearer(candidates, v.allRead())
	v.mu.Unlock()
	_, accepted := candidates[at.inventory]
	if bears := borne && at.inventory == bearer; !accepted || writer == nil || bears != refused(cluster) {
		return nil
	}
	conditions := []metav1.Condition{}
	if !refused(cluster) {
		conditions = append(conditions, metav1.Condition{
			Type: controlv1alpha1.ManagedClusterConditionNameTaken, Status: metav1.ConditionTrue, Reason: controlv1alpha1.ReasonNameTaken,
			Message: fmt.Sprintf("a cluster %s of the ITS %s was accepted earlier; nothing is delivered here until one of the two leaves, "+
				"or joins under another name", at.name, v.list[bearer].Name),
			LastTransitionTime: metav1.NewTime(v.clock.Now()),
		})
	}
	apply, err := json.Marshal(map[string]any{
		"apiVersion": clusterv1.SchemeGroupVersion.String(), "kind": "ManagedCluster",
		"metadata": map[string]any{"name": at.name, "uid": cluster.UID},
		"status":   map[string]any{"conditions": conditions},
	})
	if err != nil {
		return err
	}
	target := write.Target{Resource: ManagedClusters, Name: at.name, Subresource: "status"}
	_, err = writer.Patch(ctx, target, types.ApplyPatchType, apply, reasonNameTaken)
	return ignoreNotFound(err)
}

func refused(cluster *clusterv1.ManagedCluster) bool {
	return meta.IsStatusConditionTrue(cluster.Status.Conditions, controlv1alpha1.ManagedClusterConditionNameTaken)
}

// unread tells whether the cluster could be in an inventory that was not read. One that was refused says nothing about the
// one that bears the name.
func (v *inventory) unread(name string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	unread := false
	for i, read := range v.read {
		if cluster, ok := v.clusters[i][name]; ok && (cluster == nil || !refused(cluster)) {
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
