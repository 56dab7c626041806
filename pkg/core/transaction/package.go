package transaction

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/xpkg"
)

// PackageState is what is known of a package. A package of any kind is a Provider here: the other
// kinds have no other fields.
type PackageState struct {
	Kind    string
	Package *pkgv1.Provider
	// Transactions are those that the package owns.
	Transactions []*pkgv1alpha1.Transaction
	// Revisions are those of the package.
	Revisions []*pkgv1.ProviderRevision
	// Lock may be nil: nothing is installed then.
	Lock *pkgv1beta1.Lock
	// Busy is true if a Transaction holds the Lock.
	Busy bool
	// Digest is the digest that the tag of the package has now, if its pull policy is Always; ""
	// otherwise, or if it is not known.
	Digest string
	// Now is the time of conditions that change.
	Now time.Time
}

// PackagePlan is what to do for a package.
type PackagePlan struct {
	// Create is a Transaction to create. If one of its name exists, CreateAfter is created instead.
	Create, CreateAfter *pkgv1alpha1.Transaction
	// Repeats is true if a Transaction of the name of Create that has succeeded is carried out
	// again.
	Repeats bool
	// Handled is the generation that the package is labelled with, "" if it is labelled already.
	Handled string
	// Finalizer is true if the package must get the finalizer.
	Finalizer bool
	// Release is true if the package may go: nothing of it is installed. Before that, the owner
	// references to it are removed from its transactions, which are history.
	Release bool
	// Status is the status of the package.
	Status pkgv1.PackageStatus
}

// PlanPackage returns what to do for a package.
func PlanPackage(s PackageState) PackagePlan {
	plan := PackagePlan{Status: s.status()}
	switch p := s.Package; {
	case p.DeletionTimestamp != nil:
		s.planDeletion(&plan)
	case Paused(p):
	default:
		plan.Finalizer = !slices.Contains(p.Finalizers, pkgv1.PackageFinalizer)
		generation := strconv.FormatInt(p.Generation, 10)
		if p.Labels[pkgv1.LabelGeneration] != generation {
			plan.Handled = generation
			plan.Create, plan.CreateAfter = s.transactions(&p.Spec, s.version())
		} else if r := s.requested(); r != nil {
			plan.Create, plan.CreateAfter = s.activation(r)
		} else if s.hasMoved() {
			version := s.version()
			version.Digest = s.Digest
			// One that leaves another revision active succeeds each time, and would never end.
			plan.Repeats = !Manual(&p.Spec.PackageSpec) && p.Annotations[pkgv1.AnnotationValidateOnly] != "true"
			plan.Create, plan.CreateAfter = s.transactions(&p.Spec, version)
		}
	}
	return plan
}

// Paused reports whether an object has the annotation that keeps it from being reconciled.
func Paused(obj metav1.Object) bool { return obj.GetAnnotations()[pkgv1.AnnotationPaused] == "true" }

// hasMoved reports whether the tag of the package has another digest than what is installed.
func (s *PackageState) hasMoved() bool {
	active := Active(s.Revisions)
	return s.Digest != "" && active != nil && s.idle() && active.Annotations[AnnotationDigest] != s.Digest
}

// idle reports whether all Transactions of the package have ended.
func (s *PackageState) idle() bool {
	return !slices.ContainsFunc(s.Transactions, func(tx *pkgv1alpha1.Transaction) bool { return !Ended(tx) })
}

// AnnotationDigest on a revision is the digest of its image.
const AnnotationDigest = "starling.io/image-digest"

