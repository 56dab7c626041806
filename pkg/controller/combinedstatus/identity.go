package combinedstatus

import (
	"crypto/sha256"
	"encoding/base32"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// subjectKeys are the keys of the labels that name the subject of a CombinedStatus, and of the
// annotations that hold values that no label can hold.
var subjectKeys = []string{
	controlv1alpha1.LabelSubjectGroup,
	controlv1alpha1.LabelSubjectResource,
	controlv1alpha1.LabelSubjectNamespace,
	controlv1alpha1.LabelSubjectName,
	controlv1alpha1.LabelBindingPolicy,
}

// subject returns the labels and annotations that name the subject of a CombinedStatus.
func subject(pair match.Pair) (labels, annotations map[string]string) {
	ref := pair.Ref
	labels, annotations = map[string]string{}, map[string]string{}
	for i, value := range []string{ref.Group, ref.Resource, ref.Namespace, ref.Name, pair.Policy} {
		key := subjectKeys[i]
		labels[key] = labelValue(value)
		if labels[key] != value {
			annotations[key] = value
		}
	}
	return labels, annotations
}

// pairOf returns the subject that a CombinedStatus names; false if it names none.
func pairOf(obj metav1.Object) (match.Pair, bool) {
	labels, annotations := obj.GetLabels(), obj.GetAnnotations()
	values := make([]string, len(subjectKeys))
	for i, key := range subjectKeys {
		label, ok := labels[key]
		if !ok {
			return match.Pair{}, false
		}
		if values[i], ok = annotations[key]; !ok {
			values[i] = label
		}
	}
	ref := objref.Ref{Group: values[0], Resource: values[1], Namespace: values[2], Name: values[3]}
	return match.Pair{Ref: ref, Policy: values[4]}, true
}

// labelValue returns the value, or a unique abbreviation that is valid in a label: characters that
// are not allowed become dashes, a long value is truncated, and a hash of the whole value follows.
func labelValue(value string) string {
	if len(validation.IsValidLabelValue(value)) == 0 {
		return value
	}
	const readable, hashed = 42, 12 // 12 bytes, 96 bits, are 20 characters; together 63
	var b strings.Builder
	for _, r := range value {
		if b.Len() == readable {
			break
		}
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_':
			b.WriteRune(r)
		default:
			b.WriteByte('-')
		}
	}
	sum := sha256.Sum256([]byte(value))
	hash := strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:hashed]))
	if start := strings.Trim(b.String(), "-._"); start != "" {
		return start + "-" + hash
	}
	return hash
}

// nameOf returns the name of the CombinedStatus, and its namespace.
func nameOf(ref objref.Ref, object, policy types.UID) (namespace, name string) {
	if ref.Namespace == "" {
		return controlv1alpha1.ReportNamespace, string(object) + "." + string(policy)
	}
	return ref.Namespace, string(object) + "." + string(policy)
}

// metadataOf returns the desired metadata of a CombinedStatus, given the current ones: what others
// added stays.
func metadataOf(current metav1.ObjectMeta, pair match.Pair, owner metav1.OwnerReference) metav1.ObjectMeta {
	labels, annotations := subject(pair)
	want := metav1.ObjectMeta{
		Namespace: current.Namespace, Name: current.Name,
		Labels: map[string]string{}, Annotations: map[string]string{}, OwnerReferences: slices.Clone(current.OwnerReferences),
	}
	maps.Copy(want.Labels, current.Labels)
	maps.Copy(want.Labels, labels)
	maps.Copy(want.Annotations, current.Annotations)
	for _, key := range subjectKeys {
		delete(want.Annotations, key)
	}
	maps.Copy(want.Annotations, annotations)
	// The API version of the owner does not matter, and may change with what the WDS serves.
	if !slices.ContainsFunc(want.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner.UID && o.Kind == owner.Kind }) {
		want.OwnerReferences = append(want.OwnerReferences, owner)
	}
	return want
}

// sameMetadata reports whether the current metadata are the desired ones.
func sameMetadata(current, want *metav1.ObjectMeta) bool {
	return maps.Equal(current.Labels, want.Labels) && maps.Equal(current.Annotations, want.Annotations) &&
		len(current.OwnerReferences) == len(want.OwnerReferences)
}
