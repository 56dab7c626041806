package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/upgrade"
)

const (
	// privateSuffix ends the prefix of labels that only stored revisions have.
	privateSuffix = ".store.starling.io/"
	// metadataPrefix begins a label for each label of the Kptfile, so that selectors can use it.
	metadataPrefix = "metadata" + privateSuffix
	// withinPrefix begins a label for the package itself and one for each path above it. Creating a
	// package at one of those paths finds this revision by it.
	withinPrefix = "within" + privateSuffix
	// selfValue is the value of the label for the package itself.
	selfValue = "itself"
	// clonedLabel marks a revision that was created as the first of its package.
	clonedLabel = "cloned" + privateSuffix + "from"
	// lockLabel has as its value a hash of where else the revision is stored, such as git. A clone
	// that was made from there finds the revision here by it.
	lockLabel = "located" + privateSuffix + "at"
)

// ServedUID returns the UID of the served object. It differs from that of the stored object: the
// garbage collector identifies objects by UID and would confuse the two.
func ServedUID(stored types.UID) types.UID {
	if stored == "" {
		return ""
	}
	sum := sha256.Sum256([]byte("porch.kpt.dev/" + stored))
	h := sum[:16]
	h[6] = h[6]&0x0f | 0x80 // version 8: custom
	h[8] = h[8]&0x3f | 0x80
	text := hex.EncodeToString(h)
	return types.UID(text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:])
}

// Serve returns the served object of a stored revision. The two share spec and status, so cr must
// not be used afterwards.
func Serve(cr *storev1alpha1.PackageRevision) *porchv1alpha1.PackageRevision {
	return &porchv1alpha1.PackageRevision{
		TypeMeta:   metav1.TypeMeta{APIVersion: porchv1alpha1.GroupVersion.String(), Kind: "PackageRevision"},
		ObjectMeta: ServeMeta(cr),
		Spec:       cr.Spec,
		Status:     cr.Status,
	}
}

// ServeFilesMeta returns the metadata of the served PackageRevisionResources.
func ServeFilesMeta(cr *storev1alpha1.PackageRevision) metav1.ObjectMeta {
	m := WithoutLastApplied(ServeMeta(cr))
	m.ManagedFields = managedFields(cr.Served.FilesManagedFields)
	return m
}

// WithoutLastApplied removes what a user has applied client-side last: it is about the
// PackageRevision. On the files, kubectl would take it for their owner.
func WithoutLastApplied(m metav1.ObjectMeta) metav1.ObjectMeta {
	if _, there := m.Annotations[corev1.LastAppliedConfigAnnotation]; there {
		m.Annotations = maps.Clone(m.Annotations)
		delete(m.Annotations, corev1.LastAppliedConfigAnnotation)
	}
	return m
}

// ServeMeta returns the metadata of the served object.
func ServeMeta(cr *storev1alpha1.PackageRevision) metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		Name: cr.Name, Namespace: cr.Namespace, UID: ServedUID(cr.UID), ResourceVersion: cr.ResourceVersion, Generation: cr.Generation,
		CreationTimestamp: cr.CreationTimestamp, DeletionTimestamp: cr.DeletionTimestamp, DeletionGracePeriodSeconds: cr.DeletionGracePeriodSeconds,
		Labels: publicLabels(cr.Labels), Annotations: cr.Annotations, Finalizers: cr.Finalizers, OwnerReferences: cr.Served.OwnerReferences,
	}
	m.ManagedFields = managedFields(cr.Served.ManagedFields)
	return m
}

// managedFields reads stored managedFields. Those that cannot be parsed are treated as empty.
func managedFields(stored string) (all []metav1.ManagedFieldsEntry) {
	if stored != "" {
		_ = json.Unmarshal([]byte(stored), &all)
	}
	return all
}

// maxFilesManagedFields is as in the schema of stored revisions.
const maxFilesManagedFields = 256 << 10