// transactions returns the Transaction that installs the package with this spec, and the one if
// another package of this name had a Transaction of the same name.
func (s *PackageState) transactions(desired *pkgv1.ProviderSpec, version Version) (first, second *pkgv1alpha1.Transaction) {
	p := s.Package
	spec, err := json.Marshal(desired)
	if err != nil {
		return nil, nil // strings and numbers only
	}
	tx := s.transaction(pkgv1alpha1.TransactionSpec{
		Change: pkgv1alpha1.ChangeTypeInstall,
		Install: &pkgv1alpha1.InstallSpec{Package: pkgv1alpha1.PackageSnapshot{
			APIVersion: pkgv1.GroupVersion.String(), Kind: s.Kind,
			Metadata: pkgv1alpha1.PackageMetadata{Name: p.Name, UID: p.UID, Labels: p.Labels},
			Spec:     runtime.RawExtension{Raw: spec},
		}},
	})
	return s.named(tx, version)
}

// version returns the state of the package as its generation says it.
func (s *PackageState) version() Version {
	return Version{APIVersion: pkgv1.GroupVersion.String(), Kind: s.Kind, Name: s.Package.Name, Generation: s.Package.Generation}
}

func (s *PackageState) named(tx *pkgv1alpha1.Transaction, version Version) (first, second *pkgv1alpha1.Transaction) {
	second = tx.DeepCopy()
	tx.Name, second.Name = Name(version), NameAfterRecreation(version, s.Package.UID)
	return tx, second
}

// Annotations are those of a package that its Transactions get.
var Annotations = []string{
	pkgv1.AnnotationValidateOnly, pkgv1.AnnotationAllowBreakingCRDs, pkgv1.AnnotationAllowDowngrade, pkgv1.AnnotationAllowDeletion,
	pkgv1.AnnotationDestinationPolicy,
}

func (s *PackageState) transaction(spec pkgv1alpha1.TransactionSpec) *pkgv1alpha1.Transaction {
	p := s.Package
	tx := &pkgv1alpha1.Transaction{
		TypeMeta: metav1.TypeMeta{APIVersion: pkgv1alpha1.GroupVersion.String(), Kind: "Transaction"},
		ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{
				pkgv1.LabelPackageType: s.Kind, pkgv1.LabelGeneration: strconv.FormatInt(p.Generation, 10),
			},
			Annotations: map[string]string{},
			Finalizers:  []string{pkgv1alpha1.TransactionFinalizer},
			OwnerReferences: []metav1.OwnerReference{
				Owner{APIVersion: pkgv1.GroupVersion.String(), Kind: s.Kind, Name: p.Name, UID: p.UID}.reference(false),
			},
		},
		Spec: spec,
	}
	if len(p.Name) <= maxName {
		tx.Labels[pkgv1.LabelPackage] = p.Name
	}
	for _, key := range Annotations {
		if value, found := p.Annotations[key]; found {
			tx.Annotations[key] = value
		}
	}
	return tx
}

// planDeletion removes what is installed before it lets the package go.
func (s *PackageState) planDeletion(plan *PackagePlan) {
	if !slices.Contains(s.Package.Finalizers, pkgv1.PackageFinalizer) {
		return
	}
	sources := s.Sources()
	if len(sources) == 0 && s.idle() {
		plan.Release = true
		return
	}
	if len(sources) == 0 || len(s.Revisions) == 0 && s.Busy {
		return // a Transaction is about to install or remove it
	}
	// A package that is being deleted stays so, whatever the Transaction finds. So it is tried
	// until it succeeds: somebody may remove what requires the package.
	retries := int64(math.MaxInt64)
	tx := s.transaction(pkgv1alpha1.TransactionSpec{
		Change: pkgv1alpha1.ChangeTypeDelete, Delete: &pkgv1alpha1.DeleteSpec{Source: sources[0]}, RetryLimit: &retries,
	})
	plan.Create, plan.CreateAfter = s.named(tx, s.version())
}

// Sources returns the sources that this package has installed: those that the Lock lists for it. If
// there are none, they are those of its revisions, since an installation that did not end is not in
// the Lock.
func (s *PackageState) Sources() []string {
	var sources []string
	if s.Lock != nil {
		for _, locked := range s.Lock.Packages {
			if s.has(locked.Name) || locked.Name == s.Package.Status.CurrentRevision {
				sources = append(sources, locked.Source)
			}
		}
	}
	if len(sources) == 0 {
		for _, r := range s.Revisions {
			sources = append(sources, sourceOf(r.Spec.Package))
		}
	}
	slices.Sort(sources)
	return slices.Compact(sources)
}

