package install

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/pkg/core/xpkg"
	"github.com/starlinghq/starling/pkg/transactions"
	"github.com/starlinghq/starling/pkg/transactions/live"
	"github.com/starlinghq/starling/pkg/writer"
)

// parallelPackages is how many packages are installed at the same time.
const parallelPackages = 8

// Left is a repair that was left out, and why.
type Left struct {
	*Package
	Err error
}

// InstallAll installs packages, dependencies first, and those that do not require each other at the
// same time. After an error nothing more begins. The error is that of the first package, in their
// order, that has one. That of a repair is none: left says which were left out.
func (i *Installer) InstallAll(ctx context.Context, tx *pkgv1alpha1.Transaction, packages []Package, known *live.Definitions) (left []Left, err error) {
	for _, step := range Steps(packages) {
		failures := make([]error, len(step))
		var failed atomic.Bool
		group := errgroup.Group{}
		group.SetLimit(parallelPackages)
		for n, p := range step {
			group.Go(func() error {
				if !failed.Load() {
					failures[n] = i.Install(ctx, tx, p, known)
				}
				if failures[n] != nil && !p.Repair {
					failed.Store(true)
				}
				return nil
			})
		}
		_ = group.Wait() // each failure is in failures
		for n, err := range failures {
			switch {
			case err == nil:
			case step[n].Repair && ctx.Err() == nil:
				left = append(left, Left{step[n], err})
			default:
				return nil, err
			}
		}
	}
	return left, nil
}

// Install installs one package: its package object if it is a dependency, its revision, its
// objects, which pass from earlier revisions to this one, and makes the revision active. The error
// is a *transaction.FailedError with a reason of the condition Installed if the API server refuses
// something.
func (i *Installer) Install(ctx context.Context, tx *pkgv1alpha1.Transaction, p *Package, known *live.Definitions) error {
	by := transaction.OwnerOf(tx)
	pkg, err := i.ensurePackage(ctx, tx, p)
	if err != nil {
		return failure(pkgv1alpha1.ReasonPackageInstallationFailed, "Failed to install package "+p.Name, err)
	}
	owner := transaction.Owner{APIVersion: pkgv1.GroupVersion.String(), Kind: p.Kind.Name, Name: pkg.Name, UID: pkg.UID}
	revision, others, err := i.ensureRevision(ctx, p, owner, by)
	if err != nil {
		return failure(pkgv1alpha1.ReasonPackageInstallationFailed, "Failed to install revision "+p.Locked.Name, err)
	}
	to := p.target(revisionOwner(p.Kind, revision), owner, by)
	refs, generations, err := i.installObjects(ctx, p, to, known)
	if err != nil {
		return err
	}
	kept, err := i.keepDropped(ctx, p, refs, append(others, revision), to)
	if err != nil {
		return err
	}
	if err := i.activate(ctx, p, revision, generations); err != nil {
		return failure(pkgv1alpha1.ReasonPackageInstallationFailed, "Failed to activate revision "+p.Locked.Name, err)
	}
	if err := i.writeVersion(ctx, tx, p); err != nil {
		return failure(pkgv1alpha1.ReasonPackageInstallationFailed, "Failed to write the version of package "+p.Name, err)
	}
	if err := i.writeStatus(ctx, p, revision.Name, append(refs, kept...)); err != nil {
		return err
	}
	return i.deactivate(ctx, p, others)
}

func revisionOwner(kind transactions.Kind, r *pkgv1.ProviderRevision) transaction.Owner {
	return transaction.Owner{APIVersion: pkgv1.GroupVersion.String(), Kind: kind.RevisionName, Name: r.Name, UID: r.UID}
}

