package packageserver

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/packages"
)

// resources serves packagerevisionresources: the files of each revision.
type resources struct {
	store *packages.Store
	// most bounds what one answer holds, in bytes of files.
	most int
	table
}

var (
	_ rest.Storage              = (*resources)(nil)
	_ rest.Patcher              = (*resources)(nil)
	_ rest.Lister               = (*resources)(nil)
	_ rest.Scoper               = (*resources)(nil)
	_ rest.SingularNameProvider = (*resources)(nil)
)

func newResources(store *packages.Store, most int) *resources {
	return &resources{store: store, most: most, table: table{
		resource: porchv1alpha1.ResourcePackageRevisionResources.GroupResource(), columns: resourcesColumns, row: resourcesRow,
	}}
}

// New implements rest.Storage.
func (r *resources) New() runtime.Object { return &porchv1alpha1.PackageRevisionResources{} }

// Destroy implements rest.Storage.
func (r *resources) Destroy() {}

// NewList implements rest.Lister.
func (r *resources) NewList() runtime.Object { return &porchv1alpha1.PackageRevisionResourcesList{} }

// NamespaceScoped implements rest.Scoper.
func (r *resources) NamespaceScoped() bool { return true }

// GetSingularName implements rest.SingularNameProvider.
func (r *resources) GetSingularName() string { return "packagerevisionresources" }

// serveFiles returns the object served for the metadata and spec of a revision and its files.
func serveFiles(m metav1.ObjectMeta, spec *porchv1alpha1.PackageRevisionSpec, files kptpkg.Files) *porchv1alpha1.PackageRevisionResources {
	prr := &porchv1alpha1.PackageRevisionResources{
		TypeMeta:   metav1.TypeMeta{APIVersion: porchv1alpha1.GroupVersion.String(), Kind: "PackageRevisionResources"},
		ObjectMeta: m,
		Spec: porchv1alpha1.PackageRevisionResourcesSpec{
			PackageName: spec.PackageName, WorkspaceName: spec.WorkspaceName, Revision: spec.Revision, RepositoryName: spec.RepositoryName,
			Resources: files,
		},
	}
	// They are about the fields of the revision.
	prr.ManagedFields = nil
	return prr
}

func (r *resources) load(ctx context.Context, cr *storev1alpha1.PackageRevision) (*porchv1alpha1.PackageRevisionResources, error) {
	files, err := r.store.Files(ctx, cr)
	if err != nil {
		return nil, err
	}
	return serveFiles(packages.ServeMeta(cr), &cr.Spec, files), nil
}

// Get implements rest.Getter.
func (r *resources) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	obj, err := getKept(ctx, r.store, name, o)
	if err != nil {
		return nil, err
	}
	return r.load(ctx, obj)
}

// List implements rest.Lister. The files of all revisions of a large space are more than any answer may hold: then it says so.
func (r *resources) List(ctx context.Context, o *internalversion.ListOptions) (runtime.Object, error) {
	kept, err := listKept(ctx, r.store, o, 0)
	if err != nil {
		return nil, err
	}
	list := &porchv1alpha1.PackageRevisionResourcesList{ListMeta: kept.ListMeta, Items: make([]porchv1alpha1.PackageRevisionResources, len(kept.Items))}
	const together, batch = 8, 32
	size := 0
	for from := 0; from < len(kept.Items); from += batch {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(together)
		to := min(from+batch, len(kept.Items))
		for i := from; i < to; i++ {
			group.Go(func() error {
				item := kept.Items[i]
				files, err := r.store.FilesOf(ctx, item.Name, item.Digest)
				if err == nil {
					list.Items[i] = *serveFiles(item.ObjectMeta, &item.Spec, files)
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return nil, err
		}
		for i := from; i < to; i++ {
			size += kptpkg.Files(list.Items[i].Spec.Resources).Size()
		}
		if size > r.most {
			return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
				"the files of these revisions are more than %d MiB; select fewer, or ask for pages (limit) of fewer than %d", r.most>>20, to))
		}
	}
	return list, nil
}

// Update implements rest.Updater. It never creates: files exist as long as their revision does.
func (r *resources) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc,
	validate rest.ValidateObjectUpdateFunc, _ bool, o *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	out, err := update(ctx, r.store, name, info, validate,
		func(cr *storev1alpha1.PackageRevision) (*porchv1alpha1.PackageRevisionResources, error) {
			prr, err := r.load(ctx, cr)
			if err != nil {
				return nil, err
			}
			return prr.DeepCopy(), nil // the files are shared, and a patch changes them in place
		},
		func(cr *storev1alpha1.PackageRevision, wanted *porchv1alpha1.PackageRevisionResources) (*porchv1alpha1.PackageRevisionResources, error) {
			written, err := r.store.UpdateFiles(ctx, cr, wanted.Spec.Resources, isDryRun(o.DryRun))
			if err != nil {
				return nil, err
			}
			prr := serveFiles(packages.ServeMeta(written.Revision), &written.Revision.Spec, written.Files)
			prr.Status.RenderStatus = written.Render
			return prr, nil
		})
	return out, false, err
}
