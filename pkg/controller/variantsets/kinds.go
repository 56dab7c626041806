package variantsets

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	coreinventory "github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/variant"
	"github.com/starlinghq/starling/pkg/dynwatch"
	"github.com/starlinghq/starling/pkg/inventory"
)

// ManagedCluster is the kind whose objects are those of the ITSes, and not those of the WDS.
var ManagedCluster = schema.GroupKind{Group: clusterv1.GroupName, Kind: "ManagedCluster"}

// secret is the one kind in namespaces whose metadata may hold what must not be seen: who wrote one with kubectl apply has put it there.
var secret = schema.GroupKind{Kind: "Secret"}

// Listener is told what becomes of the kinds in use. *Controller is one. Its methods must not block.
type Listener interface {
	OnObject(kind schema.GroupKind, before, after *variant.Metadata)
	OnKind(kind schema.GroupKind)
}

// Kinds knows the objects of the kinds in use, by their metadata: ManagedClusters from the ITSes, all others from the WDS, watched as long as
// they are in use and served. It is safe for concurrent use.
type Kinds struct {
	clusters    *inventory.Reader
	allowed     map[schema.GroupKind]bool
	discovery   *dynwatch.Discovery
	definitions metadata.ResourceInterface
	wanted      *dynwatch.Wanted
	set         *dynwatch.Set

	mu       sync.Mutex
	listener Listener
	use      map[schema.GroupKind]struct{}
	// resources are those of the kinds in use that are watched.
	resources map[schema.GroupKind]dynwatch.Resource
	// going are kinds that were seen to go, with all their objects.
	going map[schema.GroupKind]bool
	// known are the clusters that the listener was told of.
	known map[string]*inventory.Cluster
}

// NewKinds returns Kinds of a WDS. Of kinds without namespaces only those are read that are allowed: whoever may write a
// PackageVariantSet in any namespace sees names, labels and annotations of what it selects. Objects in namespaces are seen in their own.
func NewKinds(wds *rest.Config, clusters *inventory.Reader, allowed []schema.GroupKind) (*Kinds, error) {
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(wds)
	if err != nil {
		return nil, fmt.Errorf("build discovery client: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfig(wds)
	if err != nil {
		return nil, fmt.Errorf("build dynamic client: %w", err)
	}
	metadataClient, err := metadata.NewForConfig(wds)
	if err != nil {
		return nil, fmt.Errorf("build metadata client: %w", err)
	}
	k := &Kinds{
		clusters: clusters, allowed: map[schema.GroupKind]bool{}, discovery: dynwatch.NewDiscovery(discoveryClient, dynamicClient, nil),
		definitions: metadataClient.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")),
		wanted:      dynwatch.NewWanted(), resources: map[schema.GroupKind]dynwatch.Resource{}, going: map[schema.GroupKind]bool{},
		known: map[string]*inventory.Cluster{},
	}
	for _, kind := range allowed {
		k.allowed[kind] = true
	}
	informer := dynwatch.MetadataInformer(metadataClient)
	k.set, err = dynwatch.New(dynwatch.Config{
		Source: k.wanted, Handler: k,
		Informer: func(r dynwatch.Resource) cache.SharedIndexInformer {
			i := informer(r)
			if err := i.SetTransform(keepMetadata); err != nil {
				panic(err) // refused only by an informer that runs
			}
			return i
		},
		Failed: func(r dynwatch.Resource, _ error) { k.tell(r) }, // so that the reason is told
	})
	return k, err
}

// keepMetadata drops what no expression should look at.
func keepMetadata(obj any) (any, error) {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		m.ManagedFields = nil
		delete(m.Annotations, corev1.LastAppliedConfigAnnotation)
	}
	return obj, nil
}

// SetListener has a listener told. It must be called before Run.
func (k *Kinds) SetListener(l Listener) {
	k.listener = l
	if k.clusters != nil {
		k.clusters.OnChange(k.onCluster)
	}
}

// Run watches until the context ends.
func (k *Kinds) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	var failed error
	running.Go(func() { failed = k.discovery.Run(ctx) })
	running.Go(func() { _ = k.set.Run(ctx) }) // always nil
	for {
		select {
		case <-ctx.Done():
			running.Wait()
			return failed
		case <-k.discovery.Changed():
			k.mu.Lock()
			k.resolve()
			use, going := slices.Collect(maps.Keys(k.use)), slices.Collect(maps.Keys(k.going))
			k.mu.Unlock()
			for _, kind := range going { // it may have come back already
				if err := k.Confirm(ctx, kind); err != nil && ctx.Err() == nil {
					klog.FromContext(ctx).Error(err, "Cannot look whether a kind has come back", "kind", kind)
				}
			}
			for _, kind := range use {
				k.listener.OnKind(kind)
			}
		}
	}
}

