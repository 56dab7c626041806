package variants

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/variant/mutation"
	"github.com/starlinghq/starling/pkg/dynwatch"
)

// secret is the kind that is never injected: what is injected stands in packages, which many may read and which lie in git.
var secret = schema.GroupKind{Kind: "Secret"}

// Listener is told what becomes of objects of the kinds in use. *Controller is one. Its methods must not block.
type Listener interface {
	OnObject(kind schema.GroupKind, namespace, name string)
	OnKind(kind schema.GroupKind)
}

// Kinds knows the objects of the kinds in use: it watches that they change, and reads them when they are injected. It is safe for concurrent
// use.
//
// Who may write PackageVariants in a namespace has what its objects hold copied into packages; so objects with namespaces are read in that of
// the PackageVariant, and of kinds without, only those that are allowed.
type Kinds struct {
	allowed   map[schema.GroupKind]bool
	discovery *dynwatch.Discovery
	objects   dynamic.Interface
	metadata  metadata.Interface
	wanted    *dynwatch.Wanted
	set       *dynwatch.Set
	listener  Listener
	clock     clock.PassiveClock

	mu  sync.Mutex
	use map[schema.GroupKind]time.Time // since when
	// resources are those of the kinds in use that are watched.
	resources map[schema.GroupKind]dynwatch.Resource
}

// NewKinds returns Kinds of a WDS. Allowed are kinds without namespaces whose objects may be injected.
func NewKinds(wds *rest.Config, allowed []schema.GroupKind, c clock.PassiveClock) (*Kinds, error) {
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
		allowed: map[schema.GroupKind]bool{}, discovery: dynwatch.NewDiscovery(discoveryClient, dynamicClient, nil), objects: dynamicClient,
		metadata: metadataClient, wanted: dynwatch.NewWanted(), clock: c, resources: map[schema.GroupKind]dynwatch.Resource{},
	}
	for _, kind := range allowed {
		k.allowed[kind] = true
	}
	informer := dynwatch.MetadataInformer(metadataClient)
	k.set, err = dynwatch.New(dynwatch.Config{Source: k.wanted, Handler: k, Informer: func(r dynwatch.Resource) cache.SharedIndexInformer {
		i := informer(r)
		if err := i.SetTransform(keepIdentity); err != nil {
			panic(err) // refused only by an informer that runs
		}
		return i
	}})
	return k, err
}

// keepIdentity drops all but what tells that an object changed.
func keepIdentity(obj any) (any, error) {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		return &metav1.PartialObjectMetadata{TypeMeta: m.TypeMeta, ObjectMeta: metav1.ObjectMeta{
			Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		}}, nil
	}
	return obj, nil
}

// SetListener has a listener told. It must be called before Run.
func (k *Kinds) SetListener(l Listener) { k.listener = l }

// Run watches until the context ends.
func (k *Kinds) Run(ctx context.Context) error {
	var running sync.WaitGroup
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
			before := k.resources
			k.resolve()
			var changed []schema.GroupKind
			for kind := range k.use {
				was, is := before[kind], k.resources[kind]
				if was != is || is.Resource == "" { // or it is known now that it is not served
					changed = append(changed, kind)
				}
			}
			k.mu.Unlock()
			for _, kind := range changed {
				k.listener.OnKind(kind)
			}
		}
	}
}

// Use implements Objects.
func (k *Kinds) Use(kinds map[schema.GroupKind]struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	use := make(map[schema.GroupKind]time.Time, len(kinds))
	for kind := range kinds {
		if since, used := k.use[kind]; used {
			use[kind] = since
		} else {
			use[kind] = k.clock.Now()
		}
	}
	k.use = use
	k.resolve()
}

// resolve wants the resources of the kinds in use; with the lock held.
func (k *Kinds) resolve() {
	served := map[schema.GroupKind]dynwatch.Resource{}
	wanted := map[schema.GroupResource]dynwatch.Resource{}
	for kind := range k.use {
		if r, ok := k.find(kind); ok && k.refuses(kind, &r) == nil {
			served[kind] = r
			wanted[r.GroupResource()] = r
		}
	}
	if !maps.Equal(k.resources, served) {
		k.resources = served
	}
	k.wanted.Set(wanted)
}

// find returns the resource of a kind. Some kinds have several.
func (k *Kinds) find(kind schema.GroupKind) (found dynwatch.Resource, ok bool) {
	for _, r := range k.discovery.Resources() {
		if r.Group == kind.Group && r.Kind == kind.Kind && (!ok || r.Resource < found.Resource) {
			found, ok = r, true
		}
	}
	return found, ok
}

