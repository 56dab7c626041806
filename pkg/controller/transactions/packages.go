package transactions

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/transaction"
	corexpkg "github.com/starlinghq/starling/pkg/core/xpkg"
	"github.com/starlinghq/starling/pkg/transactions"
	"github.com/starlinghq/starling/pkg/transactions/fetch"
	"github.com/starlinghq/starling/pkg/writer"
)

// pollInterval is how often the tag of a package is resolved whose pull policy is Always.
const pollInterval = time.Minute

// syncPackage creates the Transaction that a change of a package requires, and writes its status.
func (c *Controller) syncPackage(ctx context.Context, ref transactions.Ref) (worker.Result, error) {
	p := c.Watch.Package(ref)
	kind, _ := transactions.KindOf(ref.Kind)
	revisions := c.Watch.RevisionsOf(ref)
	if err := c.guard(ctx, kind, p, revisions); err != nil || p == nil {
		return worker.Result{}, err
	}
	state := transaction.PackageState{
		Kind: kind.Name, Package: p, Transactions: c.Watch.TransactionsOf(p), Revisions: revisions, Lock: c.Watch.Locks.Get("", pkgv1beta1.LockName), Now: c.Clock.Now(),
	}
	if state.Lock != nil {
		holder := c.Watch.Transactions.Get("", transaction.Holder(state.Lock))
		state.Busy = holder != nil && !transaction.Abandoned(state.Lock, holder)
	}
	if err := c.health(ctx, kind, &state); err != nil {
		return worker.Result{}, err
	}
	if err := c.takeBack(ctx, &state); err != nil {
		return worker.Result{}, err
	}
	var result worker.Result
	if p.DeletionTimestamp == nil && p.Spec.PackagePullPolicy != nil && *p.Spec.PackagePullPolicy == pkgv1.PullAlways {
		result.After = pollInterval
		state.Digest = c.digest(ctx, p)
	}
	plan := transaction.PlanPackage(state)
	if err := c.create(ctx, kind, p, &plan); err != nil {
		return worker.Result{}, err
	}
	if err := c.label(ctx, kind, p, &plan); err != nil {
		return worker.Result{}, ignoreNotFound(err)
	}
	if plan.Release {
		return worker.Result{}, c.release(ctx, kind, p, state.Transactions)
	}
	return result, c.writePackageStatus(ctx, kind, p, plan.Status)
}

// guard sets the finalizer of revisions, and removes it from those that are being deleted and may
// go. Without the package, all may.
func (c *Controller) guard(ctx context.Context, kind transactions.Kind, p *pkgv1.Provider, revisions []*pkgv1.ProviderRevision) error {
	guard, release, stay := transaction.Guarded(revisions)
	if p == nil {
		guard, release, stay = nil, append(release, stay...), nil
	}
	for _, r := range slices.Concat(guard, release) {
		finalizers := slices.DeleteFunc(slices.Clone(r.Finalizers), func(f string) bool { return f == pkgv1.RevisionFinalizer })
		if r.DeletionTimestamp == nil {
			finalizers = append(finalizers, pkgv1.RevisionFinalizer)
		}
		target := writer.Target{Resource: kind.Revisions, Name: r.Name}
		if err := c.patchMetadata(ctx, target, r.ResourceVersion, map[string]any{"finalizers": finalizers}); ignoreNotFound(err) != nil {
			return err
		}
	}
	for _, r := range stay {
		if p.DeletionTimestamp == nil {
			about := r.DeepCopy() // its type does not say its kind
			about.TypeMeta = metav1.TypeMeta{APIVersion: pkgv1.GroupVersion.String(), Kind: kind.RevisionName}
			c.Events.Eventf(about, nil, corev1.EventTypeWarning, "RevisionIsActive", "Delete",
				"the active revision goes when %s %s is deleted or has another version: its objects would lose their owner", kind.Name, p.Name)
		}
	}
	return nil
}

// digest returns the digest of the tag of a package, "" if it is not known. The Transaction that
// follows reports why.
func (c *Controller) digest(ctx context.Context, p *pkgv1.Provider) string {
	reference, err := corexpkg.ParseReference(p.Spec.Package)
	if err != nil || reference.Digest != "" {
		return ""
	}
	resolved, err := c.Packages.Resolve(ctx, reference, fetch.OptionsOf(&p.Spec.PackageSpec))
	if err != nil {
		return ""
	}
	return resolved.Digest
}

