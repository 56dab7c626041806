package packagewatch

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/deploy"
)

// Bindings are those of packages: no others are watched. The WDS must serve Bindings before Run.
type Bindings struct {
	// Informer holds *controlv1alpha1.Binding. Whoever needs to know of changes adds handlers before it runs.
	Informer cache.SharedIndexInformer
}

// bindingsByRepository is the index of Bindings by the Repository of their package.
const bindingsByRepository = "repository"

// NewBindings returns Bindings that are not started.
func NewBindings(wds *rest.Config) (*Bindings, error) {
	c, err := client.New(wds)
	if err != nil {
		return nil, err
	}
	informer, err := client.NewInformer(ofPackages{c}, &controlv1alpha1.Binding{}, cache.Indexers{
		bindingsByRepository: index(func(b *controlv1alpha1.Binding) []string {
			return []string{b.Labels[controlv1alpha1.LabelPackageNamespace] + "/" + b.Labels[controlv1alpha1.LabelPackageRepository]}
		}),
	})
	return &Bindings{informer}, err
}

// ofPackages reads the Bindings of packages.
type ofPackages struct{ client *client.Client }

func (o ofPackages) List(ctx context.Context, options metav1.ListOptions) (*controlv1alpha1.BindingList, error) {
	options.LabelSelector = controlv1alpha1.LabelPackageRepository
	return o.client.Bindings().List(ctx, options)
}

func (o ofPackages) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.LabelSelector = controlv1alpha1.LabelPackageRepository
	return o.client.Bindings().Watch(ctx, options)
}

// Of returns the Binding of a package, nil if there is none.
func (b *Bindings) Of(p deploy.Package) *controlv1alpha1.Binding {
	obj, _, err := b.Informer.GetIndexer().GetByKey(deploy.BindingName(p))
	if err != nil {
		return nil
	}
	binding, _ := obj.(*controlv1alpha1.Binding)
	return binding
}

// In returns the Bindings of the packages in a Repository, in no order.
func (b *Bindings) In(namespace, repository string) []*controlv1alpha1.Binding {
	return indexed[*controlv1alpha1.Binding](b.Informer, bindingsByRepository, namespace+"/"+repository)
}
