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
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	coreinventory "github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
)

// ManagedCluster is the kind whose objects are those of the ITSes, and not those of the WDS.
var ManagedCluster = schema.GroupKind{Group: clusterv1.GroupName, Kind: "ManagedCluster"}

// secret is the one namespaced kind whose metadata may hold secrets: kubectl apply copies the whole
// object into an annotation.
var secret = schema.GroupKind{Kind: "Secret"}

// Kinds lists the objects of the kinds in use, by their metadata: ManagedClusters from the ITSes,
// all others from the WDS. It is safe for concurrent use.
type Kinds struct {
	*dynamicinformer.Kinds

	clusters   *clusters.Reader
	allowed    []schema.GroupKind
	controller *Controller // receives changes

	mu sync.Mutex
	// deleting are kinds whose CustomResourceDefinition is being deleted, with all their objects.
	deleting map[schema.GroupKind]bool
	// known are the clusters that were reported to the controller.
	known map[string]*clusters.Cluster
}

// newKinds returns Kinds of a WDS. Of cluster-scoped kinds only those are watched that are allowed:
// everybody who may write a PackageVariantSet in any namespace sees names, labels and annotations
// of what it selects. Namespaced objects are visible only in their own namespace.
func newKinds(wds *rest.Config, reader *clusters.Reader, allowed []schema.GroupKind, controller *Controller) (*Kinds, error) {
	k := &Kinds{
		clusters: reader, allowed: allowed, controller: controller,
		deleting: map[schema.GroupKind]bool{}, known: map[string]*clusters.Cluster{},
	}
	var err error
	k.Kinds, err = dynamicinformer.NewKinds(dynamicinformer.KindsConfig{
		Space: wds, Handler: k, Changed: k.confirmDeleting,
		Allowed: func(kind schema.GroupKind, r dynamicinformer.Resource) bool {
			return kind != ManagedCluster && k.allows(kind, r)
		},
		Transform: func(m *metav1.PartialObjectMetadata) {
			delete(m.Annotations, corev1.LastAppliedConfigAnnotation) // no expression should see it
		},
	})
	if reader != nil {
		reader.OnChange(k.onCluster)
	}
	return k, err
}

func (k *Kinds) allows(kind schema.GroupKind, r dynamicinformer.Resource) bool {
	return slices.Contains(k.allowed, kind) || r.Namespaced && kind != secret
}

// List returns the objects of a kind: those in a namespace, or all of a cluster-scoped kind. It
// does not block. The error is variant.ErrNotServed, or why the objects are unknown; ErrUnread if
// they were never read.
func (k *Kinds) List(namespace string, kind schema.GroupKind) ([]variant.Metadata, error) {
	if kind == ManagedCluster {
		return k.listClusters()
	}
	r, err := k.resource(kind)
	if err != nil {
		return nil, err
	}
	objects := k.Set.List(r.GroupResource())
	all := make([]variant.Metadata, 0, len(objects))
	for _, obj := range objects {
		if !r.Namespaced || obj.GetNamespace() == namespace {
			all = append(all, *variant.MetadataOf(obj))
		}
	}
	return all, nil
}

// Readable returns the error that List would, without the objects.
func (k *Kinds) Readable(kind schema.GroupKind) error {
	if kind == ManagedCluster {
		return k.clustersReadable()
	}
	_, err := k.resource(kind)
	return err
}

