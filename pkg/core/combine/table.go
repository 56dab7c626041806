package combine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
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
	// Unknown is true if it is not known what the cluster reports, or what its labels are. Its row
	// stays as it was.
	Unknown bool
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
	// Stored is true if results were written before. If this Table has never had results, and
	// nothing is known of a cluster, its row in these results would be lost.
	Stored bool
	// Report returns the report of the cluster. It is called only for clusters whose rows are
	// evaluated.
	Report func(cluster string) Report
}

// Table caches the rows of one object and policy. The zero Table is empty. It must not be used
// concurrently.
type Table struct {
	caches map[string]*cache
	// answered is true once there were results, until Forget.
	answered bool
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
func (t *Table) Forget() { t.caches, t.answered = nil, false }

// Answer returns the results for the question, sorted by the name of the Collector, and the number
// of rows that it evaluated: the rows whose input changed since the last call. If the context ends
// before, the error is an *InterruptedError, and the results are not known. The rows that were
// evaluated are kept for the next call.
//
// The row of a cluster of which nothing is known stays as it was, and the results say so. If such a
// row is only in stored results, the error is ErrUnknown: the results stay as they are.
func (t *Table) Answer(ctx context.Context, q Question) (results []controlv1alpha1.NamedStatusCombination, count int, err error) {
	if q.Stored && !t.answered && slices.ContainsFunc(q.Clusters, func(c Cluster) bool { return c.Unknown }) {
		return nil, 0, ErrUnknown
	}
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
			before := m
			m = &cache{collector: c, objectVersion: q.ObjectVersion, rows: map[string]cachedRow{}}
			if before != nil && before.collector == c {
				m.keepUnknown(before, q.Clusters)
			}
			t.caches[name] = m
		}
		rows, evaluations, err := m.evaluate(ctx, &q, report)
		count += evaluations
		if err != nil {
			return nil, count, &InterruptedError{Collector: name, Cluster: q.Clusters[len(rows)].Name, Cause: err}
		}
		results = append(results, m.collector.combine(name, rows))
	}
	t.answered = true
	return fit(results, MaxSize), count, nil
}

// ErrUnknown says that nothing is known of a cluster whose row is in stored results.
var ErrUnknown = errors.New("the reports of a cluster are not known, and its row is only in the stored results")

// InterruptedError says that an evaluation was stopped because its context ended.
type InterruptedError struct {
	// Collector is the StatusCollector, and Cluster the cluster for which it was evaluated.
	Collector, Cluster string
	Cause              error
}

// Error implements error.
func (e *InterruptedError) Error() string {
	return fmt.Sprintf("evaluate StatusCollector %q for cluster %q: %v", e.Collector, e.Cluster, e.Cause)
}

// Unwrap returns the cause.
func (e *InterruptedError) Unwrap() error { return e.Cause }

// evaluate returns the rows of all clusters, and the number of rows that were evaluated because
// they were not cached. Clusters beyond the limits of cost and size have rows with errors. If the
// context ends, it returns the rows before that, and an error.
func (m *cache) evaluate(ctx context.Context, q *Question, report func(string) Report) (rows []evaluated, count int, err error) {
	rows = make([]evaluated, 0, len(q.Clusters))
	current := make(map[string]cachedRow, len(q.Clusters))
	var cost uint64
	m.size = 0
	for i := range q.Clusters {
		cluster := q.Clusters[i]
		switch {
		case cost > m.collector.maxCost:
			rows = append(rows, evaluated{cluster.Name, false, m.collector.skipped(overCost)})
			continue
		case m.size > maxTable:
			rows = append(rows, evaluated{cluster.Name, false, m.collector.skipped(overSize)})
			continue
		}
		r, ok := m.rows[cluster.Name]
		if cluster.Unknown {
			if !ok {
				r = cachedRow{Cluster{Name: cluster.Name, Version: neverKnown}, m.collector.skipped(unknownRow)}
			}
			current[cluster.Name] = r
			cost += r.row.cost
			m.size += r.row.bytes
			rows = append(rows, evaluated{cluster.Name, true, r.row})
			continue
		}
		if !ok || r.cluster.Version != cluster.Version || m.collector.usesInventory && !maps.Equal(r.cluster.Labels, cluster.Labels) {
			in := input{object: q.Object, cluster: &cluster, report: report(cluster.Name)}
			cluster.Version = in.report.Version // it may be newer than the question's
			evaluated, err := m.collector.evaluate(ctx, in)
			if err != nil {
				m.keep(current)
				return rows, count, err
			}
			r = cachedRow{cluster, evaluated}
			count++
		}
		current[cluster.Name] = r
		cost += r.row.cost
		m.size += r.row.bytes
		rows = append(rows, evaluated{cluster.Name, false, r.row})
	}
	m.rows = current
	return rows, count, nil
}

// neverKnown is the Version of the row of a cluster of which nothing was known so far: no report
// has it.
const neverKnown = "unknown"

// keepUnknown takes the rows of clusters of which nothing is known from an earlier version of the
// object: they cannot be evaluated again.
func (m *cache) keepUnknown(before *cache, clusters []Cluster) {
	for i := range clusters {
		if r, ok := before.rows[clusters[i].Name]; ok && clusters[i].Unknown {
			r.cluster.Version = neverKnown // evaluated when something is known
			m.rows[clusters[i].Name] = r
		}
	}
}

// keep adds rows to those that are cached.
func (m *cache) keep(rows map[string]cachedRow) {
	maps.Copy(m.rows, rows)
	m.size = 0
	for _, r := range m.rows {
		m.size += r.row.bytes
	}
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
