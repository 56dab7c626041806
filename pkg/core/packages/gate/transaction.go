package gate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/pkg/core/xpkg"
)

// Kind is the kind of the snapshot in Transactions of this package.
const Kind = "PackageRevision"

// Snapshot is the spec of the snapshot of a revision in a Transaction: what is validated.
type Snapshot struct {
	Namespace     string `json:"namespace"`
	Repository    string `json:"repository"`
	PackageName   string `json:"packageName"`
	WorkspaceName string `json:"workspaceName"`
	// ContentDigest is status.contentDigest of the revision.
	ContentDigest string `json:"contentDigest"`
	// Replaces is the published revision that the cluster has now, ReplacesDigest its content; ""
	// if there is none.
	Replaces       string `json:"replaces,omitempty"`
	ReplacesDigest string `json:"replacesDigest,omitempty"`
	// AllowBreakingCRDs is the annotation of the revision that allows breaking changes.
	AllowBreakingCRDs string `json:"allowBreakingCRDs,omitempty"`
}

// ParseSnapshot returns the spec of a snapshot of this kind. The error is an
// *xpkg.InvalidPackageError.
func ParseSnapshot(snapshot *pkgv1alpha1.PackageSnapshot) (*Snapshot, error) {
	s := &Snapshot{}
	if err := json.Unmarshal(snapshot.Spec.Raw, s); err != nil {
		return nil, xpkg.Invalidf("spec of %s %s: %v", Kind, snapshot.Metadata.Name, err)
	}
	if s.Namespace == "" || s.ContentDigest == "" {
		return nil, xpkg.Invalidf("spec of %s %s: namespace and contentDigest are required", Kind, snapshot.Metadata.Name)
	}
	return s, nil
}

// RevisionOf returns the revision that a Transaction was created for by the controller of gates.
func RevisionOf(tx *pkgv1alpha1.Transaction) (types.NamespacedName, bool) {
	if tx.Labels[pkgv1.LabelPackageType] != Kind || tx.Spec.Install == nil {
		return types.NamespacedName{}, false
	}
	s, err := ParseSnapshot(&tx.Spec.Install.Package)
	if err != nil {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: s.Namespace, Name: tx.Spec.Install.Package.Metadata.Name}, true
}

// snapshotOf returns the snapshot of a revision. published is the revision of the package that is
// delivered now, nil if there is none.
func snapshotOf(r, published *storev1alpha1.PackageRevision) Snapshot {
	s := Snapshot{
		Namespace: r.Namespace, Repository: r.Spec.RepositoryName, PackageName: r.Spec.PackageName, WorkspaceName: r.Spec.WorkspaceName,
		ContentDigest: r.Status.ContentDigest, AllowBreakingCRDs: r.Annotations[pkgv1.AnnotationAllowBreakingCRDs],
	}
	if published != nil {
		s.Replaces, s.ReplacesDigest = published.Name, published.Status.ContentDigest
	}
	return s
}

// newTransaction returns the Transaction that answers the gate of a revision with a UID. It has no
// owner: it is cluster-scoped, and its revision is not.
func newTransaction(name string, uid types.UID, s *Snapshot) (*pkgv1alpha1.Transaction, error) {
	spec, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(string(uid) + "\n" + string(spec)))
	annotations := map[string]string{pkgv1.AnnotationValidateOnly: "true", pkgv1.AnnotationAnswersGate: "true"}
	if s.AllowBreakingCRDs != "" {
		annotations[pkgv1.AnnotationAllowBreakingCRDs] = s.AllowBreakingCRDs
	}
	return &pkgv1alpha1.Transaction{
		TypeMeta: metav1.TypeMeta{APIVersion: pkgv1alpha1.GroupVersion.String(), Kind: "Transaction"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        transaction.Shorten("tx-", name, "-"+hex.EncodeToString(sum[:4])),
			Labels:      map[string]string{pkgv1.LabelPackage: transaction.Shorten("", name, ""), pkgv1.LabelPackageType: Kind},
			Annotations: annotations,
		},
		Spec: pkgv1alpha1.TransactionSpec{Change: pkgv1alpha1.ChangeTypeInstall, Install: &pkgv1alpha1.InstallSpec{Package: pkgv1alpha1.PackageSnapshot{
			APIVersion: porchv1alpha1.GroupVersion.String(), Kind: Kind, Metadata: pkgv1alpha1.PackageMetadata{Name: name, UID: uid},
			Spec: runtime.RawExtension{Raw: spec},
		}}},
	}, nil
}

// about reports whether a Transaction is about exactly this. Its name alone does not say so: it has
// only a part of a hash, and two contents with the same one can be found.
func about(tx *pkgv1alpha1.Transaction, uid types.UID, s *Snapshot) bool {
	found, err := ParseSnapshot(&tx.Spec.Install.Package)
	return err == nil && *found == *s && tx.Spec.Install.Package.Metadata.UID == uid && transaction.ValidateOnly(tx)
}
