package statusreports

import (
	"bytes"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// statusSubresource is the subresource in managedFields of writes through /status.
const statusSubresource = "status"

// reduced returns what is kept of a WorkStatus, nil if obj is none. Of managedFields, often the
// largest part, it is one entry with the time at which the status last changed. What has no use
// here, and could be of any size, is dropped. It is idempotent.
func reduced(obj any) *controlv1alpha1.WorkStatus {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	ws, ok := obj.(*controlv1alpha1.WorkStatus)
	if !ok {
		return nil
	}
	kept := &controlv1alpha1.WorkStatus{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ws.Namespace, Name: ws.Name, UID: ws.UID, ResourceVersion: ws.ResourceVersion, CreationTimestamp: ws.CreationTimestamp,
		},
		Spec: ws.Spec, Status: ws.Status,
	}
	for _, key := range []string{controlv1alpha1.AnnotationGeneration, controlv1alpha1.AnnotationSourceGeneration} {
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
	return kept
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
