package apiserver

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/packages/store"
)

// revisions serves packagerevisions.
type revisions struct {
	kind[*porchv1alpha1.PackageRevision]
	store *store.Store
	done  <-chan struct{}
	// authorizer reports what users may do in the space.
	authorizer authorizer.Authorizer
}

var (
	_ rest.StandardStorage      = (*revisions)(nil)
	_ rest.Scoper               = (*revisions)(nil)
	_ rest.SingularNameProvider = (*revisions)(nil)

	revisionResource = porchv1alpha1.ResourcePackageRevisions.GroupResource()
)

// Get implements rest.Getter.
func (r *revisions) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	cr, err := getStored(ctx, r.store, name, o)
	if err != nil {
		return nil, err
	}
	return store.Serve(cr), nil
}

func getStored(ctx context.Context, packages *store.Store, name string, o *metav1.GetOptions) (*storev1alpha1.PackageRevision, error) {
	cr, err := packages.Revisions(genericapirequest.NamespaceValue(ctx)).Get(ctx, name, metav1.GetOptions{ResourceVersion: o.ResourceVersion})
	if err != nil {
		return nil, store.TranslateError(err, name)
	}
	return cr, nil
}

// List implements rest.Lister.
func (r *revisions) List(ctx context.Context, o *internalversion.ListOptions) (runtime.Object, error) {
	list, err := r.list(ctx, o, maxRows(ctx))
	if err != nil {
		return nil, err
	}
	return list, nil
}

func (r *revisions) list(ctx context.Context, o *internalversion.ListOptions, atOnce int) (*porchv1alpha1.PackageRevisionList, error) {
	stored, err := listStored(ctx, r.store, o, atOnce)
	if err != nil {
		return nil, err
	}
	list := &porchv1alpha1.PackageRevisionList{ListMeta: stored.ListMeta, Items: make([]porchv1alpha1.PackageRevision, len(stored.Items))}
	for i, item := range stored.Items {
		list.Items[i] = *item.PackageRevision
	}
	return list, nil
}

// listStored lists stored revisions for a request for served ones. The argument atOnce is that of
// store.Store.List.
func listStored(ctx context.Context, packages *store.Store, o *internalversion.ListOptions, atOnce int) (*store.Listing, error) {
	options, err := storedOptions(o)
	if err != nil {
		return nil, err
	}
	return packages.List(ctx, genericapirequest.NamespaceValue(ctx), *options, atOnce)
}

func storedOptions(o *internalversion.ListOptions) (*metav1.ListOptions, error) {
	fieldSelector, labelSelector, err := storedSelectors(o.FieldSelector, o.LabelSelector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return &metav1.ListOptions{
		FieldSelector: fieldSelector, LabelSelector: labelSelector,
		ResourceVersion: o.ResourceVersion, ResourceVersionMatch: o.ResourceVersionMatch, Limit: o.Limit, Continue: o.Continue,
		AllowWatchBookmarks: o.AllowWatchBookmarks, SendInitialEvents: o.SendInitialEvents, TimeoutSeconds: o.TimeoutSeconds,
	}, nil
}

// Watch implements rest.Watcher. It is a watch of stored revisions at the same resourceVersion,
// with bookmarks.
func (r *revisions) Watch(ctx context.Context, o *internalversion.ListOptions) (watch.Interface, error) {
	options, err := storedOptions(o)
	if err != nil {
		return nil, err
	}
	stored, err := watchStored(ctx, r.store, *options, r.done)
	if err != nil {
		return nil, err
	}
	return watch.Filter(stored, func(e watch.Event) (watch.Event, bool) {
		if cr, ok := e.Object.(*storev1alpha1.PackageRevision); ok {
			e.Object = store.Serve(cr)
		}
		return e, true
	}), nil
}

// watchStored watches stored revisions for a request for served ones, until done is closed.
func watchStored(ctx context.Context, packages *store.Store, options metav1.ListOptions, done <-chan struct{}) (watch.Interface, error) {
	stored, err := packages.Revisions(genericapirequest.NamespaceValue(ctx)).Watch(ctx, options)
	if err != nil {
		return nil, store.TranslateError(err, "")
	}
	go func() {
		select {
		case <-done:
		case <-ctx.Done():
		}
		stored.Stop()
	}()
	return stored, nil
}

// Create implements the interface of package rest for creation.
func (r *revisions) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, o *metav1.CreateOptions) (runtime.Object, error) {
	pr, ok := obj.(*porchv1alpha1.PackageRevision)
	if !ok {
		return nil, fmt.Errorf("unexpected type %T, want PackageRevision", obj)
	}
	pr.Namespace = genericapirequest.NamespaceValue(ctx)
	if validate != nil {
		if err := validate(ctx, pr.DeepCopy()); err != nil {
			return nil, err
		}
	}
	if err := r.checkOwners(ctx, pr.Name, &metav1.ObjectMeta{}, &pr.ObjectMeta); err != nil {
		return nil, err
	}
	if err := r.checkAnnotations(ctx, pr.Name, nil, pr.Annotations); err != nil {
		return nil, err
	}
	if err := r.checkTags(ctx, pr.Name, nil, pr.Labels); err != nil {
		return nil, err
	}
	if err := r.checkPolicyOf(ctx, pr.Name, nil, pr.Annotations); err != nil {
		return nil, err
	}
	made, err := r.store.Create(ctx, pr, userName(ctx), dryrun.IsDryRun(o.DryRun))
	if err != nil {
		return nil, err
	}
	return store.Serve(made), nil
}