// setFilesManagedFields stores who owns which file, if anybody applies files server-side: only then
// it matters, and each name of a file would be in the revision once more. It returns an error if
// that is too large: without it, files that are left out would stay.
func setFilesManagedFields(cr *storev1alpha1.PackageRevision, all []metav1.ManagedFieldsEntry) error {
	cr.Served.FilesManagedFields = ""
	if !slices.ContainsFunc(all, func(e metav1.ManagedFieldsEntry) bool { return e.Operation == metav1.ManagedFieldsOperationApply }) {
		return nil
	}
	text, err := json.Marshal(all)
	switch {
	case err != nil:
		return err
	case len(text) > maxFilesManagedFields:
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the names of the files and their owners have %d KiB, and at most %d KiB can be applied server-side: "+
			"use kubectl replace, or kubectl starling package push", len(text)>>10, maxFilesManagedFields>>10))
	}
	cr.Served.FilesManagedFields = string(text)
	return nil
}

func publicLabels(labels map[string]string) map[string]string {
	public := map[string]string{}
	for key, value := range labels {
		if !isPrivate(key) {
			public[key] = value
		}
	}
	if len(public) == 0 {
		return nil
	}
	return public
}

func isPrivate(key string) bool { return strings.Contains(key, privateSuffix) }

// setServedMeta sets the metadata that the user wrote on a stored revision. Fields that the API
// server owns stay as they are.
func setServedMeta(cr *storev1alpha1.PackageRevision, m *metav1.ObjectMeta) error {
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

// ownKptfile makes the server the owner of the Kptfile: it has changed it, for a user who wrote the
// revision. To apply another one is a conflict.
func ownKptfile(cr *storev1alpha1.PackageRevision) error {
	if cr.Served.FilesManagedFields == "" {
		return nil
	}
	const manager = "package-server"
	kptfile := fieldpath.NewSet(fieldpath.MakePathOrDie("spec", "resources", kpt.KptfileName))
	var all []metav1.ManagedFieldsEntry
	for _, e := range managedFields(cr.Served.FilesManagedFields) {
		set := &fieldpath.Set{}
		if e.FieldsV1 == nil || e.Manager == manager {
			continue
		}
		if err := set.FromJSON(bytes.NewReader(e.FieldsV1.Raw)); err != nil {
			return err
		}
		if set = set.Difference(kptfile); set.Empty() {
			continue
		}
		raw, err := set.ToJSON()
		if err != nil {
			return err
		}
		e.FieldsV1 = &metav1.FieldsV1{Raw: raw}
		all = append(all, e)
	}
	raw, err := kptfile.ToJSON()
	if err != nil {
		return err
	}
	return setFilesManagedFields(cr, append(all, metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: porchv1alpha1.GroupVersion.String(),
		FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: raw},
	}))
}

// setPrivateLabels sets the labels by which stored revisions are found.
func setPrivateLabels(cr *storev1alpha1.PackageRevision) {
	labels := map[string]string{}
	maps.Copy(labels, publicLabels(cr.Labels))
	if m := cr.Spec.PackageMetadata; m != nil {
		for key, value := range m.Labels {
			labels[MetadataLabel(key)] = labelHash(value)
		}
	}
	parts := strings.Split(cr.Spec.PackageName, "/")
	for i := 1; i < len(parts); i++ {
		labels[withinLabel(cr.Spec.RepositoryName, strings.Join(parts[:i], "/"))] = ""
	}
	labels[withinLabel(cr.Spec.RepositoryName, cr.Spec.PackageName)] = selfValue
	if createsPackage(&cr.Spec) {
		labels[clonedLabel] = ""
	}
	if _, _, here := upgrade.Here(cr.Status.SelfLock); !here && cr.Status.SelfLock != nil && cr.Status.SelfLock.Git != nil {
		labels[lockLabel] = lockHash(cr.Status.SelfLock.Git)
	}
	cr.Labels = labels
}

// MetadataLabel returns the key of the private label for a label of a Kptfile.
func MetadataLabel(key string) string { return metadataPrefix + labelHash(key) }

// MetadataValue returns the value of that label.
func MetadataValue(value string) string { return labelHash(value) }

func withinLabel(repository, packageName string) string {
	return withinPrefix + labelHash(repository+"/"+packageName)
}

func lockHash(l *porchv1alpha1.GitLock) string {
	return labelHash(strings.Join([]string{l.Repo, l.Directory, l.Ref, l.Commit}, "\x00"))
}

// labelHash returns a hash of text that is valid in a label.
func labelHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// createsPackage reports whether a revision was created as the first of its package.
func createsPackage(spec *porchv1alpha1.PackageRevisionSpec) bool {
	return len(spec.Tasks) > 0 && (spec.Tasks[0].Clone != nil || spec.Tasks[0].Init != nil)
}
