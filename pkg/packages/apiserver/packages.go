package apiserver

import (
	"cmp"
	"context"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/packages/store"
)

// porchPackages serves packages, which are summaries of their revisions. They are not stored and
// cannot be written.
type porchPackages struct {
	kind[*porchv1alpha1.PorchPackage]
	store *store.Store
	done  <-chan struct{}
}

var (
	_ rest.Storage              = (*porchPackages)(nil)
	_ rest.Getter               = (*porchPackages)(nil)
	_ rest.Lister               = (*porchPackages)(nil)
	_ rest.Watcher              = (*porchPackages)(nil)
	_ rest.Scoper               = (*porchPackages)(nil)
	_ rest.SingularNameProvider = (*porchPackages)(nil)
)

// Get implements rest.Getter.
func (p *porchPackages) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	repository, path, ok := strings.Cut(name, ".")
	if ok {
		stored, err := p.store.List(ctx, genericapirequest.NamespaceValue(ctx), metav1.ListOptions{
			FieldSelector: fields.Set{"spec.repository": repository, "spec.packageName": strings.ReplaceAll(path, ".", "/")}.String(),
		}, 0)
		if err != nil {
			return nil, err
		}
		if all := summarise(stored.Items); len(all) > 0 {
			return &all[0], nil
		}
	}
	return nil, apierrors.NewNotFound(porchv1alpha1.ResourcePackages.GroupResource(), name)
}

// List implements rest.Lister. It costs as much as a list of all revisions, and returns one page.
func (p *porchPackages) List(ctx context.Context, o *internalversion.ListOptions) (runtime.Object, error) {
	selects := packageSelector(o)
	stored, err := p.store.List(ctx, genericapirequest.NamespaceValue(ctx), metav1.ListOptions{}, 0)
	if err != nil {
		return nil, err
	}
	list := &porchv1alpha1.PorchPackageList{ListMeta: metav1.ListMeta{ResourceVersion: stored.ResourceVersion}, Items: []porchv1alpha1.PorchPackage{}}
	for _, item := range summarise(stored.Items) {
		if selects(&item) {
			list.Items = append(list.Items, item)
		}
	}
	return list, nil
}

// packageSelector returns a function that reports whether a request selects a package. The fields
// and labels that it uses never change.
func packageSelector(o *internalversion.ListOptions) func(*porchv1alpha1.PorchPackage) bool {
	byLabel, byField := labels.Everything(), fields.Everything()
	if o.LabelSelector != nil {
		byLabel = o.LabelSelector
	}
	if o.FieldSelector != nil {
		byField = o.FieldSelector
	}
	return func(item *porchv1alpha1.PorchPackage) bool {
		return byLabel.Matches(labels.Set(item.Labels)) && byField.Matches(fields.Set{
			nameField: item.Name, namespaceField: item.Namespace, "spec.packageName": item.Spec.PackageName, "spec.repository": item.Spec.RepositoryName,
		})
	}
}

// packageOf returns the name of the PorchPackage of a revision.
func packageOf(r *store.Revision) types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Spec.RepositoryName + "." + strings.ReplaceAll(r.Spec.PackageName, "/", ".")}
}

// summarise returns the packages of revisions, sorted by namespace and name.
func summarise(revisions []*store.Revision) []porchv1alpha1.PorchPackage {
	at := map[types.NamespacedName]int{}
	var out []porchv1alpha1.PorchPackage
	for _, cr := range revisions {
		k := packageOf(cr)
		j, there := at[k]
		if !there {
			j = len(out)
			at[k] = j
			out = append(out, porchv1alpha1.PorchPackage{
				TypeMeta: metav1.TypeMeta{APIVersion: porchv1alpha1.GroupVersion.String(), Kind: "PorchPackage"},
				ObjectMeta: metav1.ObjectMeta{
					Name: k.Name, Namespace: k.Namespace, CreationTimestamp: cr.CreationTimestamp, ResourceVersion: cr.ResourceVersion,
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
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out
}
