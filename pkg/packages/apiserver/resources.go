package apiserver

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/packages/store"
)

// resources serves packagerevisionresources: the files of each revision.
type resources struct {
	kind[*porchv1alpha1.PackageRevisionResources]
	store *store.Store
	// maxBytes bounds the size of the files in one response.
	maxBytes int
}

var (
	_ rest.Storage              = (*resources)(nil)
	_ rest.Patcher              = (*resources)(nil)
	_ rest.Lister               = (*resources)(nil)
	_ rest.Scoper               = (*resources)(nil)
	_ rest.SingularNameProvider = (*resources)(nil)
)

// serveFiles returns the served object for the metadata and spec of a revision, and its files.
func serveFiles(m metav1.ObjectMeta, spec *porchv1alpha1.PackageRevisionSpec, files kpt.Files) *porchv1alpha1.PackageRevisionResources {
	prr := &porchv1alpha1.PackageRevisionResources{
		TypeMeta:   metav1.TypeMeta{APIVersion: porchv1alpha1.GroupVersion.String(), Kind: "PackageRevisionResources"},
		ObjectMeta: m,
		Spec: porchv1alpha1.PackageRevisionResourcesSpec{
			PackageName: spec.PackageName, WorkspaceName: spec.WorkspaceName, Revision: spec.Revision, RepositoryName: spec.RepositoryName,
			Resources: files,
		},
	}
	// managedFields are about the fields of the PackageRevision.
	prr.ManagedFields = nil
	return prr
}

func (r *resources) load(ctx context.Context, cr *storev1alpha1.PackageRevision) (*porchv1alpha1.PackageRevisionResources, error) {
	files, err := r.store.Files(ctx, cr.Name, cr.Content.Digest)
	if err != nil {
		return nil, err
	}
	return serveFiles(store.ServeMeta(cr), &cr.Spec, files), nil
}

// Get implements rest.Getter.
func (r *resources) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	obj, err := getStored(ctx, r.store, name, o)
	if err != nil {
		return nil, err
	}
	return r.load(ctx, obj)
}

// List implements rest.Lister. If the files exceed what a response may hold, it returns an error
// that suggests smaller pages.
func (r *resources) List(ctx context.Context, o *internalversion.ListOptions) (runtime.Object, error) {
	stored, err := listStored(ctx, r.store, o, 0)
	if err != nil {
		return nil, err
	}
	list := &porchv1alpha1.PackageRevisionResourcesList{ListMeta: stored.ListMeta, Items: make([]porchv1alpha1.PackageRevisionResources, len(stored.Items))}
	const together, batch = 8, 32
	size := 0
	for from := 0; from < len(stored.Items); from += batch {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(together)
		to := min(from+batch, len(stored.Items))
		for i := from; i < to; i++ {
			group.Go(func() error {
				item := stored.Items[i]
				files, err := r.store.Files(ctx, item.Name, item.Digest)
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
			size += kpt.Files(list.Items[i].Spec.Resources).Size()
		}
		if size > r.maxBytes {
			return nil, r.errTooLarge(to)
		}
	}
	return list, nil
}

// errTooLarge returns the error of a list whose first files exceed what a response may hold.
func (r *resources) errTooLarge(first int) error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
		"the files of these revisions exceed %d MiB: select fewer revisions, or set a limit below %d", r.maxBytes>>20, first))
}

// Update implements rest.Updater. It never creates an object: the files exist as long as their
// revision.
func (r *resources) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc,
	validate rest.ValidateObjectUpdateFunc, _ bool, o *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	out, err := update(ctx, r.store, name, info, validate,
		func(cr *storev1alpha1.PackageRevision) (*porchv1alpha1.PackageRevisionResources, error) {
			prr, err := r.load(ctx, cr)
			if err != nil {
				return nil, err
			}
			return prr.DeepCopy(), nil // the cached files are shared, and a patch would change them in place
		},
		func(cr *storev1alpha1.PackageRevision, wanted *porchv1alpha1.PackageRevisionResources) (*porchv1alpha1.PackageRevisionResources, error) {
			written, err := r.store.UpdateFiles(ctx, cr, wanted.Spec.Resources, userName(ctx), dryrun.IsDryRun(o.DryRun))
			if err != nil {
				return nil, err
			}
			prr := serveFiles(store.ServeMeta(written.Revision), &written.Revision.Spec, written.Files)
			prr.Status.RenderStatus = written.Render
			return prr, nil
		})
	return out, false, err
}
