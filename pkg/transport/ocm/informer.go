package ocm

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// reduced is what an informer stores of an object: its identity, and what was made of the rest. It
// is immutable.
type reduced[T any] struct {
	metav1.ObjectMeta
	value T
}

func newReduced[T any](o metav1.Object, value T) *reduced[T] {
	return &reduced[T]{metav1.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
	}, value}
}

func (r *reduced[T]) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns r itself: it is immutable.
func (r *reduced[T]) DeepCopyObject() runtime.Object { return r }

// valueOf returns what was made of an object that an informer stores, or passes to a handler.
func valueOf[T any](obj any) (value T, ok bool) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	if r, ok := obj.(*reduced[T]); ok {
		return r.value, true
	}
	return value, false
}

// newInformer returns an informer on the objects that a selector selects, of all that list and
// watches read. It stores what reduce makes of an object.
func newInformer[O, L runtime.Object](
	selector string, list func(context.Context, metav1.ListOptions) (L, error),
	watches func(context.Context, metav1.ListOptions) (watch.Interface, error), example O, reduce func(O) any,
) (cache.SharedIndexInformer, error) {
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return list(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return watches(ctx, o)
		},
	}, example, 0, cache.Indexers{})
	err := informer.SetTransform(func(obj any) (any, error) {
		if o, ok := obj.(O); ok {
			return reduce(o), nil
		}
		return obj, nil
	})
	return informer, err
}
