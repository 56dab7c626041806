package install

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/pkg/transactions"
	"github.com/starlinghq/starling/pkg/writer"
)

// HandBack gives objects back to the revisions that are still active, because the installation of
// those that were to control them did not succeed: the program of the active one continues to work.
// The content of the objects stays. What a new revision that became active controls stays too.
func (i *Installer) HandBack(ctx context.Context, packages []Package, removals []Removal) error {
	var previous, next []revision
	for n := range packages {
		p := &packages[n]
		revisions, err := i.Revisions(ctx, p.Kind, p.Name)
		if err != nil {
			return err
		}
		active := transaction.Active(revisions)
		for _, r := range revisions {
			switch {
			case r == active && r.Name != p.Locked.Name:
				previous = append(previous, revision{p.Kind, r})
			case r != active && r.Name == p.Locked.Name:
				next = append(next, revision{p.Kind, r})
			}
		}
	}
	for _, r := range removals {
		revisions, err := i.Revisions(ctx, r.Kind, r.Name)
		if err != nil {
			return err
		}
		if active := transaction.Active(revisions); active != nil {
			previous = append(previous, revision{r.Kind, active})
		}
	}
	for _, to := range previous {
		err := i.eachObject(ctx, to.Status.ObjectRefs, func(ctx context.Context, resource schema.GroupVersionResource, live *unstructured.Unstructured) error {
			controller := transaction.ControllerOf(live)
			if controller == nil || !slices.ContainsFunc(next, func(r revision) bool { return r.UID == controller.UID }) {
				return nil
			}
			return i.own(ctx, resource, live, transaction.Controlled(live.GetOwnerReferences(), revisionOwner(to.kind, to.ProviderRevision)))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// revision is a revision with the kind of its package.
type revision struct {
	kind transactions.Kind
	*pkgv1.ProviderRevision
}

// own writes the owners of an object, if they are others.
func (i *Installer) own(ctx context.Context, resource schema.GroupVersionResource, live *unstructured.Unstructured, owners []metav1.OwnerReference) error {
	if slices.EqualFunc(owners, live.GetOwnerReferences(), sameOwner) {
		return nil
	}
	return i.patch(ctx, writer.Target{Resource: resource, Name: live.GetName()}, live.GetResourceVersion(),
		map[string]any{"metadata": map[string]any{"ownerReferences": owners}})
}

// eachObject calls do for each of these objects that exists.
func (i *Installer) eachObject(ctx context.Context, refs []pkgv1.TypedReference, do func(context.Context, schema.GroupVersionResource, *unstructured.Unstructured) error) error {
	var objects []*unstructured.Unstructured
	for _, ref := range refs {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion(ref.APIVersion)
		o.SetKind(ref.Kind)
		o.SetName(ref.Name)
		objects = append(objects, o)
	}
	return i.each(ctx, objects, func(ctx context.Context, o *unstructured.Unstructured) error {
		resource, err := i.resourceOf(o.GroupVersionKind())
		if meta.IsNoMatchError(err) {
			return nil // its kind is gone, and the object with it
		} else if err != nil {
			return err
		}
		live, err := i.live(ctx, resource, o.GetName())
		if live == nil {
			return err
		}
		return do(ctx, resource, live)
	})
}

// listed returns what the revisions list, once.
func listed(revisions []*pkgv1.ProviderRevision) []pkgv1.TypedReference {
	var refs []pkgv1.TypedReference
	for _, r := range revisions {
		for _, ref := range r.Status.ObjectRefs {
			if !slices.ContainsFunc(refs, func(other pkgv1.TypedReference) bool { return sameObject(ref, other) }) {
				refs = append(refs, ref)
			}
		}
	}
	return refs
}

func sameObject(a, b pkgv1.TypedReference) bool {
	return a.Kind == b.Kind && a.Name == b.Name && groupOf(a.APIVersion) == groupOf(b.APIVersion)
}

func groupOf(apiVersion string) string {
	group, _, found := strings.Cut(apiVersion, "/")
	if !found {
		return ""
	}
	return group
}

// belongs reports whether an object belongs to a package with these revisions: one of them controls
// it, or it owns it and nothing controls it, as after a later version dropped the object.
func belongs(o *unstructured.Unstructured, revisions []*pkgv1.ProviderRevision) bool {
	is := func(uid types.UID) bool {
		return slices.ContainsFunc(revisions, func(r *pkgv1.ProviderRevision) bool { return r.UID == uid })
	}
	if controller := transaction.ControllerOf(o); controller != nil {
		return is(controller.UID)
	}
	return slices.ContainsFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return is(ref.UID) })
}

// Removal is a package to remove.
type Removal struct {
	Kind transactions.Kind
	// Name is the name of the package, "" if it is not known: nothing is removed then but the
	// revision.
	Name string
	// Revision is the name of its revision in the Lock.
	Revision string
	// Replaced is true if another package adopts the objects. None is deleted then.
	Replaced bool
	// AllowDeletion allows the deletion of CustomResourceDefinitions of which objects exist.
	AllowDeletion bool
}

// OnRemoval returns what becomes of a CustomResourceDefinition in the clusters when a package with
// these revisions is removed, as the value of the annotation starling.io/on-removal, "" for none.
func (r *Removal) OnRemoval(crd *unstructured.Unstructured, revisions []*pkgv1.ProviderRevision) string {
	var common map[string]string
	if active := transaction.Active(revisions); active != nil {
		common = active.Spec.CommonAnnotations
	}
	return transaction.OnRemoval(crd, common, r.AllowDeletion)
}

// TakeBack removes the annotation starling.io/on-removal from an object, if only a removal of its
// package has written it.
func (i *Installer) TakeBack(ctx context.Context, ref pkgv1.TypedReference) error {
	err := i.eachObject(ctx, []pkgv1.TypedReference{ref}, func(ctx context.Context, resource schema.GroupVersionResource, live *unstructured.Unstructured) error {
		if !transaction.HasRemoval(live) {
			return nil
		}
		return i.patch(ctx, writer.Target{Resource: resource, Name: live.GetName()}, live.GetResourceVersion(),
			map[string]any{"metadata": map[string]any{"annotations": map[string]any{controlv1alpha1.AnnotationOnRemoval: nil}}})
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// eachOf calls do for each object that belongs to a package with these revisions.
func (i *Installer) eachOf(ctx context.Context, revisions []*pkgv1.ProviderRevision, do func(context.Context, schema.GroupVersionResource, *unstructured.Unstructured) error) error {
	return i.eachObject(ctx, listed(revisions), func(ctx context.Context, resource schema.GroupVersionResource, live *unstructured.Unstructured) error {
		if !belongs(live, revisions) {
			return nil // it passed to another package
		}
		return do(ctx, resource, live)
	})
}

// Remove removes what the revisions of a package control, the revisions, and the package object. An
// object that passed to another revision stays, and so do CustomResourceDefinitions of which
// objects exist, unless their deletion is allowed: an error says so then. Of a package that is
// replaced, all objects stay.
func (i *Installer) Remove(ctx context.Context, r Removal) error {
	revisions, err := i.Revisions(ctx, r.Kind, r.Name)
	if err != nil {
		return err
	}
	err = i.eachOf(ctx, revisions, func(ctx context.Context, resource schema.GroupVersionResource, live *unstructured.Unstructured) error {
		if r.Replaced {
			return i.own(ctx, resource, live, transaction.Released(live.GetOwnerReferences(), ownersOf(revisions)...))
		}
		return i.removeObject(ctx, &r, resource, live)
	})
	if err != nil {
		return err
	}
	for _, revision := range revisions {
		if err := i.deleteRevision(ctx, r.Kind, revision, "removed"); err != nil {
			return err
		}
	}
	pkg, err := i.Client.Packages(r.Kind).Get(ctx, r.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("get %s %q: %w", r.Kind.Name, r.Name, err)
	}
	if pkg.DeletionTimestamp != nil {
		return nil
	}
	err = i.Writer.Delete(ctx, writer.Target{Resource: r.Kind.Packages, Name: r.Name}, pkg.UID, "removed")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// deleteRevision deletes a revision and then its finalizer: before, the finalizer would be added
// again.
func (i *Installer) deleteRevision(ctx context.Context, kind transactions.Kind, r *pkgv1.ProviderRevision, reason string) error {
	target := writer.Target{Resource: kind.Revisions, Name: r.Name}
	if r.DeletionTimestamp == nil {
		if err := i.Writer.Delete(ctx, target, r.UID, reason); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	left, err := i.Client.Revisions(kind).Get(ctx, r.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && (left.UID != r.UID || !slices.Contains(left.Finalizers, pkgv1.RevisionFinalizer)) {
		return nil
	} else if err != nil {
		return fmt.Errorf("get %s %q: %w", kind.RevisionName, r.Name, err)
	}
	finalizers := slices.DeleteFunc(left.Finalizers, func(f string) bool { return f == pkgv1.RevisionFinalizer })
	err = i.patch(ctx, target, left.ResourceVersion, map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// removeObject deletes an object, and waits until it is gone.
func (i *Installer) removeObject(ctx context.Context, r *Removal, resource schema.GroupVersionResource, live *unstructured.Unstructured) error {
	if !r.AllowDeletion {
		if use, err := i.use(ctx, resource, live); err != nil {
			return err
		} else if use != "" {
			return inUse(r.Name, []string{use})
		}
	}
	if live.GetDeletionTimestamp() == nil {
		target := writer.Target{Resource: resource, Name: live.GetName()}
		if err := i.Writer.DeleteVersion(ctx, target, live.GetUID(), live.GetResourceVersion(), "removed"); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return i.gone(ctx, resource, live)
}

// ownersOf returns the UIDs of revisions and of their packages.
func ownersOf(revisions []*pkgv1.ProviderRevision) []types.UID {
	var uids []types.UID
	for _, r := range revisions {
		uids = append(uids, r.UID)
		for _, owner := range r.OwnerReferences {
			if _, found := transactions.KindOf(owner.Kind); found {
				uids = append(uids, owner.UID)
			}
		}
	}
	return uids
}

// gone blocks until the object does not exist. Those of a CustomResourceDefinition are deleted with
// it, which takes a moment.
func (i *Installer) gone(ctx context.Context, resource schema.GroupVersionResource, o *unstructured.Unstructured) error {
	const interval = 50 * time.Millisecond
	// Requests have the context of the caller: one that is sent when the time is over would fail.
	err := wait.PollUntilContextTimeout(ctx, interval, i.Patience, true, func(context.Context) (bool, error) {
		live, err := i.live(ctx, resource, o.GetName())
		return live == nil || live.GetUID() != o.GetUID(), err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return &transaction.FailedError{
			Reason:  pkgv1alpha1.ReasonObjectInstallationFailed,
			Message: fmt.Sprintf("%s %s is still being deleted: finalizers of it or of its objects keep it", o.GetKind(), o.GetName()),
		}
	}
	return err
}

// Collect deletes inactive revisions that exceed the limits of their packages. Their objects belong
// to the active ones.
func (i *Installer) Collect(ctx context.Context, packages []Package) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelPackages)
	for n := range packages {
		group.Go(func() error { return i.collect(ctx, &packages[n]) })
	}
	return group.Wait()
}

func (i *Installer) collect(ctx context.Context, p *Package) error {
	revisions, err := i.Revisions(ctx, p.Kind, p.Name)
	if err != nil || transaction.Active(revisions) == nil {
		return err
	}
	for _, old := range transaction.OldRevisions(revisions, p.Spec.RevisionHistoryLimit) {
		if err := i.deleteRevision(ctx, p.Kind, old, "history"); err != nil {
			return err
		}
	}
	return nil
}
