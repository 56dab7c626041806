package transaction

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
)

// RevisionInput is what a revision is made of.
type RevisionInput struct {
	// Kind is the kind of the revision, Name its name.
	Kind, Name string
	// Package owns the revision, Transaction writes it.
	Package, Transaction Owner
	// Spec is the desired state of the package. That of a dependency has only what is common.
	Spec pkgv1.PackageSpec
	// RuntimeConfig is that of the package.
	RuntimeConfig *pkgv1.RuntimeConfigReference
	// Image is the image with its digest.
	Image, Digest string
	// Labels and Annotations are those of package.yaml.
	Labels, Annotations map[string]string
	// Others are all revisions of the package.
	Others []*pkgv1.ProviderRevision
}

// Revision returns a new revision, which is inactive until its objects are installed.
func Revision(in RevisionInput) *pkgv1.ProviderRevision {
	labels, annotations := map[string]string{}, map[string]string{}
	maps.Copy(labels, in.Labels)
	maps.Copy(annotations, in.Annotations)
	labels[pkgv1.LabelPackage], labels[pkgv1.LabelTransaction] = in.Package.Name, in.Transaction.Name
	annotations[AnnotationDigest] = in.Digest
	number := int64(1)
	for _, other := range in.Others {
		number = max(number, other.Spec.Revision+1)
	}
	r := &pkgv1.ProviderRevision{
		TypeMeta: metav1.TypeMeta{APIVersion: pkgv1.GroupVersion.String(), Kind: in.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: in.Name, Labels: labels, Annotations: annotations, OwnerReferences: OfRevision(nil, in.Package, in.Transaction),
			Finalizers: []string{pkgv1.RevisionFinalizer},
		},
	}
	r.Spec.PackageRevisionSpec = pkgv1.PackageRevisionSpec{
		DesiredState: pkgv1.RevisionInactive, Package: in.Image, Revision: number,
		PackagePullSecrets: in.Spec.PackagePullSecrets, PackagePullPolicy: in.Spec.PackagePullPolicy,
		IgnoreCrossplaneConstraints: in.Spec.IgnoreCrossplaneConstraints, SkipDependencyResolution: in.Spec.SkipDependencyResolution,
		CommonLabels: in.Spec.CommonLabels, CommonAnnotations: in.Spec.CommonAnnotations,
	}
	r.Spec.RuntimeConfigReference = in.RuntimeConfig
	return r
}

// Guarded returns which revisions of a package must get the finalizer, and which of those that are
// being deleted may go and which may not: one that is active controls the objects of the package.
func Guarded(revisions []*pkgv1.ProviderRevision) (guard, release, stay []*pkgv1.ProviderRevision) {
	for _, r := range revisions {
		has := slices.Contains(r.Finalizers, pkgv1.RevisionFinalizer)
		switch {
		case r.DeletionTimestamp == nil && !has:
			guard = append(guard, r)
		case r.DeletionTimestamp == nil || !has:
		case r.Spec.DesiredState == pkgv1.RevisionActive && !Awaits(r):
			stay = append(stay, r)
		default:
			release = append(release, r)
		}
	}
	return guard, release, stay
}

// defaultRevisionHistory is how many inactive revisions are kept by default.
const defaultRevisionHistory = 1

// OldRevisions returns the inactive revisions that exceed the limit, oldest first. A limit of 0
// keeps all.
func OldRevisions(revisions []*pkgv1.ProviderRevision, limit *int64) []*pkgv1.ProviderRevision {
	keep := int64(defaultRevisionHistory)
	if limit != nil {
		keep = *limit
	}
	if keep == 0 {
		return nil
	}
	inactive := slices.DeleteFunc(slices.Clone(revisions), func(r *pkgv1.ProviderRevision) bool {
		return r.Spec.DesiredState != pkgv1.RevisionInactive || r.DeletionTimestamp != nil
	})
	slices.SortFunc(inactive, func(a, b *pkgv1.ProviderRevision) int { return int(a.Spec.Revision - b.Spec.Revision) })
	return inactive[:max(int64(len(inactive))-keep, 0)]
}
