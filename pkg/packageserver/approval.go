package packageserver

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/packages"
)

// approval serves packagerevisions/approval: the whole object, of which an update changes the lifecycle only. It is there to be
// allowed to others than those who may update the object.
type approval struct{ revisions *revisions }

var (
	_ rest.Storage = (*approval)(nil)
	_ rest.Patcher = (*approval)(nil)
	_ rest.Scoper  = (*approval)(nil)
)

// New implements rest.Storage.
func (a *approval) New() runtime.Object { return a.revisions.New() }

// Destroy implements rest.Storage.
func (a *approval) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (a *approval) NamespaceScoped() bool { return true }

// Get implements rest.Getter.
func (a *approval) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	return a.revisions.Get(ctx, name, o)
}

// Update implements rest.Updater.
func (a *approval) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc,
	validate rest.ValidateObjectUpdateFunc, _ bool, o *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	store, user := a.revisions.store, ""
	if info, ok := genericapirequest.UserFrom(ctx); ok {
		user = info.GetName()
	}
	out, err := update(ctx, store, name, info, validate,
		func(cr *storev1alpha1.PackageRevision) (*porchv1alpha1.PackageRevision, error) {
			return packages.Serve(cr.DeepCopy()), nil
		},
		func(cr *storev1alpha1.PackageRevision, wanted *porchv1alpha1.PackageRevision) (*porchv1alpha1.PackageRevision, error) {
			written, err := store.Approve(ctx, cr, wanted, user, isDryRun(o.DryRun))
			if err != nil {
				return nil, err
			}
			return packages.Serve(written), nil
		})
	return out, false, err
}

// ConvertToTable implements rest.TableConvertor.
func (a *approval) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return a.revisions.ConvertToTable(ctx, obj, options)
}
