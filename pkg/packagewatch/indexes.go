package packagewatch

import (
	"k8s.io/client-go/tools/cache"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
)

// index makes an index function for objects of one type.
func index[T any](keys func(T) []string) cache.IndexFunc {
	return func(obj any) ([]string, error) {
		if typed, ok := obj.(T); ok {
			return keys(typed), nil
		}
		return nil, nil
	}
}

// indexed returns what an index has for a key. That there is such an index is what the tests are for.
func indexed[T any](informer cache.SharedIndexInformer, index, key string) []T {
	found, err := informer.GetIndexer().ByIndex(index, key)
	if err != nil {
		return nil
	}
	all := make([]T, 0, len(found))
	for _, obj := range found {
		if typed, ok := obj.(T); ok {
			all = append(all, typed)
		}
	}
	return all
}

func byName[T any](informer cache.SharedIndexInformer, namespace, name string) *T {
	obj, _, err := informer.GetIndexer().GetByKey(namespace + "/" + name)
	if err != nil {
		return nil
	}
	typed, _ := obj.(*T)
	return typed
}

// Repository returns a Repository by its name, nil if there is none.
func (i *Informers) Repository(namespace, name string) *configv1alpha1.Repository {
	return byName[configv1alpha1.Repository](i.Repositories, namespace, name)
}

// Set returns a PackageVariantSet by its name, nil if there is none.
func (i *Informers) Set(namespace, name string) *configv1alpha2.PackageVariantSet {
	return byName[configv1alpha2.PackageVariantSet](i.Sets, namespace, name)
}