// resource returns the resource of a kind whose objects have been read.
func (k *Kinds) resource(kind schema.GroupKind) (dynamicinformer.Resource, error) {
	r, watched := k.Watched(kind)
	switch {
	case !watched:
		return r, k.whyUnwatched(kind)
	case k.isDeleting(kind):
		return r, fmt.Errorf("%w any more: its CustomResourceDefinition is being deleted", variant.ErrNotServed)
	case !k.Synced(r.GroupResource()):
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

// Left reports whether a Repository is that of a cluster that left, even if its condition does not
// say so yet.
func (k *Kinds) Left(r *configv1alpha1.Repository) bool {
	if k.clusters == nil {
		return r.Detached()
	}
	_, state := k.clusters.Get(r.Name)
	return variant.Left(r, state)
}

// whyUnwatched returns why the objects of a kind are not watched.
func (k *Kinds) whyUnwatched(kind schema.GroupKind) error {
	r, served := k.Find(kind)
	switch {
	case served && !k.allows(kind, r):
		return notAllowed(kind)
	case served:
		return ErrUnread
	case !k.KnownUnserved(kind.Group):
		return fmt.Errorf("%w: it is not known yet whether the WDS serves the kind", ErrUnread)
	}
	return variant.ErrNotServed
}

func notAllowed(kind schema.GroupKind) error {
	return fmt.Errorf("may not be selected, because everybody who may write a PackageVariantSet would see names, labels and annotations of these objects; "+
		"to allow it, run binding-controller with --target-kinds=%s", kind)
}

// ErrUnread is why objects cannot be listed if they were never read.
var ErrUnread = errors.New("the objects are not synced yet")

func (k *Kinds) whyUnread(r dynamicinformer.Resource) error {
	for _, state := range k.Set.Resources() {
		if state.GroupResource() == r.GroupResource() && state.Err != "" {
			return fmt.Errorf("%w: %s", ErrUnread, state.Err)
		}
	}
	return ErrUnread
}

// Confirm reads from the API server whether a kind is being deleted, with all its objects. If so,
// it counts as not served. A CustomResourceDefinition that is being deleted deletes its objects
// first, and the watch may show that before it shows the CustomResourceDefinition.
func (k *Kinds) Confirm(ctx context.Context, kind schema.GroupKind) error {
	r, watched := k.Watched(kind)
	if !watched || !strings.Contains(kind.Group, ".") {
		return nil
	}
	definitions := k.Metadata.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	definition, err := definitions.Get(ctx, r.GroupResource().String(), metav1.GetOptions{})
	gone := apierrors.IsNotFound(err)
	if err != nil && !gone {
		return err
	}
	if gone && !k.Defined(r.GroupResource()) {
		return nil // it never had one
	}
	k.setDeleting(kind, gone || definition.DeletionTimestamp != nil)
	return nil
}

func (k *Kinds) isDeleting(kind schema.GroupKind) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.deleting[kind]
}

func (k *Kinds) setDeleting(kind schema.GroupKind, deleting bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if deleting {
		k.deleting[kind] = true
	} else {
		delete(k.deleting, kind)
	}
}

// confirmDeleting checks, when the WDS serves other resources, whether kinds that were being
// deleted are served again.
func (k *Kinds) confirmDeleting(ctx context.Context) {
	k.mu.Lock()
	deleting := slices.Collect(maps.Keys(k.deleting))
	k.mu.Unlock()
	for _, kind := range deleting {
		if _, watched := k.Watched(kind); !watched {
			k.setDeleting(kind, false) // it has been deleted
		} else if err := k.Confirm(ctx, kind); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Cannot check whether a kind is served again", "kind", kind)
		}
		k.controller.onKind(kind)
	}
}

func metadataOfCluster(c *clusters.Cluster) *variant.Metadata {
	if c == nil {
		return nil
	}
	return &variant.Metadata{Name: c.Name, Labels: c.Labels, Annotations: c.Annotations}
}

// OnObject implements dynamicinformer.KindHandler. It passes on changes of labels and annotations.
func (k *Kinds) OnObject(r dynamicinformer.Resource, before, after metav1.Object) {
	was, is := variant.MetadataOf(before), variant.MetadataOf(after)
	if was == nil || is == nil || !maps.Equal(was.Labels, is.Labels) || !maps.Equal(was.Annotations, is.Annotations) {
		k.controller.onObject(r.GroupKind(), was, is)
	}
}

// OnKind implements dynamicinformer.KindHandler.
func (k *Kinds) OnKind(kind schema.GroupKind) { k.controller.onKind(kind) }

// onCluster receives changes of clusters, also those that do not matter here.
func (k *Kinds) onCluster(name string) {
	if name == "" {
		k.controller.onKind(ManagedCluster)
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
	k.controller.onObject(ManagedCluster, metadataOfCluster(was), metadataOfCluster(now))
}
