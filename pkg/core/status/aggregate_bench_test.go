package status

import (
	"fmt"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/starlinghq/starling/pkg/core/match"
)

// BenchmarkDecide is what one more report of an object in several clusters costs, with reading all
// their statuses: that of a Deployment and one of a kind that has no rules of its own. Compare runs
// with benchstat.
func BenchmarkDecide(b *testing.B) {
	const text = `{"observedGeneration":4,"replicas":3,"updatedReplicas":3,"readyReplicas":3,"availableReplicas":3,"conditions":[
		{"type":"Available","status":"True","reason":"MinimumReplicasAvailable","message":"Deployment has minimum availability.","lastTransitionTime":"2026-01-01T00:00:00Z","lastUpdateTime":"2026-01-02T00:00:00Z"},
		{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable","message":"ReplicaSet has successfully progressed.","lastTransitionTime":"2026-01-01T00:00:00Z","lastUpdateTime":"2026-01-02T00:00:00Z"}]}`
	for _, size := range []int{2, 50, 1000} {
		var from []string
		for i := range size {
			from = append(from, fmt.Sprintf("cluster%d", i))
		}
		evidence := Evidence{
			Requests: match.Requests{Known: true, MultiWEC: true, MultiWECClusters: from}, Now: Source{UID: "u", Generation: 2},
			Report: func(string) (*Report, bool) {
				report := &Report{Generation: 4, Source: Source{UID: "u", Generation: 2}}
				if err := utiljson.Unmarshal([]byte(text), &report.Status); err != nil {
					b.Fatal(err)
				}
				return report, true
			},
		}
		b.Run(fmt.Sprintf("deployment/clusters=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Decide(deployments, evidence)
			}
		})
		b.Run(fmt.Sprintf("custom/clusters=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Decide(custom, evidence)
			}
		})
	}
}