// has reports whether the package has a revision of this name.
func (s *PackageState) has(revision string) bool {
	return slices.ContainsFunc(s.Revisions, func(r *pkgv1.ProviderRevision) bool { return r.Name == revision })
}

// sourceOf returns the repository of an image.
func sourceOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		return image[:i]
	}
	return image
}

// Active returns the active revision, nil if there is none. If there are several, as during an
// installation, it is the newest of those that are installed. One that a user has activated and
// that is not installed is not active yet.
func Active(revisions []*pkgv1.ProviderRevision) *pkgv1.ProviderRevision {
	var active *pkgv1.ProviderRevision
	for _, r := range revisions {
		if r.Spec.DesiredState == pkgv1.RevisionActive && !Awaits(r) && (active == nil || compareInstalled(r, active) > 0) {
			active = r
		}
	}
	return active
}

func compareInstalled(a, b *pkgv1.ProviderRevision) int {
	rank := func(r *pkgv1.ProviderRevision) int {
		if meta.FindStatusCondition(r.Status.Conditions, pkgv1.RevisionConditionHealthy) != nil {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Spec.Revision, b.Spec.Revision))
}

// Last returns the Transaction that was created last, nil if there is none.
func Last(transactions []*pkgv1alpha1.Transaction) *pkgv1alpha1.Transaction {
	if len(transactions) == 0 {
		return nil
	}
	return slices.MaxFunc(transactions, func(a, b *pkgv1alpha1.Transaction) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Status.TransactionNumber, b.Status.TransactionNumber), cmp.Compare(a.Name, b.Name))
	})
}

// status returns the status of the package.
func (s *PackageState) status() pkgv1.PackageStatus {
	status := *s.Package.Status.DeepCopy()
	active, last := Active(s.Revisions), Last(s.Transactions)
	conditions := map[string]metav1.Condition{}
	set := func(kind string, state metav1.ConditionStatus, reason, message string) {
		conditions[kind] = metav1.Condition{
			Type: kind, Status: state, Reason: reason, Message: message, ObservedGeneration: s.Package.Generation,
			LastTransitionTime: metav1.NewTime(s.Now).Rfc3339Copy(),
		}
	}

	failure := failureOf(last)
	if s.isDesired(active) && s.Package.DeletionTimestamp == nil && (s.Digest == "" || active.Annotations[AnnotationDigest] == s.Digest) {
		failure = "" // another transaction has installed what this one could not
	}
	switch {
	case Paused(s.Package):
		set(pkgv1.PackageConditionSynced, metav1.ConditionFalse, pkgv1.ReasonReconcilePaused, "remove the annotation "+pkgv1.AnnotationPaused+" to continue")
	case failure != "":
		set(pkgv1.PackageConditionSynced, metav1.ConditionFalse, pkgv1.ReasonReconcileError, failure)
	default:
		set(pkgv1.PackageConditionSynced, metav1.ConditionTrue, pkgv1.ReasonReconcileSuccess, "")
	}

	switch {
	case active != nil:
		set(pkgv1.PackageConditionInstalled, metav1.ConditionTrue, pkgv1.ReasonActivePackageRevision, "")
		status.CurrentRevision, status.CurrentIdentifier, status.ResolvedPackage = active.Name, active.Spec.Package, active.Status.ResolvedPackage
		status.AppliedImageConfigRefs = active.Status.AppliedImageConfigRefs
	case last != nil && !Ended(last):
		set(pkgv1.PackageConditionInstalled, metav1.ConditionFalse, pkgv1.ReasonUnpackingPackage, "transaction "+last.Name+" installs the package")
	case len(s.Revisions) > 0:
		set(pkgv1.PackageConditionInstalled, metav1.ConditionFalse, pkgv1.ReasonInactivePackageRevision,
			"no revision is active: set spec.desiredState of a revision to Active, or spec.revisionActivationPolicy to Automatic")
	case last != nil:
		set(pkgv1.PackageConditionInstalled, metav1.ConditionFalse, pkgv1.ReasonInactivePackageRevision, "transaction "+last.Name+" installed nothing")
	default:
		set(pkgv1.PackageConditionInstalled, metav1.ConditionFalse, pkgv1.ReasonUnpackingPackage, "a transaction will be created")
	}

	healthy := &metav1.Condition{Status: metav1.ConditionUnknown, Reason: pkgv1.ReasonUnknownPackageRevisionHealth}
	if active != nil {
		if found := meta.FindStatusCondition(active.Status.Conditions, pkgv1.RevisionConditionHealthy); found != nil {
			healthy = found
		}
	}
	set(pkgv1.PackageConditionHealthy, healthy.Status, healthy.Reason, healthy.Message)

	for _, kind := range slices.Sorted(maps.Keys(conditions)) {
		setCondition(&status.Conditions, conditions[kind])
	}
	return status
}