// create creates the Transaction of a plan, unless it exists.
func (c *Controller) create(ctx context.Context, kind transactions.Kind, p *pkgv1.Provider, plan *transaction.PackagePlan) error {
	for _, tx := range []*pkgv1alpha1.Transaction{plan.Create, plan.CreateAfter} {
		if tx == nil {
			return nil
		}
		_, err := c.Writer.Create(ctx, writer.Target{Resource: pkgv1alpha1.Transactions, Name: tx.Name}, tx, "package")
		if err == nil {
			about := p.DeepCopy() // its type does not say its kind
			about.TypeMeta = metav1.TypeMeta{APIVersion: pkgv1.GroupVersion.String(), Kind: kind.Name}
			c.Events.Eventf(about, nil, corev1.EventTypeNormal, "TransactionCreated", string(tx.Spec.Change), "Created transaction %s", tx.Name)
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		found, err := c.Client.Transactions().Get(ctx, tx.Name, metav1.GetOptions{})
		switch _, owner := transactions.PackageOf(cmp.Or(found, tx)); {
		case apierrors.IsNotFound(err) || err == nil && found.DeletionTimestamp != nil:
			return fmt.Errorf("%w: transaction %q is still being deleted", worker.ErrStale, tx.Name)
		case err != nil:
			return fmt.Errorf("get transaction %q: %w", tx.Name, err)
		case owner == p.UID && tx.Spec.Delete != nil && transaction.Ended(found):
			return c.removeAgain(ctx, kind, p, found, tx.Spec.Delete.Source)
		case owner == p.UID && plan.Repeats && transaction.Succeeded(found):
			// The tag points to what it pointed to before: the name of the Transaction is the same.
			if err := c.Writer.Delete(ctx, writer.Target{Resource: pkgv1alpha1.Transactions, Name: tx.Name}, found.UID, "repeat"); err != nil {
				return ignoreNotFound(err)
			}
			return fmt.Errorf("%w: transaction %q is carried out again", worker.ErrStale, tx.Name)
		case owner == p.UID:
			return nil
		}
	}
	return nil
}

// removeAgain deletes the Transaction that has removed a package, if something of the package was
// installed again or is left, or if the Lock lists it still, so that another one is created.
func (c *Controller) removeAgain(ctx context.Context, kind transactions.Kind, p *pkgv1.Provider, tx *pkgv1alpha1.Transaction, source string) error {
	left, err := c.Installer.Revisions(ctx, kind, p.Name)
	if err != nil {
		return err
	}
	lock, err := c.Client.Locks().Get(ctx, pkgv1beta1.LockName, metav1.GetOptions{})
	if ignoreNotFound(err) != nil {
		return fmt.Errorf("get Lock: %w", err)
	}
	if len(left) > 0 || err == nil && transaction.Find(lock.Packages, source) != nil {
		if err := c.Writer.Delete(ctx, writer.Target{Resource: pkgv1alpha1.Transactions, Name: tx.Name}, tx.UID, "repeat"); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %s %q is not removed yet", worker.ErrStale, kind.Name, p.Name)
}

// label records that the generation of a package has its Transaction, and sets the finalizer.
func (c *Controller) label(ctx context.Context, kind transactions.Kind, p *pkgv1.Provider, plan *transaction.PackagePlan) error {
	if plan.Handled == "" && !plan.Finalizer {
		return nil
	}
	labels, finalizers := map[string]string{}, slices.Clone(p.Finalizers)
	maps.Copy(labels, p.Labels)
	if plan.Handled != "" {
		labels[pkgv1.LabelGeneration] = plan.Handled
	}
	if plan.Finalizer {
		finalizers = append(finalizers, pkgv1.PackageFinalizer)
	}
	return c.patchMetadata(ctx, writer.Target{Resource: kind.Packages, Name: p.Name}, p.ResourceVersion,
		map[string]any{"labels": labels, "finalizers": finalizers})
}

// patchMetadata merges metadata into an object, if it still has this resourceVersion.
func (c *Controller) patchMetadata(ctx context.Context, target writer.Target, version string, metadata map[string]any) error {
	metadata["resourceVersion"] = version
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	_, err = c.Writer.Patch(ctx, target, types.MergePatchType, patch, "metadata")
	return err
}

// release lets a package go of which nothing is installed: no revision exists, and no Transaction
// is at work that might install one. Caches may be behind, and what the package owns goes with it.
// Its Transactions stay as history, so it no longer owns them.
func (c *Controller) release(ctx context.Context, kind transactions.Kind, p *pkgv1.Provider, history []*pkgv1alpha1.Transaction) error {
	revisions, err := c.Installer.Revisions(ctx, kind, p.Name)
	if err != nil {
		return err
	}
	holder, err := c.Lock.Holder(ctx)
	if err != nil {
		return err
	}
	if len(revisions) > 0 || holder != nil && transaction.MayInstall(holder, p) {
		return fmt.Errorf("%w: %s %q has %d revisions, or a transaction is about to install it", worker.ErrStale, kind.Name, p.Name, len(revisions))
	}
	for _, tx := range history {
		owners := transaction.Without(tx.OwnerReferences, p.UID)
		err := c.patchMetadata(ctx, writer.Target{Resource: pkgv1alpha1.Transactions, Name: tx.Name}, tx.ResourceVersion, map[string]any{"ownerReferences": owners})
		if ignoreNotFound(err) != nil {
			return err
		}
	}
	finalizers := slices.DeleteFunc(slices.Clone(p.Finalizers), func(f string) bool { return f == pkgv1.PackageFinalizer })
	return ignoreNotFound(c.patchMetadata(ctx, writer.Target{Resource: kind.Packages, Name: p.Name}, p.ResourceVersion, map[string]any{"finalizers": finalizers}))
}

// ignoreNotFound returns nil if the object is gone, and the error otherwise.
func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// writePackageStatus writes the status of a package, if it has changed.
func (c *Controller) writePackageStatus(ctx context.Context, kind transactions.Kind, p *pkgv1.Provider, status pkgv1.PackageStatus) error {
	if apiequality.Semantic.DeepEqual(p.Status, status) {
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return err
	}
	// A merge removes only what it names.
	for _, field := range []string{"currentRevision", "currentIdentifier", "resolvedPackage", "appliedImageConfigRefs"} {
		if _, set := fields[field]; !set {
			fields[field] = nil
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": fields})
	if err != nil {
		return err
	}
	_, err = c.Writer.Patch(ctx, writer.Target{Resource: kind.Packages, Name: p.Name, Subresource: "status"}, types.MergePatchType, patch, "status")
	return ignoreNotFound(err)
}
