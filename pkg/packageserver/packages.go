package packageserver

import (
	"context"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/packages"
)

// porchPackages serves packages: what the revisions of each come to. Nothing is kept of them, and they cannot be written.
type porchPackages struct {
	store *packages.Store
	done  <-chan struct{}
	table
}

var (
	_ rest.Storage              = (*porchPackages)(nil)
	_ rest.Getter               = (*porchPackages)(nil)
	_ rest.Lister               = (*porchPackages)(nil)
	_ rest.Watcher              = (*porchPackages)(nil)
	_ rest.Scoper               = (*porchPackages)(nil)
	_ rest.SingularNameProvider = (*porchPackages)(nil)
)

func newPackages(store *packages.Store, done <-chan struct{}) *porchPackages {
	return &porchPackages{store: store, done: done, table: table{
		resource: porchv1alpha1.ResourcePackages.GroupResource(), columns: packageColumns, row: packageRow,
	}}
}

// New implements rest.Storage.
func (p *porchPackages) New() runtime.Object { return &porchv1alpha1.PorchPackage{} }

// Destroy implements rest.Storage.
func (p *porchPackages) Destroy() {}

// NewList implements rest.Lister.
func (p *porchPackages) NewList() runtime.Object { return &porchv1alpha1.PorchPackageList{} }

// NamespaceScoped implements rest.Scoper.
func (p *porchPackages) NamespaceScoped() bool { return true }

// GetSingularName implements rest.SingularNameProvider.
func (p *porchPackages) GetSingularName() string { return "package" }

// Get implements rest.Getter.
func (p *porchPackages) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	repository, path, ok := strings.Cut(name, ".")
	if ok {
		kept, err := p.store.List(ctx, genericapirequest.NamespaceValue(ctx), metav1.ListOptions{
			FieldSelector: fields.Set{"spec.repository": repository, "spec.packageName": strings.ReplaceAll(path, ".", "/")}.String(),
		}, 0)
		if err != nil {
			return nil, err
		}
		if all := summarise(kept.Items); len(all) > 0 {
			return &all[0], nil
		}
	}
	return nil, apierrors.NewNotFound(porchv1alpha1.ResourcePackages.GroupResource(), name)
}

// List implements rest.Lister. It costs as much as a list of all revisions, and comes in one page.
func (p *porchPackages) List(ctx context.Context, o *internalversion.ListOptions) (runtime.Object, error) {
	selects := selected(o)
	kept, err := p.store.List(ctx, genericapirequest.NamespaceValue(ctx), metav1.ListOptions{}, 0)
	if err != nil {
		return nil, err
	}
	list := &porchv1alpha1.PorchPackageList{ListMeta: metav1.ListMeta{ResourceVersion: kept.ResourceVersion}, Items: []porchv1alpha1.PorchPackage{}}
	for _, item := range summarise(kept.Items) {
		if selects(&item) {
			list.Items = append(list.Items, item)
		}
	}
	return list, nil
}

// selected tells what is asked for. What packages are selected by never changes.
func selected(o *internalversion.ListOptions) func(*porchv1alpha1.PorchPackage) bool {
	byLabel, byField := labels.Everything(), fields.Everything()
	if o != nil && o.LabelSelector != nil {
		byLabel = o.LabelSelector
	}
	if o != nil && o.FieldSelector != nil {
		byField = o.FieldSelector
	}
	return func(item *porchv1alpha1.PorchPackage) bool {
		return byLabel.Matches(labels.Set(item.Labels)) && byField.Matches(fields.Set{
			nameField: item.Name, namespaceField: item.Namespace, "spec.packageName": item.Spec.PackageName, "spec.repository": item.Spec.RepositoryName,
		})
	}
}

// packageName is the name of the package of a revision.
func packageName(r *packages.Revision) string {
	return r.Spec.RepositoryName + "." + strings.ReplaceAll(r.Spec.PackageName, "/", ".")
}

// summarise makes packages of revisions, sorted by namespace and name.
func summarise(revisions []*packages.Revision) []porchv1alpha1.PorchPackage {
	type key struct{ namespace, name string }
	at := map[key]int{}
	var out []porchv1alpha1.PorchPackage
	for _, cr := range revisions {
		k := key{cr.Namespace, packageName(cr)}
		j, there := at[k]
		if !there {
			j = len(out)
			at[k] = j
			out = append(out, porchv1alpha1.PorchPackage{
				TypeMeta: metav1.TypeMeta{APIVersion: porchv1alpha1.GroupVersion.String(), Kind: "PorchPackage"},
				ObjectMeta: metav1.ObjectMeta{
					Name: k.name, Namespace: k.namespace, CreationTimestamp: cr.CreationTimestamp, ResourceVersion: cr.ResourceVersion,
				},
				Spec: porchv1alpha1.PackageSpec{PackageName: cr.Spec.PackageName, RepositoryName: cr.Spec.RepositoryName},
			})
		}
		p := &out[j]
		if cr.CreationTimestamp.Before(&p.CreationTimestamp) {
			p.CreationTimestamp = cr.CreationTimestamp
		}
		if len(cr.ResourceVersion) > len(p.ResourceVersion) || len(cr.ResourceVersion) == len(p.ResourceVersion) && cr.ResourceVersion > p.ResourceVersion {
			p.ResourceVersion = cr.ResourceVersion
		}
		if cr.Spec.Lifecycle.Published() {
			p.Status.LatestRevision = max(p.Status.LatestRevision, cr.Spec.Revision)
		}
	}
	slices.SortFunc(out, func(a, b porchv1alpha1.PorchPackage) int {
		if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}
