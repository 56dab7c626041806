package dynamicinformer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// KindHandler receives what changes about the kinds in use. Its methods must not block.
type KindHandler interface {
	// OnObject reports that an object was added (before is nil), changed, or deleted (after is
	// nil). Objects that existed when the watch of their kind started are not reported one by one:
	// OnKind is.
	OnObject(r Resource, before, after metav1.Object)
	// OnKind reports that all objects of a kind have been read, that they can no longer be read, or
	// why they cannot.
	OnKind(kind schema.GroupKind)
}

// KindsConfig is what Kinds are made of. All fields are required but Changed.
type KindsConfig struct {
	// Space is the API server.
	Space *rest.Config
	// Transform drops what is not needed of the metadata of an object. It keeps name, namespace,
	// UID and resourceVersion. An object may be transformed again, without managedFields.
	Transform func(*metav1.PartialObjectMetadata)
	// Allowed reports whether the objects of a kind may be watched.
	Allowed func(schema.GroupKind, Resource) bool
	// Handler receives changes.
	Handler KindHandler
	// Changed, if not nil, is called after the resources of the space changed, before the Handler.
	Changed func(context.Context)
}

// Kinds watches the metadata of the objects of the kinds in use, as long as the space serves them.
// It is safe for concurrent use.
type Kinds struct {
	*Discovery
	*Set
	// Metadata and Dynamic read the same space.
	Metadata metadata.Interface
	Dynamic  dynamic.Interface

	config KindsConfig
	wanted *Wanted

	mu        sync.Mutex
	use       map[schema.GroupKind]struct{}
	resources map[schema.GroupKind]Resource // those that are watched
}

// NewKinds returns Kinds that watch nothing until Run and Use.
func NewKinds(config KindsConfig) (*Kinds, error) {
	discoveryClient, discoveryErr := discovery.NewDiscoveryClientForConfig(config.Space)
	dynamicClient, dynamicErr := dynamic.NewForConfig(config.Space)
	metadataClient, metadataErr := metadata.NewForConfig(WithoutRetries(config.Space))
	if err := errors.Join(discoveryErr, dynamicErr, metadataErr); err != nil {
		return nil, fmt.Errorf("build clients: %w", err)
	}
	k := &Kinds{
		Discovery: NewDiscovery(discoveryClient, dynamicClient, nil), Metadata: metadataClient, Dynamic: dynamicClient,
		config: config, wanted: NewWanted(), resources: map[schema.GroupKind]Resource{},
	}
	informer := MetadataInformer(metadataClient)
	var err error
	k.Set, err = New(Config{
		Source: k.wanted, Handler: kindsHandler{k},
		Informer: func(r Resource) cache.SharedIndexInformer {
			return transformed(informer(r), func(obj any) (any, error) {
				if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
					config.Transform(m)
					m.ManagedFields = nil
				}
				return obj, nil
			})
		},
		Failed: func(r Resource, _ error) { config.Handler.OnKind(r.GroupKind()) },
	})
	return k, err
}

// Run watches until the context ends.
func (k *Kinds) Run(ctx context.Context) error {
	var running sync.WaitGroup
	var failed error
	running.Go(func() { failed = k.Discovery.Run(ctx) })
	running.Go(func() { _ = k.Set.Run(ctx) }) // always nil
	for {
		select {
		case <-ctx.Done():
			running.Wait()
			return failed
		case <-k.Discovery.Changed():
			changed := k.resolveAll()
			if k.config.Changed != nil {
				k.config.Changed(ctx)
			}
			for _, kind := range changed {
				k.config.Handler.OnKind(kind)
			}
		}
	}
}

// Use replaces the kinds in use. The map is not changed afterwards.
func (k *Kinds) Use(kinds map[schema.GroupKind]struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !maps.Equal(k.use, kinds) {
		k.use = kinds
		k.resolve()
	}
}

// resolveAll finds the resources of the kinds in use, and returns the kinds whose resource changed,
// and those without one: it may be known now that the space does not serve them.
func (k *Kinds) resolveAll() (changed []schema.GroupKind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.resources
	k.resolve()
	for kind := range k.use {
		if resource, watched := k.resources[kind]; !watched || resource != before[kind] {
			changed = append(changed, kind)
		}
	}
	return changed
}

// resolve watches the resources of the kinds in use. The caller holds the mutex.
func (k *Kinds) resolve() {
	resources := map[schema.GroupKind]Resource{}
	wanted := map[schema.GroupResource]Resource{}
	for kind := range k.use {
		if r, served := k.Find(kind); served && k.config.Allowed(kind, r) {
			resources[kind] = r
			wanted[r.GroupResource()] = r
		}
	}
	k.resources = resources
	k.wanted.Set(wanted)
}

// Find returns the resource of a kind that the space serves, whether it is watched or not. Of
// several, it is the first by name.
func (k *Kinds) Find(kind schema.GroupKind) (found Resource, served bool) {
	for _, r := range k.Discovery.Resources() {
		if r.GroupKind() == kind && (!served || r.Resource < found.Resource) {
			found, served = r, true
		}
	}
	return found, served
}

// Watched returns the resource of a kind that is watched.
func (k *Kinds) Watched(kind schema.GroupKind) (Resource, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r, ok := k.resources[kind]
	return r, ok
}

// KnownUnserved reports whether it is certain that the space serves no kind of the group that Find
// does not find.
func (k *Kinds) KnownUnserved(group string) bool {
	// A resource that does not exist is known not to be served as soon as its group is known.
	_, known := k.Serves(&group, "-")
	return known
}

// kindsHandler makes changes of resources changes of kinds.
type kindsHandler struct{ *Kinds }

// OnChange implements Handler.
func (h kindsHandler) OnChange(r Resource, before, after metav1.Object) {
	if h.Synced(r.GroupResource()) { // OnSynced reports all that is read before
		h.config.Handler.OnObject(r, before, after)
	}
}

// OnSynced implements Handler.
func (h kindsHandler) OnSynced(r Resource) { h.config.Handler.OnKind(r.GroupKind()) }

// OnStopped implements Handler.
func (h kindsHandler) OnStopped(r Resource) { h.config.Handler.OnKind(r.GroupKind()) }