// Update implements rest.Updater.
func (r *revisions) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
	updateValidation rest.ValidateObjectUpdateFunc, forceCreate bool, o *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	out, err := r.update(ctx, name, info, updateValidation,
		func(cr *storev1alpha1.PackageRevision, wanted *porchv1alpha1.PackageRevision) (*storev1alpha1.PackageRevision, error) {
			before := metav1.ObjectMeta{OwnerReferences: cr.Served.OwnerReferences, Annotations: cr.Annotations}
			if err := r.checkOwners(ctx, name, &before, &wanted.ObjectMeta); err != nil {
				return nil, err
			}
			if err := r.checkAnnotations(ctx, name, cr.Annotations, wanted.Annotations); err != nil {
				return nil, err
			}
			if err := r.checkTags(ctx, name, cr.Labels, wanted.Labels); err != nil {
				return nil, err
			}
			if err := r.checkPolicyOf(ctx, name, cr.Annotations, wanted.Annotations); err != nil {
				return nil, err
			}
			return r.store.Update(ctx, cr, wanted, userName(ctx), dryrun.IsDryRun(o.DryRun))
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

// update is common to revisions and their approval.
func (r *revisions) update(ctx context.Context, name string, info rest.UpdatedObjectInfo, validate rest.ValidateObjectUpdateFunc,
	write func(*storev1alpha1.PackageRevision, *porchv1alpha1.PackageRevision) (*storev1alpha1.PackageRevision, error),
) (runtime.Object, error) {
	return update(ctx, r.store, name, info, validate,
		func(cr *storev1alpha1.PackageRevision) (*porchv1alpha1.PackageRevision, error) {
			return store.Serve(cr.DeepCopy()), nil
		},
		func(cr *storev1alpha1.PackageRevision, wanted *porchv1alpha1.PackageRevision) (*porchv1alpha1.PackageRevision, error) {
			written, err := write(cr, wanted)
			if err != nil {
				return nil, err
			}
			return store.Serve(written), nil
		})
}

// update is common to all updates. It reads the object, applies the user's change to it, and writes
// it unless it changed in between. After a conflict, a change that names no resourceVersion is
// applied again.
func update[T metav1.Object](ctx context.Context, packages *store.Store, name string, info rest.UpdatedObjectInfo, validate rest.ValidateObjectUpdateFunc,
	serve func(*storev1alpha1.PackageRevision) (T, error), write func(*storev1alpha1.PackageRevision, T) (T, error),
) (runtime.Object, error) {
	const attempts = 5
	for attempt := 1; ; attempt++ {
		cr, err := packages.Get(ctx, genericapirequest.NamespaceValue(ctx), name)
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
			return nil, fmt.Errorf("unexpected type %T of the updated object", obj)
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

// checkIdentity makes sure that a change is about this object at this resourceVersion.
func checkIdentity(name string, wanted, old metav1.Object) error {
	switch {
	case wanted.GetResourceVersion() == "":
		return apierrors.NewInvalid(porchv1alpha1.GroupVersion.WithKind("PackageRevision").GroupKind(), name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), "", "must be specified for an update"),
		})
	case wanted.GetName() != name || wanted.GetNamespace() != "" && wanted.GetNamespace() != old.GetNamespace():
		return apierrors.NewBadRequest(fmt.Sprintf("the object in the request is %s/%s, not %s/%s: name and namespace cannot be changed",
			cmp.Or(wanted.GetNamespace(), old.GetNamespace()), wanted.GetName(), old.GetNamespace(), name))
	}
	uid, version := wanted.GetUID(), wanted.GetResourceVersion()
	return checkPreconditions(name, old, &uid, &version)
}

func checkPreconditions(name string, old metav1.Object, uid *types.UID, version *string) error {
	if uid != nil && *uid != "" && *uid != old.GetUID() {
		return apierrors.NewConflict(revisionResource, name, fmt.Errorf("precondition failed: UID in precondition: %s, UID in object meta: %s", *uid, old.GetUID()))
	}
	if version != nil && *version != old.GetResourceVersion() {
		return store.Conflict(name)
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
		pr := store.Serve(cr.DeepCopy())
		bound := o.Preconditions != nil && o.Preconditions.ResourceVersion != nil
		if o.Preconditions != nil {
			if err := checkPreconditions(name, pr, o.Preconditions.UID, o.Preconditions.ResourceVersion); err != nil {
				return nil, false, err
			}
		}
		if validate != nil {
			if err := validate(ctx, pr.DeepCopy()); err != nil {
				return nil, false, err
			}
		}
		if pr.Spec.Lifecycle.Published() { // its tags go to an older revision that has them
			if err := r.checkTags(ctx, name, pr.Labels, nil); err != nil {
				return nil, false, err
			}
		}
		err = r.store.Delete(ctx, cr, dryrun.IsDryRun(o.DryRun))
		if apierrors.IsConflict(err) && !bound && attempt < attempts {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		return pr, len(pr.Finalizers) == 0, nil
	}
}

// DeleteCollection implements rest.CollectionDeleter. It deletes all revisions that may be deleted,
// even if others may not. It never exceeds the limit of the request.
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