// ensurePackage returns the package object, and creates that of a dependency. It is labelled as
// handled in the same write, so no other transaction is created for it.
func (i *Installer) ensurePackage(ctx context.Context, tx *pkgv1alpha1.Transaction, p *Package) (*pkgv1.Provider, error) {
	target := writer.Target{Resource: p.Kind.Packages, Name: p.Name}
	live, err := i.Client.Packages(p.Kind).Get(ctx, p.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		created := &pkgv1.Provider{
			TypeMeta: metav1.TypeMeta{APIVersion: pkgv1.GroupVersion.String(), Kind: p.Kind.Name},
			ObjectMeta: metav1.ObjectMeta{
				Name: p.Name, Finalizers: []string{pkgv1.PackageFinalizer},
				Labels: map[string]string{pkgv1.LabelGeneration: "1"},
			},
			Spec: p.Spec,
		}
		created.Spec.Package = p.reference()
		if p.Managed {
			created.Labels[pkgv1.LabelTransaction] = tx.Name
		} else if !p.Rewrite {
			return nil, fmt.Errorf("get %s %q: %w", p.Kind.Name, p.Name, err)
		}
		written, err := i.Writer.Create(ctx, target, created, "dependency")
		if err != nil {
			return nil, err
		}
		created.UID = written.UID
		return created, nil
	} else if err != nil {
		return nil, fmt.Errorf("get %s %q: %w", p.Kind.Name, p.Name, err)
	}
	if p.Managed && p.Seen == "" && live.DeletionTimestamp != nil {
		return nil, BeingDeleted(p.Kind, p.Name)
	}
	if !slices.Contains(live.Finalizers, pkgv1.PackageFinalizer) && live.DeletionTimestamp == nil {
		// The controller sets it after it has created the Transaction, which may be faster.
		finalizers := append(slices.Clone(live.Finalizers), pkgv1.PackageFinalizer)
		if err := i.patch(ctx, target, live.ResourceVersion, map[string]any{"metadata": map[string]any{"finalizers": finalizers}}); err != nil {
			return nil, err
		}
		return i.ensurePackage(ctx, tx, p)
	}
	if p.Managed && live.Spec.Package != p.reference() && live.Spec.Package != p.Seen {
		return nil, changedSince(target.Resource, p.Name)
	}
	return live, nil
}

// writeVersion writes the version of the transaction into the package object of a dependency, or of
// what a user's transaction is about: after it is installed, or a package whose installation fails
// would name a version that is not in force. It is labelled as handled in the same write, so no
// other transaction is created for it.
func (i *Installer) writeVersion(ctx context.Context, tx *pkgv1alpha1.Transaction, p *Package) error {
	if !p.Managed && !p.Rewrite {
		return nil
	}
	target := writer.Target{Resource: p.Kind.Packages, Name: p.Name}
	// The controller of packages writes the status meanwhile.
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		live, err := i.Client.Packages(p.Kind).Get(ctx, p.Name, metav1.GetOptions{})
		switch {
		case err != nil:
			return fmt.Errorf("get %s %q: %w", p.Kind.Name, p.Name, err)
		case live.Spec.Package == p.reference():
			return nil
		case p.Managed && live.Spec.Package != p.Seen:
			return changedSince(target.Resource, p.Name)
		}
		labels := map[string]string{pkgv1.LabelGeneration: strconv.FormatInt(live.Generation+1, 10)}
		if p.Managed {
			labels[pkgv1.LabelTransaction] = tx.Name
		}
		return i.patch(ctx, target, live.ResourceVersion, map[string]any{
			"metadata": map[string]any{"labels": labels}, "spec": map[string]any{"package": p.reference()},
		})
	})
}

// BeingDeleted returns why a dependency cannot be installed whose package is about to go.
func BeingDeleted(kind transactions.Kind, name string) error {
	return &transaction.FailedError{
		Reason: pkgv1alpha1.ReasonMissingDependency, Message: fmt.Sprintf("%s %s is required, but is being deleted: it is installed again when it is gone", kind.Name, name),
	}
}

// changedSince returns the conflict of an object that somebody changed after the validation. The
// try is repeated with another validation.
func changedSince(resource schema.GroupVersionResource, name string) error {
	return apierrors.NewConflict(resource.GroupResource(), name, errors.New("it has changed since the validation"))
}

// reference returns the image as a package object names it: with the tag, if there is one.
func (p *Package) reference() string {
	version, err := xpkg.ParseVersion(p.Locked.Version)
	if err != nil || version.Tag == "" {
		return p.Image
	}
	return xpkg.Reference{Source: p.Locked.Source, Tag: version.Tag}.String()
}

