package combine

import (
	"fmt"
	"testing"
)

// Run with: go test -run '^$' -bench . -count 6 ./pkg/core/combine | bin/tools/benchstat /dev/stdin

func BenchmarkCompile(b *testing.B) {
	s := spec{
		Filter: expr("obj.spec.replicas != returned.status.?availableReplicas.orValue(0)"),
		Select: []named{{Name: "cluster", Def: "inventory.name"}, {Name: "available", Def: "returned.status.?availableReplicas"}},
	}
	for b.Loop() {
		if c, errs := Compile(&s); c == nil {
			b.Fatal(errs)
		}
	}
}

// BenchmarkRow is one evaluation of each expression for one cluster.
func BenchmarkRow(b *testing.B) {
	c, in := benchCollector(b)
	for b.Loop() {
		if _, err := c.evaluate(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
}

func benchCollector(tb testing.TB) (*Collector, input) {
	tb.Helper()
	c, errs := Compile(&spec{
		Filter: expr("obj.spec.replicas != returned.status.?availableReplicas.orValue(0)"),
		Select: []named{
			{Name: "cluster", Def: "inventory.name"},
			{Name: "available", Def: "returned.status.?availableReplicas"},
			{Name: "why", Def: "returned.status.conditions.filter(c, c.status == 'False').map(c, c.reason)"},
		},
	})
	if c == nil {
		tb.Fatal(errs)
	}
	return c, input{
		object:  map[string]any{"spec": map[string]any{"replicas": int64(3)}},
		cluster: &Cluster{Name: "c01"},
		report: Report{Reported: true, Version: "1", Status: map[string]any{"availableReplicas": int64(2), "conditions": []any{
			map[string]any{"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable"}, map[string]any{"type": "Progressing", "status": "True", "reason": "x"},
		}}},
	}
}

// BenchmarkOneReport is one further report of an object in n clusters.
func BenchmarkOneReport(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("clusters=%d", n), func(b *testing.B) {
			c, in := benchCollector(b)
			q := Question{Collectors: map[string]*Collector{"x": c}, Object: in.object, ObjectVersion: "1"}
			for i := range n {
				q.Clusters = append(q.Clusters, Cluster{Name: fmt.Sprintf("c%04d", i), Version: "1"})
			}
			version := 1
			q.Report = func(string) Report {
				report := in.report
				report.Version = fmt.Sprint(version)
				return report
			}
			var table Table
			if _, _, err := table.Answer(b.Context(), q); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				version++
				q.Clusters[n/2].Version = fmt.Sprint(version)
				if _, count, _ := table.Answer(b.Context(), q); count != 1 {
					b.Fatalf("%d evaluations", count)
				}
			}
		})
	}
}
