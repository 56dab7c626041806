package combine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/text"
)

// MaxSize is the maximum size of the results of one CombinedStatus, in bytes of JSON: what etcd
// stores, less room for the rest of the object.
const MaxSize = 1 << 20

// Cluster is a destination of the object.
type Cluster struct {
	// Name identifies the cluster.
	Name string
	// Labels are the labels of the ManagedCluster. They are retained and must not change.
	Labels map[string]string
	// Version is the version of the cluster's report, empty if there is none.
	Version string
}

// Question holds the input of the tables.
type Question struct {
	// Collectors are the compiled StatusCollectors, by name. A changed one has another pointer.
	Collectors map[string]*Collector
	// Object is the object in the WDS, as expressions see it. It may be nil if no Collector uses
	// it.
	Object map[string]any
	// ObjectVersion changes whenever Object changes.
	ObjectVersion string
	// Clusters are the destinations, sorted by name.
	Clusters []Cluster
	// Report returns the report of the cluster. It is called only for clusters whose rows are
	// evaluated.
	Report func(cluster string) Report
}

// Table caches the rows of one object and policy. The zero Table is empty. It must not be used
// concurrently.
type Table struct {
	caches map[string]*cache
}

// cache holds the rows of one Collector, by cluster.
type cache struct {
	collector     *Collector
	objectVersion string
	rows          map[string]cachedRow
	// size is about what the rows take in memory, in bytes.
	size int
}

type cachedRow struct {
	cluster Cluster
	row     *row
}

// Size returns about how many bytes of memory the cached rows take.
func (t *Table) Size() int {
	size := 0
	for _, m := range t.caches {
		size += m.size
	}
	return size
}

// Forget drops the cached rows. The next Answer evaluates all, with the same results.
func (t *Table) Forget() { t.caches = nil }

// Answer returns the results for the question, sorted by the name of the Collector, and the number
// of rows that it evaluated: the rows whose input changed since the last call.
func (t *Table) Answer(q Question) (results []controlv1alpha1.NamedStatusCombination, count int) {
	if t.caches == nil {
		t.caches = map[string]*cache{}
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
	for name := range t.caches {
		if q.Collectors[name] == nil {
			delete(t.caches, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(q.Collectors)) {
		m := t.caches[name]
		if c := q.Collectors[name]; m == nil || m.collector != c || c.usesObject && m.objectVersion != q.ObjectVersion {
			m = &cache{collector: c, objectVersion: q.ObjectVersion, rows: map[string]cachedRow{}}
			t.caches[name] = m
		}
		rows, evaluations := m.evaluate(&q, report)
		count += evaluations
		results = append(results, m.collector.combine(name, rows))
	}
	return fit(results, MaxSize), count
}

// evaluate returns the rows of all clusters, and the number of rows that were evaluated because
// they were not cached. Clusters beyond the limits of cost and size have
// rows with errors.
func (m *cache) evaluate(q *Question, report func(string) Report) (rows []evaluated, count int) {
	rows = make([]evaluated, 0, len(q.Clusters))
	current := make(map[string]cachedRow, len(q.Clusters))
	var cost uint64
	m.size = 0
	for i := range q.Clusters {
		cluster := q.Clusters[i]
		switch {
		case cost > m.collector.maxCost:
			rows = append(rows, evaluated{cluster.Name, m.collector.skipped(overCost)})
			continue
		case m.size > maxTable:
			rows = append(rows, evaluated{cluster.Name, m.collector.skipped(overSize)})
			continue
		}
		r, ok := m.rows[cluster.Name]
		if !ok || r.cluster.Version != cluster.Version || m.collector.usesInventory && !maps.Equal(r.cluster.Labels, cluster.Labels) {
			in := input{object: q.Object, cluster: &cluster, report: report(cluster.Name)}
			cluster.Version = in.report.Version // it may be newer than the question's
			r = cachedRow{cluster, m.collector.evaluate(in)}
			count++
		}
		current[cluster.Name] = r
		cost += r.row.cost
		m.size += r.row.bytes
		rows = append(rows, evaluated{cluster.Name, r.row})
	}
	m.rows = current
	return rows, count
}

// fit removes rows from the end of the largest tables until all results together have at most
// maxSize bytes.
func fit(results []controlv1alpha1.NamedStatusCombination, maxSize int) []controlv1alpha1.NamedStatusCombination {
	sizes := make([]int, len(results))
	sum := 0
	for i := range results {
		sizes[i] = sizeOf(results[i])
		sum += sizes[i]
	}
	removed := map[int]int64{}
	for sum > maxSize {
		largest := -1
		for i := range results {
			if len(results[i].Rows) > 0 && (largest < 0 || cmp.Compare(sizes[i], sizes[largest]) > 0) {
				largest = i
			}
		}
		if largest < 0 {
			break // names and errors are bounded
		}
		r := &results[largest]
		last := len(r.Rows) - 1
		size := sizeOf(r.Rows[last])
		r.Rows = r.Rows[:last]
		sizes[largest] -= size
		sum -= size
		removed[largest]++
	}
	for i, rows := range removed {
		results[i].OmittedRows += rows
		results[i].AggregationErrors = append(results[i].AggregationErrors, controlv1alpha1.AggregationError{
			Error: fmt.Sprintf("%s left out, because the results of one CombinedStatus can have at most %d KiB; select fewer columns or exclude clusters",
				text.Count(rows, "row is|rows are"), maxSize>>10),
		})
	}
	return results
}

func sizeOf(v any) int {
	encoded, err := json.Marshal(v)
	if err != nil {
		return 0 // strings, and JSON of our own encoder
	}
	return len(encoded) + 1
}