// ensureRevision returns the revision, and all others of the package. Its status names its objects
// before they are written, so that a deletion finds those of an installation that was interrupted.
func (i *Installer) ensureRevision(ctx context.Context, p *Package, owner, by transaction.Owner) (revision *pkgv1.ProviderRevision, others []*pkgv1.ProviderRevision, err error) {
	revisions, err := i.Revisions(ctx, p.Kind, p.Name)
	if err != nil {
		return nil, nil, err
	}
	at := slices.IndexFunc(revisions, func(r *pkgv1.ProviderRevision) bool { return r.Name == p.Locked.Name })
	target := writer.Target{Resource: p.Kind.Revisions, Name: p.Locked.Name}
	if at < 0 {
		revision = transaction.Revision(transaction.RevisionInput{
			Kind: p.Kind.RevisionName, Name: p.Locked.Name, Package: owner, Transaction: by, Spec: p.Spec.PackageSpec,
			RuntimeConfig: p.Spec.RuntimeConfigReference, Image: p.Image, Digest: p.Digest, Labels: p.Labels, Annotations: p.Annotations, Others: revisions,
		})
		written, err := i.Writer.Create(ctx, target, revision, "install")
		if err != nil {
			return nil, nil, err
		}
		revision.UID, revision.ResourceVersion = written.UID, written.ResourceVersion
	} else {
		revision = revisions[at]
		revisions = slices.Delete(revisions, at, at+1)
		if refs := transaction.OfRevision(revision.OwnerReferences, owner, by); !slices.EqualFunc(refs, revision.OwnerReferences, sameOwner) {
			labels := maps.Clone(revision.Labels)
			labels[pkgv1.LabelTransaction] = by.Name
			if err := i.patch(ctx, target, revision.ResourceVersion, map[string]any{"metadata": map[string]any{"ownerReferences": refs, "labels": labels}}); err != nil {
				return nil, nil, err
			}
		}
	}
	return revision, revisions, i.announce(ctx, p, revision.Name)
}

func equal(a, b *pkgv1.ProviderRevisionStatus) bool { return apiequality.Semantic.DeepEqual(a, b) }

// Revisions returns all revisions of a package, as the API server has them.
func (i *Installer) Revisions(ctx context.Context, kind transactions.Kind, pkg string) ([]*pkgv1.ProviderRevision, error) {
	selector := labels.SelectorFromSet(labels.Set{pkgv1.LabelPackage: pkg}).String()
	list, err := i.Client.Revisions(kind).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list revisions of %s %q: %w", kind.Name, pkg, err)
	}
	revisions := make([]*pkgv1.ProviderRevision, 0, len(list.Items))
	for n := range list.Items {
		revisions = append(revisions, &list.Items[n])
	}
	return revisions, nil
}

// patch merges fields into an object, if it still has this resourceVersion.
func (i *Installer) patch(ctx context.Context, target writer.Target, version string, fields map[string]any) error {
	if version != "" {
		metadata, _ := fields["metadata"].(map[string]any)
		if metadata == nil {
			metadata = map[string]any{}
		}
		metadata["resourceVersion"] = version
		fields["metadata"] = metadata
	}
	patch, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	_, err = i.Writer.Patch(ctx, target, types.MergePatchType, patch, "install")
	return err
}

// announce writes the objects of a revision into its status before they are installed.
func (i *Installer) announce(ctx context.Context, p *Package, name string) error {
	return i.updateStatus(ctx, p, name, func(status *pkgv1.PackageRevisionStatus) {
		if len(status.ObjectRefs) > 0 {
			return
		}
		for _, o := range p.installable() {
			status.ObjectRefs = append(status.ObjectRefs, referenceTo(o))
		}
	})
}

