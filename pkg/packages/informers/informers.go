package informers

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
)

// Required are the resources that the WDS must serve before Run.
var Required = []schema.GroupVersionResource{
	configv1alpha1.Repositories, configv1alpha1.PackageVariants, configv1alpha2.PackageVariantSets, storev1alpha1.PackageRevisions,
}

// Informers has informers for all namespaces of a WDS. Further indexes and event handlers must be
// added before Run.
type Informers struct {
	Repositories *Informer[configv1alpha1.Repository]
	// Revisions holds the metadata of revisions, not their files.
	Revisions   *Informer[storev1alpha1.PackageRevision]
	Variants    *Informer[configv1alpha1.PackageVariant]
	VariantSets *Informer[configv1alpha2.PackageVariantSet]
}

// New returns Informers that are not started.
func New(wds *rest.Config) (*Informers, error) {
	var i Informers
	var err error
	if i.Repositories, err = newInformer[*configv1alpha1.Repository, *configv1alpha1.RepositoryList](wds, "Repositories", configv1alpha1.Repositories, nil); err != nil {
		return nil, err
	}
	if i.Revisions, err = newInformer[*storev1alpha1.PackageRevision, *storev1alpha1.PackageRevisionList](
		wds, "PackageRevisions", storev1alpha1.PackageRevisions, revisionIndexers()); err != nil {
		return nil, err
	}
	if i.Variants, err = newInformer[*configv1alpha1.PackageVariant, *configv1alpha1.PackageVariantList](
		wds, "PackageVariants", configv1alpha1.PackageVariants, variantIndexers()); err != nil {
		return nil, err
	}
	if i.VariantSets, err = newInformer[*configv1alpha2.PackageVariantSet, *configv1alpha2.PackageVariantSetList](
		wds, "PackageVariantSets", configv1alpha2.PackageVariantSets, nil); err != nil {
		return nil, err
	}
	return &i, nil
}

func newInformer[P pointer[T], LP listPointer[L], T, L any](
	wds *rest.Config, name string, resource schema.GroupVersionResource, indexers cache.Indexers,
) (*Informer[T], error) {
	reader, err := newClient[P, LP](wds, resource)
	if err != nil {
		return nil, err
	}
	informer, err := client.NewInformer(reader(metav1.NamespaceAll), P(new(T)), indexers)
	return &Informer[T]{informer, name}, err
}

// Run blocks until ctx ends and all informers have stopped. It returns nil.
func (i *Informers) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for _, informer := range []cache.SharedIndexInformer{i.Repositories, i.Revisions, i.Variants, i.VariantSets} {
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	running.Wait()
	return nil
}
