package health_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/starlinghq/starling/pkg/core/health"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts lists the messages that users read in status.problems and in the condition Healthy.
func TestTexts(t *testing.T) {
	var texts []golden.Text
	for _, tc := range []struct{ kind, status string }{
		{"Deployment.apps", `{"observedGeneration":1}`},
		{"Deployment.apps", `{}`},
		{"Deployment.apps", `{"observedGeneration":2,"replicas":3,"updatedReplicas":1}`},
		{"Deployment.apps", `{"observedGeneration":2,"replicas":1,"updatedReplicas":1}`},
		{"Deployment.apps", `{"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded","message":"timed out"}]}`},
		{"StatefulSet.apps", `{"replicas":2,"readyReplicas":1}`},
		{"DaemonSet.apps", `{"desiredNumberScheduled":2,"updatedNumberScheduled":1}`},
		{"DaemonSet.apps", `{"desiredNumberScheduled":2,"updatedNumberScheduled":2,"numberAvailable":1}`},
		{"Job.batch", `{"active":1}`},
		{"Pod", `{"containerStatuses":[{"name":"web","state":{"waiting":{"reason":"CrashLoopBackOff"}}}]}`},
		{"Pod", `{"phase":"Failed","reason":"Evicted"}`},
		{"Pod", `{"phase":"Failed"}`},
		{"PersistentVolumeClaim", `{"phase":"Lost"}`},
		{"CustomResourceDefinition.apiextensions.k8s.io", `{}`},
		{"Widget.example.com", `{"conditions":[{"type":"Ready","status":"False"}]}`},
	} {
		var status map[string]any
		if err := utiljson.Unmarshal([]byte(tc.status), &status); err != nil {
			t.Fatal(err)
		}
		v := health.Evaluate(schema.ParseGroupKind(tc.kind), status, 2)
		texts = append(texts, golden.Text{Heading: tc.kind + " " + tc.status, Text: v.State.String() + ": " + v.Message})
	}
	golden.Texts(t, texts...)
}
