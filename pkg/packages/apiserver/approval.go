package apiserver

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
)

// approval serves packagerevisions/approval: the complete object, of which an update changes only
// the lifecycle. Being a resource of its own, it can be allowed to other users than the object.
type approval struct {
	kind[*porchv1alpha1.PackageRevision]
	revisions *revisions
}

var (
	_ rest.Storage = (*approval)(nil)
	_ rest.Patcher = (*approval)(nil)
	_ rest.Scoper  = (*approval)(nil)
)

// Get implements rest.Getter.
func (a *approval) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	return a.revisions.Get(ctx, name, o)
}

// Update implements rest.Updater.
func (a *approval) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc,
	validate rest.ValidateObjectUpdateFunc, _ bool, o *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	out, err := a.revisions.update(ctx, name, info, validate,
		func(cr *storev1alpha1.PackageRevision, wanted *porchv1alpha1.PackageRevision) (*storev1alpha1.PackageRevision, error) {
			return a.revisions.store.Approve(ctx, cr, wanted, userName(ctx), dryrun.IsDryRun(o.DryRun))
		})
	return out, false, err
}
