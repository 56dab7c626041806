package foresight

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/foresight/forecast"
	"github.com/starlinghq/starling/pkg/core/foresight/packages"
)

// ReadPackages reads the state of the packages of a namespace, for a World of the same WDS. It is
// nil if some of it may not be read.
func (r *WorldReader) ReadPackages(ctx context.Context, namespace string, w *forecast.World) (*packages.State, error) {
	objects, err := dynamic.NewForConfig(quick(r.WDS.Config))
	if err != nil {
		return nil, err
	}
	s := &packages.State{
		Namespace: namespace, World: w, Sets: map[string]*configv1alpha2.PackageVariantSet{}, Variants: map[string]*configv1alpha1.PackageVariant{},
		Repositories: map[string]*configv1alpha1.Repository{}, Revisions: map[string]*storev1alpha1.PackageRevision{},
	}
	if s.Kinds, err = r.kinds(); err != nil {
		return nil, err
	}
	for _, of := range []struct {
		resource schema.GroupVersionResource
		add      func(*unstructured.Unstructured) error
	}{
		{configv1alpha2.PackageVariantSets, func(o *unstructured.Unstructured) error { return into(s.Sets, o) }},
		{configv1alpha1.PackageVariants, func(o *unstructured.Unstructured) error { return into(s.Variants, o) }},
		{configv1alpha1.Repositories, func(o *unstructured.Unstructured) error { return into(s.Repositories, o) }},
		{porchv1alpha1.ResourcePackageRevisions, func(o *unstructured.Unstructured) error {
			one, err := revisionIn(o)
			if err == nil {
				s.Revisions[one.Name] = stored(one)
			}
			return err
		}},
	} {
		r.Progress(of.resource.Resource + " of " + namespace)
		api := objects.Resource(of.resource).Namespace(namespace)
		if err := client.EachItem(ctx, api.List, metav1.ListOptions{}, of.add); err != nil {
			r.note(forecast.AboutTheChange, "what happens to PackageVariants of namespace %s: %s", namespace, unread("list", of.resource.Resource, "", err))
			return nil, nil
		}
	}
	return s, nil
}

func into[T any](all map[string]*T, o *unstructured.Unstructured) error {
	one := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, one); err != nil {
		return fmt.Errorf("read %s %q: %w", o.GetKind(), o.GetName(), err)
	}
	all[o.GetName()] = one
	return nil
}

// NamespacesOfSets returns the namespaces that have PackageVariantSets, sorted.
func (r *WorldReader) NamespacesOfSets(ctx context.Context) ([]string, error) {
	objects, err := dynamic.NewForConfig(quick(r.WDS.Config))
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	err = client.EachItem(ctx, objects.Resource(configv1alpha2.PackageVariantSets).List, metav1.ListOptions{}, func(o *unstructured.Unstructured) error {
		found[o.GetNamespace()] = true
		return nil
	})
	if err != nil && !apierrors.IsNotFound(err) { // a WDS without packages does not serve them
		r.note(forecast.AboutTheChange, "which PackageVariantSets change: %s", unread("list", configv1alpha2.PackageVariantSets.Resource, "", err))
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// OfPackages reports whether objects of a resource are part of a packages.State.
func OfPackages(gr schema.GroupResource) bool {
	return slices.Contains([]schema.GroupResource{
		configv1alpha2.PackageVariantSets.GroupResource(), configv1alpha1.PackageVariants.GroupResource(), configv1alpha1.Repositories.GroupResource(),
	}, gr)
}

// SetPackages makes an object of a State what it would be after an apply.
func SetPackages(s *packages.State, gr schema.GroupResource, o *unstructured.Unstructured) error {
	switch gr {
	case configv1alpha2.PackageVariantSets.GroupResource():
		return into(s.Sets, o)
	case configv1alpha1.PackageVariants.GroupResource():
		return into(s.Variants, o)
	default:
		return into(s.Repositories, o)
	}
}

// RemovePackages removes an object from a State.
func RemovePackages(s *packages.State, gr schema.GroupResource, name string) {
	switch gr {
	case configv1alpha2.PackageVariantSets.GroupResource():
		delete(s.Sets, name)
	case configv1alpha1.PackageVariants.GroupResource():
		delete(s.Variants, name)
	default:
		delete(s.Repositories, name)
	}
}
