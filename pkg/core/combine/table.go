package combine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// MaxSize is how large the results of one CombinedStatus become, in bytes of JSON: what etcd takes, with room for the rest.
const MaxSize = 1 << 20

// Cluster is a cluster that the object goes to.
type Cluster struct {
	// Name identifies it.
	Name string
	// Labels are those of its inventory object. They are retained and must not change.
	Labels map[string]string
	// Version is that of its report, empty if there is none.
	Version string
}

// Question is all that tables are made of.
type Question struct {
	// Collectors are those to be applied, by name. Whether one changed is told by its pointer.
	Collectors map[string]*Collector
	// Object is the object in the WDS, as expressions see it; it may be nil if no Collector uses it. ObjectVersion changes with it.
	Object        map[string]any
	ObjectVersion string
	// Clusters are the destinations, sorted by name.
	Clusters []Cluster
	// Report returns what the cluster reports. It is called for those alone whose rows are to be evaluated.
	Report func(cluster string) Report
}

// Table remembers what was evaluated for one object and policy. The zero Table remembers nothing. It may be used by one goroutine
// at a time.
type Table struct {
	memos map[string]*memo
}

// memo is what a Collector yielded, for each cluster.
type memo struct {
	collector     *Collector
	objectVersion string
	rows          map[string]remembered
}

type remembered struct {
	cluster Cluster
	row     *row
}

// Answer returns the results for the question, sorted by name of the Collector, and how many rows were evaluated for it: those
// that something changed for since the last question.
func (t *Table) Answer(q Question) (results []controlv1alpha1.NamedStatusCombination, count int) {
	if t.memos == nil {
		t.memos = map[string]*memo{}
	}
	reports := map[string]Report{} // one cluster may be evaluated for several Collectors
	report := func(cluster string) Report {
		r, ok := reports[cluster]
		if !ok {
			r = q.Report(cluster)
			reports[cluster] = r
		}
		return r
	}
	for name := range t.memos {
		if q.Collectors[name] == nil {
			delete(t.memos, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(q.Collectors)) {
		m := t.memos[name]
		if c := q.Collectors[name]; m == nil || m.collector != c || c.object && m.objectVersion != q.ObjectVersion {
			m = &memo{collector: c, objectVersion: q.ObjectVersion, rows: map[string]remembered{}}
			t.memos[name] = m
		}
		rows, evaluations := m.evaluate(&q, report)
		count += evaluations
		results = append(results, m.collector.combine(name, rows))
	}
	return fit(results, MaxSize), count
}

// evaluate returns the rows of all clusters, as far as the cost allows. What is not remembered is evaluated.
func (m *memo) evaluate(q *Question, report func(string) Report) (rows []evaluated, count int) {
	rows = make([]evaluated, 0, len(q.Clusters))
	current := make(map[string]remembered, len(q.Clusters))
	var cost uint64
	for i := range q.Clusters {
		cluster := q.Clusters[i]
		if cost > m.collector.maxCost {
			rows = append(rows, evaluated{cluster.Name, m.collector.unaffordable()})
			continue
		}
		r, ok := m.rows[cluster.Name]
		if !ok || r.cluster.Version != cluster.Version || m.collector.inventory && !maps.Equal(r.cluster.Labels, cluster.Labels) {
			in := input{object: q.Object, cluster: &cluster, report: report(cluster.Name)}
			cluster.Version = in.report.Version // which may be later by now
			r = remembered{cluster, m.collector.evaluate(in)}
			count++
		}
		current[cluster.Name] = r
		cost += r.row.cost
		rows = append(rows, evaluated{cluster.Name, r.row})
	}
	m.rows = current
	return rows, count
}

// fit takes rows from the end of the largest tables until all results together are small enough.
func fit(results []controlv1alpha1.NamedStatusCombination, maxSize int) []controlv1alpha1.NamedStatusCombination {
	sizes := make([]int, len(results))
	sum := 0
	for i := range results {
		sizes[i] = sizeOf(results[i])
		sum += sizes[i]
	}
	cut := map[int]int64{}
	for sum > maxSize {
		largest := -1
		for i := range results {
			if len(results[i].Rows) > 0 && (largest < 0 || cmp.Compare(sizes[i], sizes[largest]) > 0) {
				largest = i
			}
		}
		if largest < 0 {
			break // names and errors alone are bounded
		}
		r := &results[largest]
		last := len(r.Rows) - 1
		size := sizeOf(r.Rows[last])
		r.Rows = r.Rows[:last]
		sizes[largest] -= size
		sum -= size
		cut[largest]++
	}
	for i, rows := range cut {
		results[i].OmittedRows += rows
		results[i].AggregationErrors = append(results[i].AggregationErrors, controlv1alpha1.AggregationError{
			Error: fmt.Sprintf("%d rows are left out, since an object cannot hold more than about %d KiB: select less, or filter more", rows, maxSize>>10),
		})
	}
	return results
}

func sizeOf(v any) int {
	text, err := json.Marshal(v)
	if err != nil {
		return 0 // strings, and JSON that we made
	}
	return len(text) + 1
}
