package hostedspace

import corev1 "k8s.io/api/core/v1"

// Annotations of Namespace starling-system that record what a space is.
const (
	TypeAnnotation = "starling.io/space-type"
	NameAnnotation = "starling.io/space-name"
)

// Record is what a space is recorded to be. It is empty if nothing is recorded.
type Record struct{ Type, Name string }

// RecordOf returns the record in Namespace starling-system.
func RecordOf(namespace *corev1.Namespace) Record {
	return Record{Type: namespace.Annotations[TypeAnnotation], Name: namespace.Annotations[NameAnnotation]}
}

// WriteTo changes the record in Namespace starling-system.
func (r Record) WriteTo(namespace *corev1.Namespace) {
	if namespace.Annotations == nil {
		namespace.Annotations = map[string]string{}
	}
	namespace.Annotations[TypeAnnotation], namespace.Annotations[NameAnnotation] = r.Type, r.Name
}
