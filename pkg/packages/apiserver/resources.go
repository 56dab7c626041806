package apiserver

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
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
	// authorizer reports what users may do in the space.
	authorizer authorizer.Authorizer
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
	return &porchv1alpha1.PackageRevisionResources{
		TypeMeta:   metav1.TypeMeta{APIVersion: porchv1alpha1.GroupVersion.String(), Kind: "PackageRevisionResources"},
		ObjectMeta: m,
		Spec: porchv1alpha1.PackageRevisionResourcesSpec{
			PackageName: spec.PackageName, WorkspaceName: spec.WorkspaceName, Revision: spec.Revision, RepositoryName: spec.RepositoryName,
			Resources: files,
		},
	}
}

func (r *resources) load(ctx context.Context, cr *storev1alpha1.PackageRevision) (*porchv1alpha1.PackageRevisionResources, error) {
	files, err := r.store.Files(ctx, cr.Name, cr.Content.Digest)
	if err != nil {
		return nil, err
	}
	return serveFiles(store.ServeFilesMeta(cr), &cr.Spec, files), nil
}

// Get implements rest.Getter.
func (r *resources) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	obj, err := getStored(ctx, r.store, name, o)
	if err != nil {
		return nil, err
	}
	return r.load(ctx, obj)
}

// List implements rest.Lister. A page ends before its files exceed what a response may hold: it has
// fewer items than the limit then. A request without a limit expects everything in one response, so
// that is an error which suggests what to do. A table has no files, so none is read for it.
func (r *resources) List(ctx context.Context, o *internalversion.ListOptions) (runtime.Object, error) {
	if countsOnly(ctx) {
		stored, err := listStored(ctx, r.store, o, maxRows(ctx))
		if err != nil {
			return nil, err
		}
		return &fileCounts{listing: stored}, nil
	}
	stored, err := listStored(ctx, r.store, o, 0)
	if err != nil {
		return nil, err
	}
	items, err := r.loadAll(ctx, stored.Items)
	if err != nil {
		return nil, err
	}
	if len(items) < len(stored.Items) {
		if o.Limit == 0 {
			return nil, r.errTooLarge()
		}
		if stored, err = r.shorten(ctx, o, stored, len(items)); err != nil {
			return nil, err
		}
	}
	return &porchv1alpha1.PackageRevisionResourcesList{ListMeta: stored.ListMeta, Items: items}, nil
}

// loadAll reads the files of the first revisions: as many as a response may hold, and at least one.
// It holds at most the files of some more in memory.
func (r *resources) loadAll(ctx context.Context, revisions []*store.Revision) ([]porchv1alpha1.PackageRevisionResources, error) {
	const together = 8
	items := make([]porchv1alpha1.PackageRevisionResources, 0, len(revisions))
	size := 0
	for batch := range slices.Chunk(revisions, together) {
		var loaded [together]kpt.Files
		group, ctx := errgroup.WithContext(ctx)
		for i, revision := range batch {
			group.Go(func() (err error) {
				loaded[i], err = r.store.Files(ctx, revision.Name, revision.Digest)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return nil, err
		}
		for i, revision := range batch {
			if size += loaded[i].Size(); size > r.maxBytes && len(items) > 0 {
				return items, nil
			}
			m := store.WithoutLastApplied(revision.ObjectMeta)
			m.ManagedFields = nil // they are about the fields of the PackageRevision
			items = append(items, *serveFiles(m, &revision.Spec, loaded[i]))
		}
	}
	return items, nil
}

// shorten returns the first revisions of a page, with the token for those that follow.
func (r *resources) shorten(ctx context.Context, o *internalversion.ListOptions, page *store.Listing, n int) (*store.Listing, error) {
	shorter := *o
	shorter.Limit = int64(n)
	if o.Continue == "" { // a token has its version in it
		shorter.ResourceVersion, shorter.ResourceVersionMatch = page.ResourceVersion, metav1.ResourceVersionMatchExact
	}
	out, err := listStored(ctx, r.store, &shorter, 0)
	if err != nil {
		return nil, err
	}
	same := func(a, b *store.Revision) bool { return a.UID == b.UID && a.ResourceVersion == b.ResourceVersion }
	if !slices.EqualFunc(out.Items, page.Items[:n], same) {
		return nil, apierrors.NewResourceExpired("the list has changed; start again without a continue token")
	}
	return out, nil
}

// errTooLarge returns the error of a list without a limit whose files exceed what a response may
// hold.
func (r *resources) errTooLarge() error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
		"the files of these revisions exceed %d MiB: set a limit, to receive them in pages, or select fewer of them, such as with the field selector spec.repository=NAME,spec.packageName=NAME", r.maxBytes>>20))
}

// fileCounts is a list for a table, without files. It is not of a type that clients know, so it can
// never be sent in the place of the files.
type fileCounts struct {
	metav1.TypeMeta
	listing *store.Listing
}

// DeepCopyObject implements runtime.Object. Revisions are shared and never changed.
func (f *fileCounts) DeepCopyObject() runtime.Object { return &fileCounts{f.TypeMeta, f.listing} }

// ConvertToTable implements rest.TableConvertor.
func (r *resources) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	counts, ok := obj.(*fileCounts)
	if !ok {
		return r.kind.ConvertToTable(ctx, obj, options)
	}
	table := &metav1.Table{ListMeta: counts.listing.ListMeta, Rows: make([]metav1.TableRow, len(counts.listing.Items))}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		table.ColumnDefinitions = r.columns
	}
	for i, item := range counts.listing.Items {
		row := serveFiles(item.ObjectMeta, &item.Spec, nil)
		table.Rows[i] = metav1.TableRow{
			Cells:  append(fileColumns(row), int64(item.Files)),
			Object: runtime.RawExtension{Object: withoutManagedFields(row)},
		}
	}
	return table, nil
}

// errClientSideApply is the answer to kubectl apply without --server-side. It would never delete a
// file: which files the user had applied before is in an annotation with all of their content,
// which can be many times as large as annotations may be.
var errClientSideApply = apierrors.NewBadRequest("files of packages cannot be applied client-side: use kubectl apply --server-side, kubectl replace, or kubectl starling package push")

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
			if err := r.checkAllowed(ctx, cr); err != nil {
				return nil, err
			}
			if wanted.Annotations[corev1.LastAppliedConfigAnnotation] != "" {
				return nil, errClientSideApply
			}
			written, err := r.store.UpdateFiles(ctx, cr, wanted, userName(ctx), dryrun.IsDryRun(o.DryRun))
			if err != nil {
				return nil, err
			}
			prr := serveFiles(store.ServeFilesMeta(written.Revision), &written.Revision.Spec, written.Files)
			prr.Status.RenderStatus = written.Render
			return prr, nil
		})
	return out, false, err
}
