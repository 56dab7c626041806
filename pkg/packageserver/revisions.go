package packageserver

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/packages"
)

// revisions serves packagerevisions.
type revisions struct {
	store *packages.Store
	done  <-chan struct{}
	table
}

var (
	_ rest.StandardStorage      = (*revisions)(nil)
	_ rest.Scoper               = (*revisions)(nil)
	_ rest.SingularNameProvider = (*revisions)(nil)
	_ rest.Storage              = (*revisions)(nil)

	revisionResource = porchv1alpha1.ResourcePackageRevisions.GroupResource()
)

func newRevisions(store *packages.Store, done <-chan struct{}) *revisions {
	return &revisions{store: store, done: done, table: table{resource: revisionResource, columns: revisionColumns, row: revisionRow}}
}

// New implements rest.Storage.
func (r *revisions) New() runtime.Object { return &porchv1alpha1.PackageRevision{} }

// Destroy implements rest.Storage.
func (r *revisions) Destroy() {}

// NewList implements rest.Lister.
func (r *revisions) NewList() runtime.Object { return &porchv1alpha1.PackageRevisionList{} }

// NamespaceScoped implements rest.Scoper.
func (r *revisions) NamespaceScoped() bool { return true }

// GetSingularName implements rest.SingularNameProvider.
func (r *revisions) GetSingularName() string { return "packagerevision" }

// Get implements rest.Getter.
func (r *revisions) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	cr, err := getKept(ctx, r.store, name, o)
	if err != nil {
		return nil, err
	}
	return packages.Serve(cr), nil
}

func getKept(ctx context.Context, store *packages.Store, name string, o *metav1.GetOptions) (*storev1alpha1.PackageRevision, error) {
	cr, err := store.Revisions(genericapirequest.NamespaceValue(ctx)).Get(ctx, name, metav1.GetOptions{ResourceVersion: o.ResourceVersion})
	if err != nil {
		return nil, packages.Explain(err, name)
	}
	return cr, nil
}

// List implements rest.Lister.
func (r *revisions) List(ctx context.Context, o *internalversion.ListOptions) (runtime.Object, error) {
	list, err := r.list(ctx, o, rowsAtOnce(ctx))
	if err != nil {
		return nil, err
	}
	return list, nil
}

func (r *revisions) list(ctx context.Context, o *internalversion.ListOptions, atOnce int) (*porchv1alpha1.PackageRevisionList, error) {
	kept, err := listKept(ctx, r.store, o, atOnce)
	if err != nil {
		return nil, err
	}
	list := &porchv1alpha1.PackageRevisionList{ListMeta: kept.ListMeta, Items: make([]porchv1alpha1.PackageRevision, len(kept.Items))}
	for i, item := range kept.Items {
		list.Items[i] = *item.PackageRevision
	}
	return list, nil
}

// listKept lists what is kept for what was asked for of what is served; atOnce is that of packages.Store.List.
func listKept(ctx context.Context, store *packages.Store, o *internalversion.ListOptions, atOnce int) (*packages.Listing, error) {
	options, err := keptOptions(o)
	if err != nil {
		return nil, err
	}
	return store.List(ctx, genericapirequest.NamespaceValue(ctx), *options, atOnce)
}

