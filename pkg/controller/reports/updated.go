package reports

import (
	"bytes"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// statusSubresource is what the API server notes of who wrote through /status.
const statusSubresource = "status"

// reduce is the transform of the informers: of managedFields, often the largest part of a WorkStatus, one entry is left, and of
// that the time at which the status last changed. It may be called again with what it returned.
func reduce(obj any) (any, error) {
	ws, ok := obj.(*controlv1alpha1.WorkStatus)
	if !ok {
		return obj, nil
	}
	var last *metav1.Time
	for _, entry := range ws.ManagedFields {
		if entry.Time != nil && aboutStatus(entry) && (last == nil || last.Before(entry.Time)) {
			last = entry.Time
		}
	}
	ws.ManagedFields = nil
	if last != nil {
		ws.ManagedFields = []metav1.ManagedFieldsEntry{{Subresource: statusSubresource, Time: last}}
	}
	return ws, nil
}

// aboutStatus tells whether the entry is of somebody who set the status.
func aboutStatus(entry metav1.ManagedFieldsEntry) bool {
	return entry.Subresource == statusSubresource || entry.FieldsV1 != nil && bytes.Contains(entry.FieldsV1.Raw, []byte(`"f:status"`))
}

// updated returns when the status of a reduced WorkStatus last changed; without one, when it was created.
func updated(ws *controlv1alpha1.WorkStatus) time.Time {
	if len(ws.ManagedFields) > 0 && ws.ManagedFields[0].Time != nil {
		return ws.ManagedFields[0].Time.UTC()
	}
	return ws.CreationTimestamp.UTC()
}
