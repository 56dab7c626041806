package informers

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/packages/binding"
)

// Bindings watches the Bindings of packages and no others. The WDS must serve Bindings before Run.
type Bindings struct {
	*Informer[controlv1alpha1.Binding]
}

// bindingsByRepository is the index of Bindings by the Repository of their package.
const bindingsByRepository = "repository"

// NewBindings returns Bindings that are not started.
func NewBindings(wds *rest.Config) (*Bindings, error) {
	c, err := client.New(wds)
	if err != nil {
		return nil, err
	}
	informer, err := client.NewInformer(packageBindings{c}, &controlv1alpha1.Binding{}, cache.Indexers{
		bindingsByRepository: Index(func(b *controlv1alpha1.Binding) []string {
			return []string{b.Labels[controlv1alpha1.LabelPackageNamespace] + "/" + b.Labels[controlv1alpha1.LabelPackageRepository]}
		}),
	})
	return &Bindings{&Informer[controlv1alpha1.Binding]{informer, "Bindings of packages"}}, err
}

// packageBindings lists and watches the Bindings of packages.
type packageBindings struct{ client *client.Client }

func (o packageBindings) List(ctx context.Context, options metav1.ListOptions) (*controlv1alpha1.BindingList, error) {
	options.LabelSelector = controlv1alpha1.LabelPackageRepository
	return o.client.Bindings().List(ctx, options)
}

func (o packageBindings) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.LabelSelector = controlv1alpha1.LabelPackageRepository
	return o.client.Bindings().Watch(ctx, options)
}

// Of returns the Binding of a package, or nil if there is none.
func (b *Bindings) Of(p binding.Package) *controlv1alpha1.Binding {
	return b.Get("", binding.Name(p))
}

// In returns the Bindings of the packages in a Repository, in no order.
func (b *Bindings) In(namespace, repository string) []*controlv1alpha1.Binding {
	return b.By(bindingsByRepository, namespace+"/"+repository)
}