// refuses says why objects of a kind are not injected, nil if they are.
func (k *Kinds) refuses(kind schema.GroupKind, r *dynwatch.Resource) error {
	switch {
	case kind == secret:
		return tell("it is not injected: what a Secret holds would stand in the package")
	case !r.Namespaced && !k.allowed[kind]:
		return tell("it may not be injected: whoever may write a PackageVariant could read objects of this kind, which has no namespaces; "+
			"whoever runs binding-controller can allow it with --injected-kinds=%s", kind)
	}
	return nil
}

// unserved says why there is no resource of a kind.
func (k *Kinds) unserved(group string) error {
	// A resource that nobody has is known not to be served as soon as the group is known.
	if _, known := k.discovery.Serves(&group, "-"); !known {
		return fmt.Errorf("it is not known yet whether the kind is served")
	}
	return mutation.ErrNotServed
}

// readPatience is how long the objects of a kind may take to be read. After that, single objects are.
const readPatience = 10 * time.Second

// notServed is the version of objects of kinds that are not served: what a package says of these changes when the kind comes or goes.
const notServed = "not served"

// Version implements Objects.
func (k *Kinds) Version(ctx context.Context, namespace string, o configv1alpha1.InjectedObject) (version string, known bool, err error) {
	kind := schema.GroupKind{Group: o.Group, Kind: o.Kind}
	k.mu.Lock()
	r, watched := k.resources[kind]
	since, used := k.use[kind]
	k.mu.Unlock()
	if !watched {
		r, served := k.find(kind)
		if !served {
			_, known := k.discovery.Serves(&o.Group, "-")
			return notServed, known, nil
		}
		// What is refused has no version: that is told when it is to be injected. What is not, is about to be watched.
		refused := k.refuses(kind, &r)
		return "", !used || refused != nil, nil
	}
	if !r.Namespaced {
		namespace = ""
	}
	if k.set.Synced(r.GroupResource()) {
		if obj, there := k.set.Get(objref.New(r.GroupResource(), namespace, o.Name)); there {
			version = versionOf(obj)
		}
		return version, true, nil
	}
	if k.clock.Since(since) < readPatience {
		return "", false, nil
	}
	obj, err := k.metadata.Resource(r.GroupVersionResource).Namespace(namespace).Get(ctx, o.Name, metav1.GetOptions{})
	if err == nil {
		version = versionOf(obj)
	} else if !apierrors.IsNotFound(err) {
		return "", false, err
	}
	return version, true, nil
}

// versionOf is what changes when what is injected of an object may have changed: the status does not count, where it is told apart.
func versionOf(obj metav1.Object) string {
	if generation := obj.GetGeneration(); generation > 0 {
		return fmt.Sprintf("%s/%d", obj.GetUID(), generation)
	}
	return fmt.Sprintf("%s@%s", obj.GetUID(), obj.GetResourceVersion())
}

// Get implements Objects.
func (k *Kinds) Get(ctx context.Context, namespace string, kind schema.GroupVersionKind, name string) (object map[string]any, version string, err error) {
	r, served := k.find(kind.GroupKind())
	if !served {
		return nil, "", k.unserved(kind.Group)
	}
	if err := k.refuses(kind.GroupKind(), &r); err != nil {
		return nil, "", err
	}
	if !r.Namespaced {
		namespace = ""
	}
	obj, err := k.objects.Resource(kind.GroupVersion().WithResource(r.Resource)).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return nil, "", mutation.ErrNotServed // not in this version
	case apierrors.IsNotFound(err):
		return nil, "", nil
	case err != nil:
		return nil, "", err
	}
	return obj.Object, versionOf(obj), nil
}

// OnChange implements dynwatch.Handler.
func (k *Kinds) OnChange(r dynwatch.Resource, before, after metav1.Object) {
	one := after
	if one == nil {
		one = before
	}
	if before != nil && after != nil && versionOf(before) == versionOf(after) {
		return
	}
	if k.set.Synced(r.GroupResource()) { // until then, nobody could know of it
		k.listener.OnObject(schema.GroupKind{Group: r.Group, Kind: r.Kind}, one.GetNamespace(), one.GetName())
	}
}

// OnSynced implements dynwatch.Handler.
func (k *Kinds) OnSynced(r dynwatch.Resource) {
	k.listener.OnKind(schema.GroupKind{Group: r.Group, Kind: r.Kind})
}

// OnStopped implements dynwatch.Handler.
func (k *Kinds) OnStopped(r dynwatch.Resource) { k.OnSynced(r) }