func keptOptions(o *internalversion.ListOptions) (*metav1.ListOptions, error) {
	if o == nil {
		return &metav1.ListOptions{}, nil
	}
	fieldSelector, labelSelector, err := selectKept(o.FieldSelector, o.LabelSelector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return &metav1.ListOptions{
		FieldSelector: fieldSelector, LabelSelector: labelSelector,
		ResourceVersion: o.ResourceVersion, ResourceVersionMatch: o.ResourceVersionMatch, Limit: o.Limit, Continue: o.Continue,
		AllowWatchBookmarks: o.AllowWatchBookmarks, SendInitialEvents: o.SendInitialEvents, TimeoutSeconds: o.TimeoutSeconds,
	}, nil
}

// Watch implements rest.Watcher. The watch is that of what is kept, from whatever resourceVersion, bookmarks included.
func (r *revisions) Watch(ctx context.Context, o *internalversion.ListOptions) (watch.Interface, error) {
	options, err := keptOptions(o)
	if err != nil {
		return nil, err
	}
	kept, err := r.store.Revisions(genericapirequest.NamespaceValue(ctx)).Watch(ctx, *options)
	if err != nil {
		return nil, packages.Explain(err, "")
	}
	go func() {
		select {
		case <-r.done:
			kept.Stop()
		case <-ctx.Done():
		}
	}()
	return watch.Filter(kept, func(e watch.Event) (watch.Event, bool) {
		if cr, ok := e.Object.(*storev1alpha1.PackageRevision); ok {
			e.Object = packages.Serve(cr)
		}
		return e, true
	}), nil
}

// Create implements the interface of package rest for it.
func (r *revisions) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, o *metav1.CreateOptions) (runtime.Object, error) {
	pr, ok := obj.(*porchv1alpha1.PackageRevision)
	if !ok {
		return nil, fmt.Errorf("not a PackageRevision: %T", obj)
	}
	pr.Namespace = genericapirequest.NamespaceValue(ctx)
	if validate != nil {
		if err := validate(ctx, pr.DeepCopy()); err != nil {
			return nil, err
		}
	}
	made, err := r.store.Create(ctx, pr, isDryRun(o.DryRun))
	if err != nil {
		return nil, err
	}
	return packages.Serve(made), nil
}

// Update implements rest.Updater.
func (r *revisions) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
	updateValidation rest.ValidateObjectUpdateFunc, forceCreate bool, o *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	out, err := update(ctx, r.store, name, info, updateValidation,
		func(cr *storev1alpha1.PackageRevision) (*porchv1alpha1.PackageRevision, error) {
			return packages.Serve(cr.DeepCopy()), nil
		},
		func(cr *storev1alpha1.PackageRevision, wanted *porchv1alpha1.PackageRevision) (*porchv1alpha1.PackageRevision, error) {
			written, err := r.store.Update(ctx, cr, wanted, isDryRun(o.DryRun))
			if err != nil {
				return nil, err
			}
			return packages.Serve(written), nil
		})
	if !apierrors.IsNotFound(err) || !forceCreate {
		return out, false, err
	}
	obj, err := info.UpdatedObject(ctx, r.New())
	if err != nil {
		return nil, false, err
	}
	made, err := r.Create(ctx, obj, createValidation, &metav1.CreateOptions{DryRun: o.DryRun})
	return made, err == nil, err
}

// update is what all updates have in common: what is kept is read, the user's wish is formed on it, and it is written if it is still
// that. A wish that was not formed on a certain resourceVersion is formed anew if it is not.
func update[T metav1.Object](ctx context.Context, store *packages.Store, name string, info rest.UpdatedObjectInfo, validate rest.ValidateObjectUpdateFunc,
	serve func(*storev1alpha1.PackageRevision) (T, error), write func(*storev1alpha1.PackageRevision, T) (T, error),
) (runtime.Object, error) {
	const attempts = 5
	for attempt := 1; ; attempt++ {
		cr, err := store.Get(ctx, genericapirequest.NamespaceValue(ctx), name)
		if err != nil {
			return nil, err
		}
		old, err := serve(cr)
		if err != nil {
			return nil, err
		}
		if p := info.Preconditions(); p != nil {
			if err := checkPreconditions(name, old, p.UID, p.ResourceVersion); err != nil {
				return nil, err
			}
		}
		obj, err := info.UpdatedObject(ctx, any(old).(runtime.Object))
		if err != nil {
			return nil, err
		}
		wanted, ok := obj.(T)
		if !ok {
			return nil, fmt.Errorf("not what is updated: %T", obj)
		}
		if err := checkIdentity(name, wanted, old); err != nil {
			return nil, err
		}
		if validate != nil {
			if err := validate(ctx, obj.DeepCopyObject(), any(old).(runtime.Object)); err != nil {
				return nil, err
			}
		}
		written, err := write(cr, wanted)
		if err == nil {
			return any(written).(runtime.Object), nil
		}
		if !apierrors.IsConflict(err) || attempt == attempts {
			return nil, err
		}
	}
}