// installObjects writes the objects: first the CustomResourceDefinitions, then, when they are
// established, the others. It returns references to all of them, and their generations.
func (i *Installer) installObjects(ctx context.Context, p *Package, to transaction.Target, known *live.Definitions) ([]pkgv1.TypedReference, transaction.Generations, error) {
	objects := p.installable()
	refs, index := make([]pkgv1.TypedReference, len(objects)), map[*unstructured.Unstructured]int{}
	var mutex sync.Mutex // of generations
	generations := transaction.Generations{}
	var crds, others []*unstructured.Unstructured
	for n, o := range objects {
		index[o] = n
		if isDefinition(o) {
			crds = append(crds, o)
		} else {
			others = append(others, o)
		}
	}
	write := func(ctx context.Context, o *unstructured.Unstructured) error {
		written, _, err := i.write(ctx, o, to, known)
		if err != nil {
			return err
		}
		refs[index[o]] = referenceTo(written)
		mutex.Lock()
		defer mutex.Unlock()
		generations[written.GetUID()] = written.GetGeneration()
		return nil
	}
	err := i.each(ctx, crds, func(ctx context.Context, o *unstructured.Unstructured) error {
		return failure(pkgv1alpha1.ReasonCRDInstallationFailed, "Failed to install CRD "+o.GetName(), write(ctx, o))
	})
	if err != nil {
		return nil, nil, err
	}
	if err := i.established(ctx, crds); err != nil {
		return nil, nil, err
	}
	return refs, generations, i.each(ctx, others, func(ctx context.Context, o *unstructured.Unstructured) error {
		return failure(pkgv1alpha1.ReasonObjectInstallationFailed, fmt.Sprintf("Failed to install %s %s", o.GetKind(), o.GetName()), write(ctx, o))
	})
}

// keepDropped keeps the objects that the package had before and does not have in this version. They
// are not deleted, since users may have objects of such a kind. The revision lists them and owns
// them, but does not control them, so another package may adopt them.
func (i *Installer) keepDropped(ctx context.Context, p *Package, refs []pkgv1.TypedReference, revisions []*pkgv1.ProviderRevision, to transaction.Target) ([]pkgv1.TypedReference, error) {
	if p.Inactive {
		return nil, nil
	}
	dropped := slices.DeleteFunc(listed(revisions), func(ref pkgv1.TypedReference) bool {
		return slices.ContainsFunc(refs, func(other pkgv1.TypedReference) bool { return sameObject(ref, other) })
	})
	var mutex sync.Mutex
	var kept []pkgv1.TypedReference
	err := i.eachObject(ctx, dropped, func(ctx context.Context, resource schema.GroupVersionResource, live *unstructured.Unstructured) error {
		if !belongs(live, revisions) {
			return nil
		}
		mutex.Lock()
		kept = append(kept, referenceTo(live))
		mutex.Unlock()
		return i.own(ctx, resource, live, transaction.Dropped(live.GetOwnerReferences(), to.Revision))
	})
	slices.SortFunc(kept, func(a, b pkgv1.TypedReference) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return kept, err
}

func referenceTo(o *unstructured.Unstructured) pkgv1.TypedReference {
	ref := pkgv1.TypedReference{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName()}
	if uid := o.GetUID(); uid != "" {
		ref.UID = &uid
	}
	return ref
}

// writeStatus writes that the revision is healthy, and its objects with their UIDs.
func (i *Installer) writeStatus(ctx context.Context, p *Package, name string, refs []pkgv1.TypedReference) error {
	return i.updateStatus(ctx, p, name, func(status *pkgv1.PackageRevisionStatus) {
		if p.Inactive {
			awaiting(status)
		} else {
			status.ObjectRefs = refs
			meta.SetStatusCondition(&status.Conditions, metav1.Condition{
				Type: pkgv1.RevisionConditionHealthy, Status: metav1.ConditionTrue, Reason: pkgv1.ReasonHealthyPackageRevision,
			})
		}
		status.FoundDependencies, status.InstalledDependencies = int64(len(p.Locked.Dependencies)), int64(len(p.Locked.Dependencies))
		status.ResolvedPackage, status.AppliedImageConfigRefs, status.Capabilities = p.Fetched, p.ImageConfigs, p.Capabilities
	})
}

// updateStatus changes the status of a revision, if that changes anything.
func (i *Installer) updateStatus(ctx context.Context, p *Package, name string, change func(*pkgv1.PackageRevisionStatus)) error {
	live, err := i.Client.Revisions(p.Kind).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get %s %q: %w", p.Kind.RevisionName, name, err)
	}
	before := live.Status.DeepCopy()
	change(&live.Status.PackageRevisionStatus)
	if equal(before, &live.Status) {
		return nil
	}
	live.TypeMeta = metav1.TypeMeta{APIVersion: pkgv1.GroupVersion.String(), Kind: p.Kind.RevisionName}
	_, err = i.Writer.Update(ctx, writer.Target{Resource: p.Kind.Revisions, Name: name, Subresource: "status"}, live, "status")
	return err
}
