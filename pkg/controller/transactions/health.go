package transactions

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/pkg/transactions"
	"github.com/starlinghq/starling/pkg/writer"
)

// objects watches the metadata of the objects of packages.
type objects struct {
	*dynamicinformer.Kinds
	// changed is called with the owners of an object that has changed, and all when any object may
	// have. They must not block.
	changed func([]metav1.OwnerReference)
	all     func()
}

func newObjects(wds *rest.Config) (*objects, error) {
	o := &objects{}
	var err error
	o.Kinds, err = dynamicinformer.NewKinds(dynamicinformer.KindsConfig{
		Space: wds, Transform: keepOwners, Handler: o,
		Allowed: func(_ schema.GroupKind, r dynamicinformer.Resource) bool { return !r.Namespaced },
	})
	return o, err
}

// keepOwners drops all but what transaction.Deviations and takeBack need.
func keepOwners(m *metav1.PartialObjectMetadata) {
	var removal map[string]string
	if m.Annotations[controlv1alpha1.AnnotationOnRemoval] != "" && (len(m.ManagedFields) == 0 || transaction.HasRemoval(m)) {
		removal = map[string]string{controlv1alpha1.AnnotationOnRemoval: m.Annotations[controlv1alpha1.AnnotationOnRemoval]}
	}
	m.ObjectMeta = metav1.ObjectMeta{
		Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation, OwnerReferences: m.OwnerReferences,
		Labels: m.Labels, Annotations: removal,
	}
}

// OnObject implements dynamicinformer.KindHandler.
func (o *objects) OnObject(_ dynamicinformer.Resource, before, after metav1.Object) {
	for _, object := range []metav1.Object{before, after} {
		if object != nil {
			o.changed(object.GetOwnerReferences())
		}
	}
}

// OnKind implements dynamicinformer.KindHandler.
func (o *objects) OnKind(schema.GroupKind) { o.all() }

// look returns an object as it is watched, nil if there is none. known is false if that is not
// known, and soon is true if it is about to be.
func (o *objects) look(ref pkgv1.TypedReference) (found metav1.Object, known, soon bool) {
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
	r, watched := o.Watched(kind)
	if !watched {
		_, served := o.Find(kind)
		return nil, false, served || len(o.Discovery.Resources()) == 0
	}
	if !o.Synced(r.GroupResource()) {
		failed := slices.ContainsFunc(o.Set.Resources(), func(s dynamicinformer.State) bool { return s.GroupResource() == r.GroupResource() && s.Err != "" })
		return nil, false, !failed
	}
	if object, exists := o.Get(objref.Ref{Group: r.Group, Resource: r.Resource, Name: ref.Name}); exists {
		return object, true, false
	}
	return nil, true, false
}

// use watches the kinds of which revisions have objects.
func (c *Controller) use() {
	kinds := map[schema.GroupKind]struct{}{}
	for _, kind := range transactions.Kinds {
		for _, r := range c.Watch.Revisions[kind.Name].All() {
			for _, ref := range r.Status.ObjectRefs {
				kinds[schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()] = struct{}{}
			}
		}
	}
	c.Objects.Use(kinds)
}

// onObject has the packages compared that own an object.
func (c *Controller) onObject(owners []metav1.OwnerReference) {
	for _, owner := range owners {
		for _, kind := range transactions.Kinds {
			if owner.Kind != kind.RevisionName {
				continue
			}
			if r := c.Watch.Revisions[kind.Name].Get("", owner.Name); r != nil {
				c.packages.AddAfter(transactions.Ref{Kind: kind.Name, Name: r.Labels[pkgv1.LabelPackage]}, settleAfter)
			}
		}
	}
}

// allPackages has all packages compared.
func (c *Controller) allPackages() {
	for _, kind := range transactions.Kinds {
		for _, p := range c.Watch.Packages[kind.Name].All() {
			c.packages.AddAfter(transactions.Ref{Kind: kind.Name, Name: p.Name}, settleAfter)
		}
	}
}

