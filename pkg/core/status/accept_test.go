package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestAccepted checks that fields stay unchanged whose change API servers refuse.
func TestAccepted(t *testing.T) {
	const complete = `{"succeeded":1,"startTime":"2026-01-01T00:00:00Z","completionTime":"2026-01-01T00:01:00Z","conditions":[{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]}`
	for name, tc := range map[string]struct {
		resource   schema.GroupResource
		have, next string // "" for none
		want       string
	}{
		"CollisionsGrow":        {resource: deployments, have: `{"collisionCount":1}`, next: `{"collisionCount":2}`, want: `{"collisionCount":2}`},
		"CollisionsDoNotShrink": {resource: daemonSets, have: `{"collisionCount":2}`, next: `{"collisionCount":1,"numberReady":1}`, want: `{"collisionCount":2,"numberReady":1}`},
		"CollisionsDoNotVanish": {resource: statefulSets, have: `{"collisionCount":2}`, next: `{"replicas":1}`, want: `{"collisionCount":2,"replicas":1}`},
		"CollisionsWhenCleared": {resource: deployments, have: `{"collisionCount":2,"replicas":1}`, want: `{"collisionCount":2}`},
		"CollisionsOfOthers":    {resource: custom, have: `{"collisionCount":2}`, next: `{"a":1}`, want: `{"a":1}`},
		"FinishedJobStays":      {resource: jobs, have: complete, next: `{"active":1}`, want: complete},
		"FinishedJobCleared":    {resource: jobs, have: complete, want: complete},
		"FailedJobStays":        {resource: jobs, have: `{"conditions":[{"type":"Failed","status":"True"}]}`, next: complete, want: `{"conditions":[{"type":"Failed","status":"True"}]}`},
		"RunningJobFinishes":    {resource: jobs, have: `{"active":1,"startTime":"2026-01-01T00:00:00Z"}`, next: complete, want: complete},
		"RunningJobCleared": {
			resource: jobs, have: `{"active":1,"failed":2,"startTime":"2026-01-01T00:00:00Z","conditions":[{"type":"Suspended","status":"False"}]}`,
			want: `{"failed":2,"startTime":"2026-01-01T00:00:00Z"}`,
		},
		"JobCountersAndStart": {
			resource: jobs, have: `{"failed":2,"succeeded":1,"startTime":"2026-01-01T00:00:00Z"}`,
			next: `{"failed":1,"succeeded":3,"startTime":"2026-01-05T00:00:00Z"}`, want: `{"failed":2,"succeeded":3,"startTime":"2026-01-01T00:00:00Z"}`,
		},
		"JobThatWillFail": {
			resource: jobs, have: `{"conditions":[{"type":"FailureTarget","status":"True","reason":"R"}]}`,
			next: `{"active":1,"conditions":[{"type":"FailureTarget","status":"False"},{"type":"Suspended","status":"False"}]}`,
			want: `{"active":1,"conditions":[{"type":"Suspended","status":"False"},{"type":"FailureTarget","status":"True","reason":"R"}]}`,
		},
		"PodClass":  {resource: pods, have: `{"qosClass":"BestEffort"}`, next: `{"qosClass":"Burstable","phase":"Running"}`, want: `{"qosClass":"BestEffort","phase":"Running"}`},
		"NewStatus": {resource: deployments, next: `{"collisionCount":1}`, want: `{"collisionCount":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			parsed := func(text string) map[string]any {
				if text == "" {
					return nil
				}
				return decoded(t, text)
			}
			have, next := parsed(tc.have), parsed(tc.next)
			got := accepted(tc.resource, have, next)
			if diff := cmp.Diff(parsed(tc.want), got); diff != "" {
				t.Errorf("accepted (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(parsed(tc.have), have) + cmp.Diff(parsed(tc.next), next); diff != "" {
				t.Errorf("the arguments were changed:\n%s", diff)
			}
			if diff := cmp.Diff(got, accepted(tc.resource, got, next)); diff != "" {
				t.Errorf("accepted again is something else:\n%s", diff)
			}
		})
	}
}
