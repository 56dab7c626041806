package inventory

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned/typed/cluster/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/clusters"
	coreinventory "github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/logging"
)

// ManagedClusters is the resource that an ITS must serve.
var ManagedClusters = clusterv1.SchemeGroupVersion.WithResource("managedclusters")

// Space is an ITS.
type Space struct {
	// Name of the ITS.
	Name string
	// Connect waits until the ITS serves ManagedClusters, and returns an informer of them, not started. It fails only when it makes no
	// sense to try again, or the context ended.
	Connect func(ctx context.Context) (cache.SharedIndexInformer, error)
}

// Connect returns a Space that waits for an ITS to be reached.
func Connect(name string, options clusters.Options) Space {
	return Space{Name: name, Connect: func(ctx context.Context) (cache.SharedIndexInformer, error) {
		space, err := clusters.WaitConnected(ctx, name, options)
		if err != nil {
			return nil, err
		}
		if err := clusters.WaitForResources(ctx, space, ManagedClusters); err != nil {
			return nil, err
		}
		return NewInformer(space.Config)
	}}
}

// NewInformer returns an informer of ManagedClusters that keeps of each what a Cluster is made of, and no more.
func NewInformer(config *rest.Config) (cache.SharedIndexInformer, error) {
	c, err := clusterclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build client for ManagedClusters: %w", err)
	}
	informer, err := client.NewInformer(c.ManagedClusters(), &clusterv1.ManagedCluster{}, nil)
	if err != nil {
		return nil, err
	}
	return informer, informer.SetTransform(keep)
}

func keep(obj any) (any, error) {
	cluster, ok := obj.(*clusterv1.ManagedCluster)
	if !ok {
		return obj, nil
	}
	annotations := maps.Clone(cluster.Annotations)
	delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	return &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{
			Name: cluster.Name, UID: cluster.UID, ResourceVersion: cluster.ResourceVersion, CreationTimestamp: cluster.CreationTimestamp,
			Labels: cluster.Labels, Annotations: annotations, DeletionTimestamp: cluster.DeletionTimestamp,
		},
		Spec:   clusterv1.ManagedClusterSpec{HubAcceptsClient: cluster.Spec.HubAcceptsClient},
		Status: clusterv1.ManagedClusterStatus{Conditions: coreinventory.Conditions(cluster.Status.Conditions)},
	}, nil
}

// Cluster is a cluster that its ITS accepts. It is shared, and must not be changed.
type Cluster struct {
	Name                string
	UID                 types.UID
	Labels, Annotations map[string]string
}

// Reader reads the ManagedClusters of all ITSes. Make one with New, and Run it once. It is safe for concurrent use.
type Reader struct {
	spaces   []Space
	handlers []func(name string)

	mu   sync.Mutex
	read []bool
	// clusters are those of each ITS, by name.
	clusters []map[string]*clusterv1.ManagedCluster
}

// New returns a Reader that does nothing until Run.
func New(spaces ...Space) *Reader {
	r := &Reader{spaces: spaces, read: make([]bool, len(spaces))}
	for range spaces {
		r.clusters = append(r.clusters, map[string]*clusterv1.ManagedCluster{})
	}
	return r
}

// OnChange has a function be told of each cluster of which Get returns something else now, and, with "", of each ITS that was read:
// what was Unknown may be known now. It must not block. Call it before Run.
func (r *Reader) OnChange(told func(name string)) { r.handlers = append(r.handlers, told) }

// Run reads until the context ends, and waits for all that it started.
func (r *Reader) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for i := range r.spaces {
		running.Go(func() {
			if err := r.run(ctx, i); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Cannot read the inventory; its clusters stay as they are", logging.Space, r.spaces[i].Name)
			}
		})
	}
	<-ctx.Done()
	return nil
}

func (r *Reader) run(ctx context.Context, i int) error {
	informer, err := r.spaces[i].Connect(ctx)
	if err != nil {
		return err
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { r.set(i, obj) },
		UpdateFunc: func(_, obj any) { r.set(i, obj) },
		DeleteFunc: func(obj any) { r.remove(i, obj) },
	})
	if err != nil {
		return fmt.Errorf("watch ManagedClusters: %w", err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { informer.RunWithContext(ctx) })
	if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		r.mu.Lock()
		r.read[i] = true
		r.mu.Unlock()
		r.tell("")
	}
	return nil
}

func (r *Reader) set(i int, obj any) {
	if cluster, ok := obj.(*clusterv1.ManagedCluster); ok {
		r.change(cluster.Name, func() { r.clusters[i][cluster.Name] = cluster })
	}
}

func (r *Reader) remove(i int, obj any) {
	if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
		r.change(name, func() { delete(r.clusters[i], name) })
	}
}

// change makes a change about a cluster, and tells of it if it changes what is known: most changes of ManagedClusters do not.
func (r *Reader) change(name string, do func()) {
	r.mu.Lock()
	before, was := r.get(name)
	do()
	after, is := r.get(name)
	r.mu.Unlock()
	if was != is || !reflect.DeepEqual(before, after) {
		r.tell(name)
	}
}

func (r *Reader) tell(name string) {
	for _, told := range r.handlers {
		told(name)
	}
}

// Get returns what is known of a cluster. The Cluster is nil unless it is Accepted.
func (r *Reader) Get(name string) (*Cluster, coreinventory.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.get(name)
}

func (r *Reader) get(name string) (*Cluster, coreinventory.State) {
	all, leaving := r.all(), false
	candidates := map[int]coreinventory.Candidate{}
	for i := range r.clusters {
		c := r.clusters[i][name]
		switch {
		case c == nil:
		case c.DeletionTimestamp != nil:
			leaving = true
		case c.Spec.HubAcceptsClient:
			candidates[i] = coreinventory.NewCandidate(c, c.Status.Conditions)
		}
	}
	switch bearer, ok := coreinventory.Bearer(candidates, all); {
	case ok:
		c := r.clusters[bearer][name]
		return &Cluster{Name: c.Name, UID: c.UID, Labels: c.Labels, Annotations: c.Annotations}, coreinventory.Accepted
	case !all:
		return nil, coreinventory.Unknown
	case leaving:
		return nil, coreinventory.Leaving
	}
	return nil, coreinventory.Absent
}

func (r *Reader) all() bool { return !slices.Contains(r.read, false) }

// List returns all clusters that are Accepted, sorted by name, and whether every ITS was read: if not, there may be more.
func (r *Reader) List() (list []*Cluster, complete bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := map[string]bool{}
	for _, clusters := range r.clusters {
		for name := range clusters {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if c, state := r.get(name); state == coreinventory.Accepted {
			list = append(list, c)
		}
	}
	return list, r.all()
}

// Ready says which ITSes were not read yet.
func (r *Reader) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var missing []string
	for i, read := range r.read {
		if !read {
			missing = append(missing, r.spaces[i].Name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("ManagedClusters have not been read yet from: %s", strings.Join(missing, ", "))
}