// Use implements Objects.
func (k *Kinds) Use(kinds map[schema.GroupKind]struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !maps.Equal(k.use, kinds) {
		k.use = kinds
		k.resolve()
	}
}

// resolve wants the resources of the kinds in use; with the lock held.
func (k *Kinds) resolve() {
	served := map[schema.GroupKind]dynwatch.Resource{}
	for _, r := range k.discovery.Resources() {
		kind := schema.GroupKind{Group: r.Group, Kind: r.Kind}
		if _, used := k.use[kind]; !used || kind == ManagedCluster || !k.allows(kind, &r) {
			continue
		}
		if other, ok := served[kind]; !ok || r.Resource < other.Resource { // some kinds have several resources
			served[kind] = r
		}
	}
	maps.DeleteFunc(k.going, func(kind schema.GroupKind, _ bool) bool { _, ok := served[kind]; return !ok })
	k.resources = served
	wanted := map[schema.GroupResource]dynwatch.Resource{}
	for _, r := range served {
		wanted[r.GroupResource()] = r
	}
	k.wanted.Set(wanted)
}

func (k *Kinds) allows(kind schema.GroupKind, r *dynwatch.Resource) bool {
	return k.allowed[kind] || r.Namespaced && kind != secret
}

// List implements Objects.
func (k *Kinds) List(namespace string, kind schema.GroupKind) ([]variant.Metadata, error) {
	if kind == ManagedCluster {
		return k.listClusters()
	}
	r, err := k.resource(kind)
	if err != nil {
		return nil, err
	}
	objects := k.set.List(r.GroupResource())
	all := make([]variant.Metadata, 0, len(objects))
	for _, obj := range objects {
		if !r.Namespaced || obj.GetNamespace() == namespace {
			all = append(all, *metadataOfObject(obj))
		}
	}
	return all, nil
}

// Readable implements Objects.
func (k *Kinds) Readable(kind schema.GroupKind) error {
	if kind == ManagedCluster {
		return k.clustersReadable()
	}
	_, err := k.resource(kind)
	return err
}

// resource returns the resource of a kind whose objects have been read.
func (k *Kinds) resource(kind schema.GroupKind) (dynwatch.Resource, error) {
	k.mu.Lock()
	r, served := k.resources[kind]
	going := k.going[kind]
	k.mu.Unlock()
	switch {
	case going:
		return r, fmt.Errorf("%w any more: its CustomResourceDefinition is being deleted", variant.ErrNotServed)
	case !served:
		return r, k.whyNot(kind)
	case !k.set.Synced(r.GroupResource()):
		return r, k.whyUnread(r)
	}
	return r, nil
}

func (k *Kinds) clustersReadable() error {
	if k.clusters == nil {
		return errors.New("no ITS is known: binding-controller runs without --its")
	}
	if err := k.clusters.Ready(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnread, err)
	}
	return nil
}

func (k *Kinds) listClusters() ([]variant.Metadata, error) {
	if err := k.clustersReadable(); err != nil {
		return nil, err
	}
	clusters, complete := k.clusters.List()
	if !complete {
		return nil, ErrUnread // they were read until just now
	}
	all := make([]variant.Metadata, 0, len(clusters))
	for _, c := range clusters {
		all = append(all, *metadataOfCluster(c))
	}
	return all, nil
}

// Left implements Objects.
func (k *Kinds) Left(r *configv1alpha1.Repository) bool {
	if r.Detached() {
		return true
	}
	if k.clusters == nil || !r.OfCluster() {
		return false
	}
	_, state := k.clusters.Get(r.Name)
	return state != coreinventory.Accepted
}

