package health_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/starlinghq/starling/pkg/core/health"
)

func TestEvaluate(t *testing.T) {
	cases := map[string]struct {
		kind, status string
		generation   int64
		want         string
	}{
		"DeploymentWell":       {kind: "Deployment.apps", status: `{"observedGeneration":2,"replicas":2,"updatedReplicas":2,"availableReplicas":2,"conditions":[{"type":"Available","status":"True"}]}`, generation: 2, want: "Healthy: "},
		"DeploymentBehind":     {kind: "Deployment.apps", status: `{"observedGeneration":1,"replicas":2,"updatedReplicas":2,"availableReplicas":2}`, generation: 2, want: "Progressing: its controller has not observed the last change yet"},
		"DeploymentNew":        {kind: "Deployment.apps", status: `{}`, want: "Progressing: has no status yet"},
		"DeploymentScaledDown": {kind: "Deployment.apps", status: `{"observedGeneration":1,"conditions":[{"type":"Available","status":"True"}]}`, generation: 1, want: "Healthy: "},
		"DeploymentRolling":    {kind: "Deployment.apps", status: `{"replicas":3,"updatedReplicas":1,"availableReplicas":3}`, want: "Progressing: 1 of 3 replicas updated"},
		"DeploymentStarting":   {kind: "Deployment.apps", status: `{"replicas":2,"updatedReplicas":2,"availableReplicas":1,"unavailableReplicas":1}`, want: "Progressing: 1 of 2 replicas available"},
		"DeploymentNoPods":     {kind: "Deployment.apps", status: `{"observedGeneration":1,"unavailableReplicas":2,"conditions":[{"type":"Available","status":"False","reason":"MinimumReplicasUnavailable"}]}`, want: "Progressing: 0 of 2 replicas available"},
		"DeploymentStuck":      {kind: "Deployment.apps", status: `{"replicas":1,"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded","message":"timed out"}]}`, want: "Unhealthy: ProgressDeadlineExceeded: timed out"},
		"DeploymentQuota":      {kind: "Deployment.apps", status: `{"conditions":[{"type":"ReplicaFailure","status":"True","reason":"FailedCreate","message":"quota"}]}`, want: "Unhealthy: FailedCreate: quota"},
		"StatefulSetWell":      {kind: "StatefulSet.apps", status: `{"replicas":2,"readyReplicas":2,"currentRevision":"a","updateRevision":"a"}`, want: "Healthy: "},
		"StatefulSetRolling":   {kind: "StatefulSet.apps", status: `{"replicas":2,"readyReplicas":2,"updatedReplicas":1,"currentRevision":"a","updateRevision":"b"}`, want: "Progressing: 1 of 2 replicas updated"},
		"StatefulSetStarting":  {kind: "StatefulSet.apps", status: `{"replicas":2,"readyReplicas":1}`, want: "Progressing: 1 of 2 replicas ready"},
		"DaemonSetWell":        {kind: "DaemonSet.apps", status: `{"desiredNumberScheduled":2,"updatedNumberScheduled":2,"numberAvailable":2}`, want: "Healthy: "},
		"DaemonSetNoNodes":     {kind: "DaemonSet.apps", status: `{"desiredNumberScheduled":0}`, want: "Healthy: "},
		"DaemonSetStarting":    {kind: "DaemonSet.apps", status: `{"desiredNumberScheduled":2,"updatedNumberScheduled":2,"numberAvailable":1}`, want: "Progressing: available on 1 of 2 nodes"},
		"ReplicaSetShort":      {kind: "ReplicaSet.apps", status: `{"replicas":2}`, want: "Progressing: 0 of 2 replicas available"},
		"JobRuns":              {kind: "Job.batch", status: `{"active":1}`, want: "Progressing: running: 1 active, 0 succeeded, 0 failed"},
		"JobDone":              {kind: "Job.batch", status: `{"conditions":[{"type":"Complete","status":"True"}]}`, want: "Healthy: "},
		"JobFailed":            {kind: "Job.batch", status: `{"conditions":[{"type":"Failed","status":"True","reason":"BackoffLimitExceeded"}]}`, want: "Unhealthy: BackoffLimitExceeded"},
		"PodReady":             {kind: "Pod", status: `{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}`, want: "Healthy: "},
		"PodCrashes":           {kind: "Pod", status: `{"phase":"Running","containerStatuses":[{"name":"web","state":{"waiting":{"reason":"CrashLoopBackOff"}}}]}`, want: "Unhealthy: container web: CrashLoopBackOff"},
		"PodPending":           {kind: "Pod", status: `{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"no node"}]}`, want: "Progressing: Unschedulable: no node"},
		"ClaimBound":           {kind: "PersistentVolumeClaim", status: `{"phase":"Bound"}`, want: "Healthy: "},
		"ClaimPending":         {kind: "PersistentVolumeClaim", status: `{"phase":"Pending"}`, want: "Progressing: phase is Pending"},
		"ClaimLost":            {kind: "PersistentVolumeClaim", status: `{"phase":"Lost"}`, want: "Unhealthy: phase is Lost"},
		"NamespaceActive":      {kind: "Namespace", status: `{"phase":"Active"}`, want: "Healthy: "},
		"NamespaceEnds":        {kind: "Namespace", status: `{"phase":"Terminating"}`, want: "Progressing: phase is Terminating"},
		"CRDEstablished":       {kind: "CustomResourceDefinition.apiextensions.k8s.io", status: `{"conditions":[{"type":"NamesAccepted","status":"True"},{"type":"Established","status":"True"}]}`, want: "Healthy: "},
		"CRDNames":             {kind: "CustomResourceDefinition.apiextensions.k8s.io", status: `{"conditions":[{"type":"NamesAccepted","status":"False","reason":"ListKindConflict"}]}`, want: "Unhealthy: ListKindConflict"},
		"BudgetTight":          {kind: "PodDisruptionBudget.policy", status: `{"conditions":[{"type":"DisruptionAllowed","status":"False"}]}`, want: "Healthy: "},
		"Service":              {kind: "Service", status: `{"loadBalancer":{}}`, want: "Healthy: "},
		"NoStatus":             {kind: "Widget.example.com", status: `null`, want: "Healthy: "},
		"Ready":                {kind: "Widget.example.com", status: `{"conditions":[{"type":"Ready","status":"True"}]}`, want: "Healthy: "},
		"NotReady":             {kind: "Widget.example.com", status: `{"conditions":[{"type":"Ready","status":"False","reason":"Broken","message":"no luck"}]}`, want: "Unhealthy: Broken: no luck"},
		"ReadyUnknown":         {kind: "Widget.example.com", status: `{"conditions":[{"type":"Ready","status":"Unknown"}]}`, want: "Progressing: Ready is Unknown"},
		"Reconciling":          {kind: "Widget.example.com", status: `{"conditions":[{"type":"Ready","status":"False"},{"type":"Reconciling","status":"True","message":"on it"}]}`, want: "Progressing: on it"},
		"Stalled":              {kind: "Widget.example.com", status: `{"conditions":[{"type":"Ready","status":"True"},{"type":"Stalled","status":"True","message":"stuck"}]}`, want: "Unhealthy: stuck"},
		"Nonsense":             {kind: "Deployment.apps", status: `{"replicas":"two","conditions":"none"}`, want: "Healthy: "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var status map[string]any
			if err := utiljson.Unmarshal([]byte(tc.status), &status); err != nil {
				t.Fatal(err)
			}
			got := health.Evaluate(schema.ParseGroupKind(tc.kind), status, tc.generation)
			if text := got.State.String() + ": " + got.Message; text != tc.want {
				t.Errorf("got  %s\nwant %s", text, tc.want)
			}
		})
	}
}