// isDesired reports whether the Lock lists this revision and it is what the package asks for.
func (s *PackageState) isDesired(active *pkgv1.ProviderRevision) bool {
	if active == nil || s.Lock == nil || !slices.ContainsFunc(s.Lock.Packages, func(l pkgv1beta1.LockPackage) bool { return l.Name == active.Name }) {
		return false
	}
	wanted, err := xpkg.ParseReference(s.Package.Spec.Package)
	if err != nil {
		return false
	}
	image, err := xpkg.ParseReference(active.Spec.Package)
	return err == nil && image.Source == wanted.Source && (wanted.Tag == "" || image.Tag == wanted.Tag) && (wanted.Digest == "" || image.Digest == wanted.Digest) &&
		maps.Equal(active.Spec.CommonLabels, s.Package.Spec.CommonLabels) && maps.Equal(active.Spec.CommonAnnotations, s.Package.Spec.CommonAnnotations)
}

// failureOf returns what the last try of a transaction failed for, "" if it did not fail.
func failureOf(tx *pkgv1alpha1.Transaction) string {
	if tx == nil || tx.Status.Failures == 0 || Succeeded(tx) {
		return ""
	}
	if ready := meta.FindStatusCondition(tx.Status.Conditions, pkgv1alpha1.TransactionConditionReady); ready != nil && ready.Reason == pkgv1alpha1.ReasonSuperseded {
		return ""
	}
	failure := "transaction " + tx.Name + " failed"
	if !Ended(tx) {
		failure += " and will be tried again"
	}
	for _, kind := range []string{
		pkgv1alpha1.TransactionConditionSynced, pkgv1alpha1.TransactionConditionValidated, pkgv1alpha1.TransactionConditionInstalled,
	} {
		if found := meta.FindStatusCondition(tx.Status.Conditions, kind); found != nil && found.Status == metav1.ConditionFalse {
			return failure + ": " + found.Message
		}
	}
	return failure
}

// SupersededBy returns why a Transaction has nothing left to do, "" if it has: the package has
// changed since it was created, is being deleted, or is gone. p is the package of the snapshot as
// the API server has it, nil if there is none. A Transaction that a user created is never
// superseded.
func SupersededBy(tx *pkgv1alpha1.Transaction, p *pkgv1.Provider) string {
	text, found := tx.Labels[pkgv1.LabelGeneration]
	if !found || tx.Spec.Install == nil {
		return ""
	}
	snapshot := tx.Spec.Install.Package.Metadata
	generation, err := strconv.ParseInt(text, 10, 64)
	switch {
	case p == nil || p.UID != snapshot.UID:
		return "the package no longer exists"
	case p.DeletionTimestamp != nil:
		return "the package is being deleted"
	case err == nil && p.Generation > generation:
		return "the package has changed since: generation " + strconv.FormatInt(p.Generation, 10) + " has a transaction of its own"
	}
	return ""
}