// health compares the objects of the active revision of a package with what was installed, and
// writes its condition. While a Transaction holds the Lock, objects are between two states, and the
// condition stays: the release of the Lock has all packages compared.
func (c *Controller) health(ctx context.Context, kind transactions.Kind, state *transaction.PackageState) error {
	c.use()
	active := transaction.Active(state.Revisions)
	if active == nil || state.Busy || !transaction.Installed(active) {
		return nil
	}
	pending, unread := false, false
	deviations, unknown := transaction.Deviations(active, func(ref pkgv1.TypedReference) (metav1.Object, bool) {
		found, known, soon := c.Objects.look(ref)
		pending, unread = pending || soon, unread || !known
		return found, known
	})
	if pending {
		return nil // after a restart, the condition stays until all is read
	}
	if len(deviations) > 0 || unread { // a cache may lack what exists
		find, _ := c.Installer.Live.Read(ctx, active.Status.ObjectRefs) // what cannot be read is not known
		deviations, unknown = transaction.Deviations(active, find)
	}
	condition := transaction.Health(kind.Name, state.Package.Name, c.present(state), deviations, unknown)
	condition.LastTransitionTime = metav1.NewTime(state.Now).Rfc3339Copy()
	changed := active.DeepCopy()
	meta.SetStatusCondition(&changed.Status.Conditions, condition)
	if apiequality.Semantic.DeepEqual(active.Status, changed.Status) {
		return nil
	}
	c.holds.Add(struct{}{}) // what is whole again need not be held
	changed.TypeMeta = metav1.TypeMeta{APIVersion: pkgv1.GroupVersion.String(), Kind: kind.RevisionName}
	_, err := c.Writer.Update(ctx, writer.Target{Resource: kind.Revisions, Name: changed.Name, Subresource: "status"}, changed, "health")
	return ignoreNotFound(err)
}

// takeBack removes what a removal that was given up has written to the objects of a package which
// stays: clusters would keep CRDs that no user wants to keep there. While a Transaction may remove
// the package, that stays; the end of each removal has all packages compared.
func (c *Controller) takeBack(ctx context.Context, state *transaction.PackageState) error {
	active := transaction.Active(state.Revisions)
	if active == nil || state.Busy || state.Package.DeletionTimestamp != nil {
		return nil
	}
	sources := state.Sources()
	if slices.ContainsFunc(c.Watch.Transactions.All(), func(tx *pkgv1alpha1.Transaction) bool {
		return removes(tx) && slices.Contains(sources, tx.Spec.Delete.Source)
	}) {
		return nil
	}
	for _, ref := range active.Status.ObjectRefs {
		if found, _, _ := c.Objects.look(ref); found == nil || found.GetAnnotations()[controlv1alpha1.AnnotationOnRemoval] == "" {
			continue
		}
		if err := c.Installer.TakeBack(ctx, ref); err != nil {
			return err
		}
	}
	return nil
}

// removes reports whether a Transaction may still remove a package. One that a user deletes may be
// in the middle of that, until its finalizer is gone.
func removes(tx *pkgv1alpha1.Transaction) bool {
	return tx.Spec.Delete != nil && !transaction.Ended(tx)
}

// present returns the Transaction of the present generation of a package, "" if there is none.
func (c *Controller) present(state *transaction.PackageState) string {
	last := transaction.Last(state.Transactions)
	if last == nil || last.Labels[pkgv1.LabelGeneration] != strconv.FormatInt(state.Package.Generation, 10) {
		return ""
	}
	return last.Name
}

// unhealthy reports whether the objects of a package are known not to be as they were installed.
func (c *Controller) unhealthy(ref transactions.Ref) bool {
	active := transaction.Active(c.Watch.RevisionsOf(ref))
	return active != nil && !meta.IsStatusConditionTrue(active.Status.Conditions, pkgv1.RevisionConditionHealthy)
}

// again reports whether a Transaction that a user deletes is carried out again: it did not succeed,
// or what it has installed is not there any more.
func (c *Controller) again(tx *pkgv1alpha1.Transaction, ref transactions.Ref) bool {
	return tx.Annotations[pkgv1alpha1.AnnotationCollected] == "" && (!transaction.Succeeded(tx) || c.unhealthy(ref))
}

// half returns the objects of packages that are not what an active revision has installed: a
// Transaction that did not succeed has written them, or was about to replace them. It reads the API
// server, since what a cache lacks may exist.
func (c *Controller) half(ctx context.Context) (map[objref.Ref]bool, error) {
	packages := map[transactions.Ref][]*pkgv1.ProviderRevision{}
	var refs []pkgv1.TypedReference
	for _, kind := range transactions.Kinds {
		list, err := c.Client.Revisions(kind).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.Revisions.Resource, err)
		}
		for n := range list.Items {
			r := &list.Items[n]
			ref := transactions.Ref{Kind: kind.Name, Name: r.Labels[pkgv1.LabelPackage]}
			packages[ref] = append(packages[ref], r)
			refs = append(refs, r.Status.ObjectRefs...)
		}
	}
	find, err := c.Installer.Live.Read(ctx, refs)
	if err != nil {
		return nil, err
	}
	half := map[objref.Ref]bool{}
	for _, revisions := range packages {
		of := transaction.Half(revisions, find)
		if active := transaction.Active(revisions); active != nil {
			deviations, _ := transaction.Deviations(active, find)
			for _, d := range deviations {
				of = append(of, d.Object)
			}
		}
		for _, ref := range of {
			resource, err := c.Installer.Live.Resource(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
			if err != nil {
				return nil, fmt.Errorf("find the resource of %s: %w", ref.Kind, err)
			}
			half[objref.New(resource.GroupResource(), "", ref.Name)] = true
		}
	}
	return half, nil
}
