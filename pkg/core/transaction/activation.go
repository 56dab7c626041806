package transaction

import (
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
)

// Manual reports whether users activate the revisions of a package.
func Manual(spec *pkgv1.PackageSpec) bool {
	return spec.RevisionActivationPolicy != nil && *spec.RevisionActivationPolicy == pkgv1.ManualActivation
}

// Awaits reports whether a revision waits for its activation: its objects are not installed, or
// those of another revision are.
func Awaits(r *pkgv1.ProviderRevision) bool {
	healthy := meta.FindStatusCondition(r.Status.Conditions, pkgv1.RevisionConditionHealthy)
	return healthy != nil && healthy.Reason == pkgv1.ReasonAwaitingActivation
}

// requested returns the revision whose state a user has changed, nil if there is none or if a
// Transaction is about to carry it out: one that is to be active and waits for that, the newest if
// there are several, or the one that is installed and is to be inactive.
func (s *PackageState) requested() *pkgv1.ProviderRevision {
	if !s.idle() {
		return nil
	}
	var activated, deactivated *pkgv1.ProviderRevision
	for _, r := range s.Revisions {
		switch {
		case r.DeletionTimestamp != nil:
		case r.Spec.DesiredState == pkgv1.RevisionActive && Awaits(r):
			if activated == nil || r.Spec.Revision > activated.Spec.Revision {
				activated = r
			}
		case r.Spec.DesiredState == pkgv1.RevisionInactive && !Awaits(r) && s.locked(r):
			deactivated = r
		}
	}
	if activated == nil && Active(s.Revisions) == nil {
		return deactivated
	}
	return activated
}

// locked reports whether the Lock lists a revision.
func (s *PackageState) locked(r *pkgv1.ProviderRevision) bool {
	if s.Lock == nil {
		return false
	}
	locked := Find(s.Lock.Packages, sourceOf(r.Spec.Package))
	return locked != nil && locked.Name == r.Name
}

// activation returns the Transactions, as s.transactions does, that carry out what a user wants of
// this revision. With automatic activation the package says which revision is active, so they
// install that one.
func (s *PackageState) activation(r *pkgv1.ProviderRevision) (first, second *pkgv1alpha1.Transaction) {
	spec := s.Package.Spec.DeepCopy()
	if Manual(&spec.PackageSpec) {
		spec.Package = r.Spec.Package
	}
	version := s.version()
	version.Activation = r.Name + "/gen-" + strconv.FormatInt(r.Generation, 10)
	return s.transactions(spec, version)
}
