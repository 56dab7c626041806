package packagewatch

import (
	"context"
	"fmt"
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

// Informers are those of all namespaces of a WDS. Whoever needs more indexes adds them, and handlers, before Run.
type Informers struct {
	// Repositories holds *configv1alpha1.Repository.
	Repositories cache.SharedIndexInformer
	// Revisions holds *storev1alpha1.PackageRevision: what is said of files, not the files.
	Revisions cache.SharedIndexInformer
	// Variants holds *configv1alpha1.PackageVariant.
	Variants cache.SharedIndexInformer
	// Sets holds *configv1alpha2.PackageVariantSet.
	Sets cache.SharedIndexInformer
}

// New returns Informers that are not started.
func New(wds *rest.Config) (*Informers, error) {
	c, err := newClients(wds)
	if err != nil {
		return nil, err
	}
	var i Informers
	if i.Repositories, err = informer[*configv1alpha1.Repository, *configv1alpha1.RepositoryList](c, configv1alpha1.Repositories, nil); err != nil {
		return nil, err
	}
	if i.Revisions, err = informer[*storev1alpha1.PackageRevision, *storev1alpha1.PackageRevisionList](c, storev1alpha1.PackageRevisions, revisionIndexers()); err != nil {
		return nil, err
	}
	if i.Variants, err = informer[*configv1alpha1.PackageVariant, *configv1alpha1.PackageVariantList](c, configv1alpha1.PackageVariants, variantIndexers()); err != nil {
		return nil, err
	}
	if i.Sets, err = informer[*configv1alpha2.PackageVariantSet, *configv1alpha2.PackageVariantSetList](c, configv1alpha2.PackageVariantSets, nil); err != nil {
		return nil, err
	}
	return &i, nil
}

func informer[P pointer[T], LP listPointer[L], T, L any](c *clients, resource schema.GroupVersionResource, indexers cache.Indexers) (cache.SharedIndexInformer, error) {
	reader, err := kindOf[P, LP](c, resource)
	if err != nil {
		return nil, err
	}
	return client.NewInformer(reader(metav1.NamespaceAll), P(new(T)), indexers)
}

func (i *Informers) all() map[string]cache.SharedIndexInformer {
	return map[string]cache.SharedIndexInformer{
		"Repositories": i.Repositories, "PackageRevisions": i.Revisions, "PackageVariants": i.Variants, "PackageVariantSets": i.Sets,
	}
}

// Run watches until the context ends, and returns nil when all has ended.
func (i *Informers) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for _, informer := range i.all() {
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	running.Wait()
	return nil
}

// Wait waits until all that was there at the start has been read. It returns false if the context ended before.
func (i *Informers) Wait(ctx context.Context) bool {
	var synced []cache.InformerSynced
	for _, informer := range i.all() {
		synced = append(synced, informer.HasSynced)
	}
	return cache.WaitForCacheSync(ctx.Done(), synced...)
}

// Ready says what has not been read yet.
func (i *Informers) Ready() error {
	for what, informer := range i.all() {
		if !informer.HasSynced() {
			return fmt.Errorf("%s of the WDS have not been read yet", what)
		}
	}
	return nil
}
