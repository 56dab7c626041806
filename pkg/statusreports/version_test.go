package statusreports

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// TestVersion: a report is another one when its status or the time of that is, and not when
// generations are written.
func TestVersion(t *testing.T) {
	build := func(change func(*controlv1alpha1.WorkStatus)) string {
		ws := &controlv1alpha1.WorkStatus{
			ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "1", CreationTimestamp: metav1.Time{Time: time.Unix(1000, 0)}},
			Status:     &runtime.RawExtension{Raw: []byte(`{"a":1}`)},
		}
		change(ws)
		return versionOf(ws)
	}
	same := build(func(*controlv1alpha1.WorkStatus) {})
	for name, tc := range map[string]struct {
		change func(*controlv1alpha1.WorkStatus)
		want   bool // the same
	}{
		"Annotation": {change: func(ws *controlv1alpha1.WorkStatus) {
			ws.ResourceVersion, ws.Annotations = "2", map[string]string{controlv1alpha1.AnnotationGeneration: "7"}
		}, want: true},
		"Status":     {change: func(ws *controlv1alpha1.WorkStatus) { ws.Status.Raw = []byte(`{"a":2}`) }},
		"NoStatus":   {change: func(ws *controlv1alpha1.WorkStatus) { ws.Status = nil }},
		"Later":      {change: func(ws *controlv1alpha1.WorkStatus) { ws.CreationTimestamp = metav1.Time{Time: time.Unix(1001, 0)} }},
		"AnotherOne": {change: func(ws *controlv1alpha1.WorkStatus) { ws.UID = "v" }},
	} {
		t.Run(name, func(t *testing.T) {
			if got := build(tc.change) == same; got != tc.want {
				t.Errorf("the same version: %t, want %t", got, tc.want)
			}
		})
	}
}
