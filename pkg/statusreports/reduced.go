package statusreports

import (
	"bytes"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/statusreports/mailboxes"
)

// statusSubresource is the subresource in managedFields of writes through /status.
const statusSubresource = "status"

// reduced returns what is kept of a WorkStatus. Of managedFields, often the largest part, it is one
// entry with the time at which the status last changed. What has no use here, and could be of any
// size, is dropped. It is idempotent.
func reduced(ws *controlv1alpha1.WorkStatus) mailboxes.Kept[controlv1alpha1.WorkStatus] {
	kept := &controlv1alpha1.WorkStatus{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ws.Namespace, Name: ws.Name, UID: ws.UID, ResourceVersion: ws.ResourceVersion, CreationTimestamp: ws.CreationTimestamp,
		},
		Spec: ws.Spec, Status: ws.Status,
	}
	for _, key := range []string{controlv1alpha1.AnnotationGeneration, controlv1alpha1.AnnotationSourceGeneration, controlv1alpha1.AnnotationGone} {
		if value, ok := ws.Annotations[key]; ok {
			if kept.Annotations == nil {
				kept.Annotations = map[string]string{}
			}
			kept.Annotations[key] = value
		}
	}
	var last *metav1.Time
	for _, entry := range ws.ManagedFields {
		if entry.Time != nil && aboutStatus(entry) && (last == nil || last.Before(entry.Time)) {
			last = entry.Time
		}
	}
	if last != nil {
		kept.ManagedFields = []metav1.ManagedFieldsEntry{{Subresource: statusSubresource, Time: last}}
	}
	return mailboxes.Kept[controlv1alpha1.WorkStatus]{Value: kept, Bytes: sizeOf(kept), Updated: updated(kept)}
}

// sizeOf returns about how many bytes of memory a reduced WorkStatus takes beside a constant.
func sizeOf(ws *controlv1alpha1.WorkStatus) int {
	source := ws.Spec.SourceRef
	size := len(source.Group) + len(source.Version) + len(source.Resource) + len(source.Kind) + len(source.Namespace) + 2*len(source.Name)
	for _, value := range ws.Annotations {
		size += len(value)
	}
	if ws.Status != nil {
		size += len(ws.Status.Raw)
	}
	return size
}

// aboutStatus reports whether the entry is of a client that set the status.
func aboutStatus(entry metav1.ManagedFieldsEntry) bool {
	return entry.Subresource == statusSubresource || entry.FieldsV1 != nil && bytes.Contains(entry.FieldsV1.Raw, []byte(`"f:status"`))
}

// updated returns when the status of a reduced WorkStatus last changed; without one, when it was
// created.
func updated(ws *controlv1alpha1.WorkStatus) time.Time {
	if len(ws.ManagedFields) > 0 && ws.ManagedFields[0].Time != nil {
		return ws.ManagedFields[0].Time.UTC()
	}
	return ws.CreationTimestamp.UTC()
}