func TestMessagesAreBounded(t *testing.T) {
	status := map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "False", "message": strings.Repeat("…\n", 500)}}}
	got := health.Evaluate(schema.GroupKind{Kind: "Widget"}, status, 0).Message
	if len(got) > 200 || !utf8.ValidString(got) || strings.Contains(got, "\n") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

// FuzzEvaluate checks that any status has a verdict, and the same one each time.
func FuzzEvaluate(f *testing.F) {
	for _, kind := range []string{"Deployment.apps", "Pod", "Job.batch", "Widget.example.com"} {
		f.Add(kind, []byte(`{"phase":"Running","replicas":1,"conditions":[{"type":"Ready","status":"False"}],"containerStatuses":[{"state":{"waiting":null}}]}`))
	}
	f.Fuzz(func(t *testing.T, kind string, text []byte) {
		var status map[string]any
		if json.Unmarshal(text, &status) != nil {
			return
		}
		gk := schema.ParseGroupKind(kind)
		got := health.Evaluate(gk, status, 1)
		if got.State == health.Healthy && got.Message != "" || !utf8.ValidString(got.Message) || len(got.Message) > 200 {
			t.Errorf("%+v", got)
		}
		if again := health.Evaluate(gk, status, 1); again != got {
			t.Errorf("first %+v, then %+v", got, again)
		}
	})
}
