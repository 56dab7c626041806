package variants

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packages/variant/mutation"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
)

// secret is the kind that is never injected: what is injected is in packages, which many may read
// and which are in git.
var secret = schema.GroupKind{Kind: "Secret"}

// Kinds reads objects that are injected, and watches them for changes. It is safe for concurrent
// use.
//
// Objects of the kinds in use are copied into packages of those who may write PackageVariants. So
// namespaced objects are read only in the namespace of the PackageVariant, and cluster-scoped ones
// only of allowed kinds.
type Kinds struct {
	*dynamicinformer.Kinds

	allowed []schema.GroupKind
	clock   clock.PassiveClock

	mu    sync.Mutex
	since map[schema.GroupKind]time.Time // when a kind came into use
}

// NewKinds returns Kinds of a WDS. Allowed are the cluster-scoped kinds whose objects may be
// injected.
func NewKinds(wds *rest.Config, allowed []schema.GroupKind, c clock.PassiveClock, handler dynamicinformer.KindHandler) (*Kinds, error) {
	k := &Kinds{allowed: allowed, clock: c}
	var err error
	k.Kinds, err = dynamicinformer.NewKinds(dynamicinformer.KindsConfig{
		Space: wds, Transform: keepIdentity, Handler: handler,
		Allowed: func(kind schema.GroupKind, r dynamicinformer.Resource) bool { return k.refusal(kind, r) == nil },
	})
	return k, err
}

// keepIdentity drops all but what changes with an object.
func keepIdentity(m *metav1.PartialObjectMetadata) {
	m.ObjectMeta = metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
	}
}

// Use implements Objects.
func (k *Kinds) Use(kinds map[schema.GroupKind]struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	since := make(map[schema.GroupKind]time.Time, len(kinds))
	for kind := range kinds {
		before, used := k.since[kind]
		if !used {
			before = k.clock.Now()
		}
		since[kind] = before
	}
	k.since = since
	k.Kinds.Use(kinds)
}

// refusal returns why objects of a kind are not injected, nil if they are.
func (k *Kinds) refusal(kind schema.GroupKind, r dynamicinformer.Resource) error {
	switch {
	case kind == secret:
		return mutation.RefusedError("everybody who may read the package could read them")
	case !r.Namespaced && !slices.Contains(k.allowed, kind):
		return mutation.RefusedError("the kind is cluster-scoped, and everybody who may write a PackageVariant could read its objects; " +
			"to allow it, run binding-controller with --injected-kinds=" + kind.String())
	}
	return nil
}

// readPatience is how long the objects of a kind may take to be read. After that, single objects
// are.
const readPatience = 10 * time.Second

// notServed and refused are the versions of objects of kinds that are not served, or not injected:
// what a package reports about these changes when the kind is served or allowed, or no longer is.
const (
	notServed = "not served"
	refused   = "refused"
)

// Version implements Objects.
func (k *Kinds) Version(ctx context.Context, namespace string, o configv1alpha1.InjectedObject) (version string, known bool, err error) {
	kind := schema.GroupKind{Group: o.Group, Kind: o.Kind}
	k.mu.Lock()
	since, used := k.since[kind]
	k.mu.Unlock()
	r, watched := k.Watched(kind)
	if !watched {
		r, served := k.Find(kind)
		if !served {
			return notServed, k.KnownUnserved(o.Group), nil
		}
		if k.refusal(kind, r) != nil {
			return refused, true, nil //nolint:nilerr // reported when an object is to be injected
		}
		return "", !used, nil // it will be watched
	}
	if !r.Namespaced {
		namespace = ""
	}
	if k.Synced(r.GroupResource()) {
		if obj, exists := k.Set.Get(objref.New(r.GroupResource(), namespace, o.Name)); exists {
			version = versionOf(obj, r)
		}
		return version, true, nil
	}
	if k.clock.Since(since) < readPatience {
		return "", false, nil
	}
	obj, err := k.Metadata.Resource(r.GroupVersionResource).Namespace(namespace).Get(ctx, o.Name, metav1.GetOptions{})
	if err == nil {
		version = versionOf(obj, r)
	} else if !apierrors.IsNotFound(err) {
		return "", false, err
	}
	return version, true, nil
}

// versionOf returns a version that changes when what is injected of an object may have changed.
// Where the generation tracks the content, a change of the status does not count.
func versionOf(obj metav1.Object, r dynamicinformer.Resource) string {
	if generation := obj.GetGeneration(); r.TracksContent && generation > 0 {
		return fmt.Sprintf("%s/%d", obj.GetUID(), generation)
	}
	return fmt.Sprintf("%s@%s", obj.GetUID(), obj.GetResourceVersion())
}

// Get implements Objects.
func (k *Kinds) Get(ctx context.Context, namespace string, kind schema.GroupVersionKind, name string) (object map[string]any, version string, err error) {
	r, served := k.Find(kind.GroupKind())
	if !served {
		if !k.KnownUnserved(kind.Group) {
			return nil, "", errors.New("it is not known yet whether the WDS serves the kind")
		}
		return nil, "", mutation.ErrNotServed
	}
	if err := k.refusal(kind.GroupKind(), r); err != nil {
		return nil, "", err
	}
	if !r.Namespaced {
		namespace = ""
	}
	obj, err := k.Dynamic.Resource(kind.GroupVersion().WithResource(r.Resource)).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return nil, "", mutation.ErrNotServed // not in this version
	case apierrors.IsNotFound(err):
		return nil, "", nil
	case err != nil:
		return nil, "", err
	}
	return obj.Object, versionOf(obj, r), nil
}