// whyNot says why a kind is not watched.
func (k *Kinds) whyNot(kind schema.GroupKind) error {
	for _, r := range k.discovery.Resources() {
		if r.Group != kind.Group || r.Kind != kind.Kind {
			continue
		}
		if !k.allows(kind, &r) {
			return fmt.Errorf("may not be selected: whoever may write a PackageVariantSet would see names, labels and annotations of these objects; "+
				"whoever runs binding-controller can allow it with --target-kinds=%s", kind)
		}
		return ErrUnread
	}
	// A resource that nobody has is known not to be served as soon as the group is known.
	if _, known := k.discovery.Serves(&kind.Group, "-"); !known {
		return fmt.Errorf("%w: it is not known yet whether there is such a kind", ErrUnread)
	}
	return variant.ErrNotServed
}

// ErrUnread says that objects could not be read so far.
var ErrUnread = errors.New("the objects have not been read yet")

func (k *Kinds) whyUnread(r dynwatch.Resource) error {
	for _, state := range k.set.Resources() {
		if state.GroupResource() == r.GroupResource() && state.Err != "" {
			return fmt.Errorf("%w: %s", ErrUnread, state.Err)
		}
	}
	return ErrUnread
}

// Confirm implements Objects. A CustomResourceDefinition that is deleted takes its objects with it first, and what is seen of them may be
// seen before.
func (k *Kinds) Confirm(ctx context.Context, kind schema.GroupKind) error {
	k.mu.Lock()
	r, served := k.resources[kind]
	k.mu.Unlock()
	if kind == ManagedCluster || !served || !strings.Contains(kind.Group, ".") {
		return nil
	}
	definition, err := k.definitions.Get(ctx, r.GroupResource().String(), metav1.GetOptions{})
	gone := apierrors.IsNotFound(err)
	if err != nil && !gone {
		return err
	}
	if gone && !k.discovery.Defined(r.GroupResource()) {
		return nil // it never had one
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if gone || definition.DeletionTimestamp != nil {
		k.going[kind] = true
	} else {
		delete(k.going, kind)
	}
	return nil
}

func metadataOfObject(obj metav1.Object) *variant.Metadata {
	return &variant.Metadata{Name: obj.GetName(), Namespace: obj.GetNamespace(), Labels: obj.GetLabels(), Annotations: obj.GetAnnotations()}
}

func metadataOfCluster(c *inventory.Cluster) *variant.Metadata {
	if c == nil {
		return nil
	}
	return &variant.Metadata{Name: c.Name, Labels: c.Labels, Annotations: c.Annotations}
}

// OnChange implements dynwatch.Handler.
func (k *Kinds) OnChange(r dynwatch.Resource, before, after metav1.Object) {
	var was, is *variant.Metadata
	if before != nil {
		was = metadataOfObject(before)
	}
	if after != nil {
		is = metadataOfObject(after)
	}
	if was != nil && is != nil && maps.Equal(was.Labels, is.Labels) && maps.Equal(was.Annotations, is.Annotations) {
		return
	}
	if k.set.Synced(r.GroupResource()) { // until then, nobody could know of it
		k.listener.OnObject(schema.GroupKind{Group: r.Group, Kind: r.Kind}, was, is)
	}
}

// OnSynced implements dynwatch.Handler.
func (k *Kinds) OnSynced(r dynwatch.Resource) { k.tell(r) }

// OnStopped implements dynwatch.Handler.
func (k *Kinds) OnStopped(r dynwatch.Resource) { k.tell(r) }

func (k *Kinds) tell(r dynwatch.Resource) {
	k.listener.OnKind(schema.GroupKind{Group: r.Group, Kind: r.Kind})
}

// onCluster is told of clusters that changed, also where it does not matter here.
func (k *Kinds) onCluster(name string) {
	if name == "" {
		k.listener.OnKind(ManagedCluster)
		return
	}
	now, state := k.clusters.Get(name)
	if state == coreinventory.Unknown {
		return // when it is known, all sets that select clusters are planned
	}
	k.mu.Lock()
	was := k.known[name]
	if now == nil {
		delete(k.known, name)
	} else {
		k.known[name] = now
	}
	k.mu.Unlock()
	if (was == nil) == (now == nil) && (was == nil || maps.Equal(was.Labels, now.Labels) && maps.Equal(was.Annotations, now.Annotations)) {
		return
	}
	k.listener.OnObject(ManagedCluster, metadataOfCluster(was), metadataOfCluster(now))
}