// checkIdentity makes sure that the wish is about this object, and this version of it.
func checkIdentity(name string, wanted, old metav1.Object) error {
	switch {
	case wanted.GetResourceVersion() == "":
		return apierrors.NewInvalid(porchv1alpha1.GroupVersion.WithKind("PackageRevision").GroupKind(), name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), "", "must be specified for an update"),
		})
	case wanted.GetName() != name || wanted.GetNamespace() != "" && wanted.GetNamespace() != old.GetNamespace():
		return apierrors.NewBadRequest(fmt.Sprintf("the object is %s/%s, not %s/%s", wanted.GetNamespace(), wanted.GetName(), old.GetNamespace(), name))
	}
	uid, version := wanted.GetUID(), wanted.GetResourceVersion()
	return checkPreconditions(name, old, &uid, &version)
}

func checkPreconditions(name string, old metav1.Object, uid *types.UID, version *string) error {
	if uid != nil && *uid != "" && *uid != old.GetUID() {
		return apierrors.NewConflict(revisionResource, name, fmt.Errorf("precondition failed: UID in precondition: %s, UID in object meta: %s", *uid, old.GetUID()))
	}
	if version != nil && *version != old.GetResourceVersion() {
		return apierrors.NewConflict(revisionResource, name,
			errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	}
	return nil
}

// Delete implements rest.GracefulDeleter.
func (r *revisions) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, o *metav1.DeleteOptions) (runtime.Object, bool, error) {
	const attempts = 5
	for attempt := 1; ; attempt++ {
		cr, err := r.store.Get(ctx, genericapirequest.NamespaceValue(ctx), name)
		if err != nil {
			return nil, false, err
		}
		pr := packages.Serve(cr.DeepCopy())
		bound := o != nil && o.Preconditions != nil && o.Preconditions.ResourceVersion != nil
		if o != nil && o.Preconditions != nil {
			if err := checkPreconditions(name, pr, o.Preconditions.UID, o.Preconditions.ResourceVersion); err != nil {
				return nil, false, err
			}
		}
		if validate != nil {
			if err := validate(ctx, pr.DeepCopy()); err != nil {
				return nil, false, err
			}
		}
		err = r.store.Delete(ctx, cr, o != nil && isDryRun(o.DryRun))
		if apierrors.IsConflict(err) && !bound && attempt < attempts {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		return pr, len(pr.Finalizers) == 0, nil
	}
}

// DeleteCollection implements rest.CollectionDeleter. What may be deleted is, whatever else may not; and no more than the limit, be the answer
// a table.
func (r *revisions) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, o *metav1.DeleteOptions, lo *internalversion.ListOptions) (runtime.Object, error) {
	list, err := r.list(ctx, lo, 0)
	if err != nil {
		return nil, err
	}
	deleted := &porchv1alpha1.PackageRevisionList{ListMeta: list.ListMeta}
	var first error
	for i := range list.Items {
		item := &list.Items[i]
		ctx := genericapirequest.WithNamespace(ctx, item.Namespace)
		if _, _, err := r.Delete(ctx, item.Name, validate, o.DeepCopy()); err != nil && !apierrors.IsNotFound(err) {
			if first == nil {
				first = err
			}
			continue
		}
		deleted.Items = append(deleted.Items, *item)
	}
	return deleted, first
}

func isDryRun(dryRun []string) bool { return len(dryRun) > 0 }
