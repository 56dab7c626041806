package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
)

// TestHealthyCounts: a report counts as healthy by the rules with which the status controller
// judges it. A report that is not of the object that it names does not count.
func TestHealthyCounts(t *testing.T) {
	t.Parallel()
	web := objref.Ref{Group: "apps", Resource: "deployments", Namespace: "shop", Name: "web"}
	const available = `{"observedGeneration":3,"replicas":2,"updatedReplicas":2,"readyReplicas":2,"availableReplicas":2,"conditions":[{"type":"Available","status":"True"}]}`
	for name, tc := range map[string]struct {
		name, status string
		want         int
	}{
		"Available":   {status: available, want: 1},
		"Unavailable": {status: `{"observedGeneration":3,"replicas":2,"updatedReplicas":2,"readyReplicas":1,"availableReplicas":1}`},
		"Older":       {status: `{"observedGeneration":2,"replicas":2,"updatedReplicas":2,"readyReplicas":2,"availableReplicas":2}`},
		"NoObject":    {status: `"x"`},
		"OfAnother":   {name: "another", status: available},
	} {
		c := newCounter()
		c.applied["c1"] = map[objref.Ref]bool{web: true}
		ws := &controlv1alpha1.WorkStatus{ObjectMeta: metav1.ObjectMeta{
			Namespace: "c1", Name: corestatus.ReportName(web), Annotations: map[string]string{controlv1alpha1.AnnotationGeneration: "3"},
		}}
		if tc.name != "" {
			ws.Name = tc.name
		}
		ws.Spec.SourceRef = controlv1alpha1.SourceRef{Group: web.Group, Version: "v1", Resource: web.Resource, Kind: "Deployment", Namespace: web.Namespace, Name: web.Name}
		ws.Status = &runtime.RawExtension{Raw: []byte(tc.status)}
		c.addReport(ws)
		if diff := cmp.Diff(&counts{Objects: 1, Applied: 1, Healthy: tc.want}, c.of("c1")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
