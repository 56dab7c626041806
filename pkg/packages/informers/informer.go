package informers

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Informer is an informer for objects of type *T. The Name says what it holds.
type Informer[T any] struct {
	cache.SharedIndexInformer
	Name string
}

// Get returns an object by its name, or nil if there is none. The namespace of a cluster-scoped
// object is "".
func (i *Informer[T]) Get(namespace, name string) *T {
	obj, _, err := i.GetIndexer().GetByKey(cache.NewObjectName(namespace, name).String())
	if err != nil {
		return nil
	}
	typed, _ := obj.(*T)
	return typed
}

// All returns all objects, in no order.
func (i *Informer[T]) All() []*T { return typed[T](i.GetStore().List()) }

// In returns the objects of a namespace, in no order.
func (i *Informer[T]) In(namespace string) []*T { return i.By(cache.NamespaceIndex, namespace) }

// By returns the objects of an index at a key, in no order. The index must exist.
func (i *Informer[T]) By(index, key string) []*T {
	found, err := i.GetIndexer().ByIndex(index, key)
	if err != nil {
		return nil
	}
	return typed[T](found)
}

func typed[T any](objects []any) []*T {
	all := make([]*T, 0, len(objects))
	for _, obj := range objects {
		if typed, ok := obj.(*T); ok {
			all = append(all, typed)
		}
	}
	return all
}

// Index returns an index function for objects of one type.
func Index[T any](keys func(*T) []string) cache.IndexFunc {
	return func(obj any) ([]string, error) {
		if typed, ok := obj.(*T); ok {
			return keys(typed), nil
		}
		return nil, nil
	}
}

// Handle calls on with the object before and after each change; nil if there is none. For a missed
// deletion, before is the last known state. Pass Queue.WaitFor, so that the queue waits until on
// has received all objects.
func (i *Informer[T]) Handle(waitFor func(name string, hasSynced cache.InformerSynced), on func(before, after *T)) error {
	typed := func(obj any) *T {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		t, _ := obj.(*T)
		return t
	}
	registration, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { on(nil, typed(obj)) },
		UpdateFunc: func(before, after any) { on(typed(before), typed(after)) },
		DeleteFunc: func(obj any) {
			if before := typed(obj); before != nil {
				on(before, nil)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch %s: %w", i.Name, err)
	}
	waitFor(i.Name, registration.HasSynced)
	return nil
}

// KeyOf returns the key of an object in queues.
func KeyOf(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}
