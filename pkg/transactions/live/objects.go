package live

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/transaction"
)

// Objects reads the metadata of objects of packages, which are cluster-scoped, from the API server.
// It is safe for concurrent use.
type Objects struct {
	Metadata metadata.Interface
	Mapper   meta.ResettableRESTMapper
}

const (
	// fewObjects of a kind are read one by one. Of more, all of the kind are listed.
	fewObjects = 10
	// parallelReads is how many requests are under way at the same time.
	parallelReads = 10
)

// Resource returns the resource of a kind. The error is a NoMatch error if the space does not serve
// it.
func (o *Objects) Resource(gvk schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	mapping, err := o.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		o.Mapper.Reset() // it may have been installed since
		mapping, err = o.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	return mapping.Resource, nil
}

// Read reads these objects, and returns what it has found. Objects of a kind that cannot be read
// are not known: the error says which, and what is found of the other kinds counts.
func (o *Objects) Read(ctx context.Context, refs []pkgv1.TypedReference) (transaction.Lookup, error) {
	names := map[schema.GroupVersionKind]map[string]bool{}
	for _, ref := range refs {
		gvk := kindOf(ref)
		if names[gvk] == nil {
			names[gvk] = map[string]bool{}
		}
		names[gvk][ref.Name] = true
	}
	r := reading{found: map[identity]metav1.Object{}, failed: map[schema.GroupVersionKind]error{}}
	r.SetLimit(parallelReads)
	for gvk, wanted := range names {
		resource, err := o.Resource(gvk)
		if err != nil { // also of a kind that is not served: its objects may exist
			r.fail(gvk, fmt.Errorf("find the resource of %s: %w", gvk.GroupKind(), err))
			continue
		}
		objects := o.Metadata.Resource(resource)
		if len(wanted) > fewObjects {
			r.Go(func() error { return r.list(ctx, objects, gvk, wanted) })
			continue
		}
		for name := range wanted {
			r.Go(func() error { return r.get(ctx, objects, gvk, name) })
		}
	}
	_ = r.Wait() // each failure is in failed
	find := func(ref pkgv1.TypedReference) (metav1.Object, bool) {
		gvk := kindOf(ref)
		return r.found[identity{gvk, ref.Name}], r.failed[gvk] == nil
	}
	return find, errors.Join(slices.Collect(maps.Values(r.failed))...)
}

type identity struct {
	schema.GroupVersionKind
	name string
}

func kindOf(ref pkgv1.TypedReference) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
}

// reading is what Read has found so far.
type reading struct {
	errgroup.Group
	mutex  sync.Mutex
	found  map[identity]metav1.Object
	failed map[schema.GroupVersionKind]error
}

func (r *reading) fail(gvk schema.GroupVersionKind, err error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.failed[gvk] = err
}

func (r *reading) add(gvk schema.GroupVersionKind, o *metav1.PartialObjectMetadata) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	o.ManagedFields = nil
	r.found[identity{gvk, o.Name}] = o
}

func (r *reading) get(ctx context.Context, objects metadata.Getter, gvk schema.GroupVersionKind, name string) error {
	o, err := objects.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		r.fail(gvk, fmt.Errorf("get %s %q: %w", gvk.Kind, name, err))
		return nil
	}
	r.add(gvk, o)
	return nil
}

func (r *reading) list(ctx context.Context, objects metadata.Getter, gvk schema.GroupVersionKind, wanted map[string]bool) error {
	err := client.EachItem(ctx, objects.List, metav1.ListOptions{}, func(o *metav1.PartialObjectMetadata) error {
		if wanted[o.Name] {
			r.add(gvk, o)
		}
		return nil
	})
	if err != nil {
		r.fail(gvk, fmt.Errorf("list %s: %w", gvk.Kind, err))
	}
	return nil
}
