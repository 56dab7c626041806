package packages

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg/upgrade"
)

const (
	// privateSuffix ends the prefix of labels that only what is kept has.
	privateSuffix = ".store.starling.io/"
	// metadataPrefix begins a label for each label of the Kptfile, so that it can be selected by.
	metadataPrefix = "metadata" + privateSuffix
	// withinPrefix begins a label for the package itself, and for each that would lie around it, so that whoever creates one of those
	// finds this one.
	withinPrefix = "within" + privateSuffix
	// itself is the value of the label for the package itself.
	itself = "itself"
	// clonedLabel says that a revision was made as the first of its package.
	clonedLabel = "cloned" + privateSuffix + "from"
	// locatedLabel has for its value where else the revision lies, by which whoever was made from it there finds it here.
	locatedLabel = "located" + privateSuffix + "at"
)

// ServedUID is the UID of the object served. It is another than that of the object kept, since the garbage collector knows objects by
// their UID, and would take one for the other.
func ServedUID(kept types.UID) types.UID {
	if kept == "" {
		return ""
	}
	sum := sha256.Sum256([]byte("porch.kpt.dev/" + kept))
	h := sum[:16]
	h[6] = h[6]&0x0f | 0x80 // version 8: of our own making
	h[8] = h[8]&0x3f | 0x80
	text := hex.EncodeToString(h)
	return types.UID(text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:])
}

// Serve returns the object served for what is kept. It shares nothing that either may change but spec and status, so cr must not be
// used for anything else.
func Serve(cr *storev1alpha1.PackageRevision) *porchv1alpha1.PackageRevision {
	return &porchv1alpha1.PackageRevision{
		TypeMeta:   metav1.TypeMeta{APIVersion: porchv1alpha1.GroupVersion.String(), Kind: "PackageRevision"},
		ObjectMeta: ServeMeta(cr),
		Spec:       cr.Spec,
		Status:     cr.Status,
	}
}

// ServeMeta returns the metadata of the object served.
func ServeMeta(cr *storev1alpha1.PackageRevision) metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		Name: cr.Name, Namespace: cr.Namespace, UID: ServedUID(cr.UID), ResourceVersion: cr.ResourceVersion, Generation: cr.Generation,
		CreationTimestamp: cr.CreationTimestamp, DeletionTimestamp: cr.DeletionTimestamp, DeletionGracePeriodSeconds: cr.DeletionGracePeriodSeconds,
		Labels: publicLabels(cr.Labels), Annotations: cr.Annotations, Finalizers: cr.Finalizers, OwnerReferences: cr.Served.OwnerReferences,
	}
	if cr.Served.ManagedFields != "" {
		// What cannot be read was written by nobody: then it is as if nobody had applied anything.
		_ = json.Unmarshal([]byte(cr.Served.ManagedFields), &m.ManagedFields)
	}
	return m
}

func publicLabels(labels map[string]string) map[string]string {
	private := 0
	for key := range labels {
		if isPrivate(key) {
			private++
		}
	}
	if private == 0 {
		return labels
	}
	if private == len(labels) {
		return nil
	}
	public := make(map[string]string, len(labels)-private)
	for key, value := range labels {
		if !isPrivate(key) {
			public[key] = value
		}
	}
	return public
}

func isPrivate(key string) bool { return strings.Contains(key, privateSuffix) }

// setMeta gives what is kept the metadata that the user wrote. What the API server owns stays as it is.
func setMeta(cr *storev1alpha1.PackageRevision, m *metav1.ObjectMeta) error {
	cr.Labels = maps.Clone(m.Labels)
	cr.Annotations = m.Annotations
	cr.Finalizers = m.Finalizers
	cr.Served.OwnerReferences = m.OwnerReferences
	cr.Served.ManagedFields = ""
	if len(m.ManagedFields) > 0 {
		text, err := json.Marshal(m.ManagedFields)
		if err != nil {
			return err
		}
		cr.Served.ManagedFields = string(text)
	}
	return nil
}

// setPrivateLabels sets the labels by which what is kept can be found.
func setPrivateLabels(cr *storev1alpha1.PackageRevision) {
	labels := map[string]string{}
	for key, value := range cr.Labels {
		if !isPrivate(key) {
			labels[key] = value
		}
	}
	if m := cr.Spec.PackageMetadata; m != nil {
		for key, value := range m.Labels {
			labels[MetadataLabel(key)] = hash(value)
		}
	}
	parts := strings.Split(cr.Spec.PackageName, "/")
	for i := 1; i < len(parts); i++ {
		labels[withinLabel(cr.Spec.RepositoryName, strings.Join(parts[:i], "/"))] = ""
	}
	labels[withinLabel(cr.Spec.RepositoryName, cr.Spec.PackageName)] = itself
	if isClone(&cr.Spec) {
		labels[clonedLabel] = ""
	}
	if _, _, here := upgrade.Here(cr.Status.SelfLock); !here && cr.Status.SelfLock != nil && cr.Status.SelfLock.Git != nil {
		labels[locatedLabel] = located(cr.Status.SelfLock.Git)
	}
	cr.Labels = labels
}

// MetadataLabel is the label of what is kept for a label of a Kptfile.
func MetadataLabel(key string) string { return metadataPrefix + hash(key) }

// MetadataValue is its value.
func MetadataValue(value string) string { return hash(value) }

func withinLabel(repository, packageName string) string {
	return withinPrefix + hash(repository+"/"+packageName)
}

func located(l *porchv1alpha1.GitLock) string {
	return hash(strings.Join([]string{l.Repo, l.Directory, l.Ref, l.Commit}, "\x00"))
}

// hash makes of any text one that may stand in a label.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}
