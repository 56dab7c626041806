package combine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/text"
)

// evaluated is a row with the name of its cluster.
type evaluated struct {
	cluster string
	// unknown is true if the row is the last one that was known.
	unknown bool
	*row
}

// combine returns the table of the rows, which are sorted by cluster.
func (c *Collector) combine(name string, rows []evaluated) controlv1alpha1.NamedStatusCombination {
	table := controlv1alpha1.NamedStatusCombination{Name: name, ColumnNames: slices.Clone(c.names)}
	if table.ColumnNames == nil {
		table.ColumnNames = []string{}
	}
	table.RowErrors = unknownClusters(rows)
	rows = slices.DeleteFunc(slices.Clone(rows), func(r evaluated) bool { return r.excluded })
	table.RowErrors = append(table.RowErrors, c.rowErrors(rows)...)
	if c.aggregates {
		c.aggregate(&table, rows)
	} else {
		c.selectFrom(&table, rows)
	}
	if more := len(table.Rows) - c.limit; more > 0 {
		table.Rows, table.OmittedRows = table.Rows[:c.limit:c.limit], int64(more)
	}
	return table
}

// unknownClusters returns an error without a column if some rows are only the last ones that were
// known. It names the first cluster, also if the filter excluded it.
func unknownClusters(rows []evaluated) []controlv1alpha1.RowError {
	var names []string
	for _, r := range rows {
		if r.unknown {
			names = append(names, r.cluster)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []controlv1alpha1.RowError{{
		WEC:   controlv1alpha1.Destination{ClusterID: names[0]},
		Error: withMore("the reports of this cluster are not known; its part is as it was last known", len(names)-1),
	}}
}

// rowErrors returns, for each column with errors, the first cluster with an error and the number of
// further ones.
func (c *Collector) rowErrors(rows []evaluated) []controlv1alpha1.RowError {
	var errs []controlv1alpha1.RowError
	add := func(column string, errOf func(*row) string) {
		first, more := -1, 0
		for i := range rows {
			switch {
			case errOf(rows[i].row) == "":
			case first < 0:
				first = i
			default:
				more++
			}
		}
		if first >= 0 {
			errs = append(errs, controlv1alpha1.RowError{
				WEC:        controlv1alpha1.Destination{ClusterID: rows[first].cluster},
				ColumnName: column,
				Error:      withMore(errOf(rows[first].row), more),
			})
		}
	}
	add(filterColumn, func(r *row) string { return r.filterErr })
	for i, name := range c.names {
		add(name, func(r *row) string {
			if r.cells == nil {
				return ""
			}
			return r.cells[i].err
		})
	}
	return errs
}

// withMore appends the number of further clusters with the same error.
func withMore(message string, clusters int) string {
	if clusters == 0 {
		return message
	}
	return message + " (and " + text.Count(clusters, "more cluster") + ")"
}

// selectFrom adds a row for each cluster.
func (c *Collector) selectFrom(table *controlv1alpha1.NamedStatusCombination, rows []evaluated) {
	for _, r := range rows {
		columns := make([]controlv1alpha1.Value, len(r.cells))
		for i := range r.cells {
			columns[i] = r.cells[i].value
			if r.cells[i].err != "" {
				columns[i] = textOf(r.cells[i].err)
			}
		}
		table.Rows = append(table.Rows, controlv1alpha1.StatusCombinationRow{Columns: columns})
	}
}

// group holds the clusters that are aggregated into one row.
type group struct {
	values []controlv1alpha1.Value
	rows   []evaluated
}

// aggregate adds a row for each group. Clusters with errors are excluded.
func (c *Collector) aggregate(table *controlv1alpha1.NamedStatusCombination, rows []evaluated) {
	groups := map[string]*group{}
	if c.groups == 0 {
		groups[""] = &group{} // one row, even without clusters
	}
	for _, r := range rows {
		if r.filterErr != "" || slices.ContainsFunc(r.cells, func(cell cell) bool { return cell.err != "" }) {
			continue
		}
		var key strings.Builder
		values := make([]controlv1alpha1.Value, c.groups)
		for i := range values {
			values[i] = r.cells[i].value
			part := keyOf(&values[i])
			fmt.Fprintf(&key, "%d:%s", len(part), part) // with lengths, so that different lists have different keys
		}
		g := groups[key.String()]
		if g == nil {
			g = &group{values: values}
			groups[key.String()] = g
		}
		g.rows = append(g.rows, r)
	}
	sorted := slices.SortedFunc(maps.Values(groups), func(a, b *group) int {
		for i := range a.values {
			if order := compareValues(&a.values[i], &b.values[i]); order != 0 {
				return order
			}
		}
		return 0
	})
	for _, g := range sorted {
		columns := g.values
		for i := c.groups; i < len(c.columns); i++ {
			columns = append(columns, c.columns[i].aggregate(g.rows, i))
		}
		table.Rows = append(table.Rows, controlv1alpha1.StatusCombinationRow{Columns: columns})
	}
	table.AggregationErrors = c.aggregationErrors(sorted)
}

// aggregationErrors returns, for each column, the first cluster whose subject is not a number with
// the number of further ones, and averages of groups without clusters.
func (c *Collector) aggregationErrors(groups []*group) []controlv1alpha1.AggregationError {
	var errs []controlv1alpha1.AggregationError
	for i := c.groups; i < len(c.columns); i++ {
		col := &c.columns[i]
		var notNumbers []evaluated
		for _, g := range groups {
			for _, r := range g.rows {
				if r.cells[i].notNumber != "" {
					notNumbers = append(notNumbers, r)
				}
			}
			if col.kind == controlv1alpha1.AggregatorAvg && len(g.rows) == 0 {
				errs = append(errs, controlv1alpha1.AggregationError{ColumnName: col.name, Error: "no values to average"})
			}
		}
		if len(notNumbers) > 0 {
			first := slices.MinFunc(notNumbers, func(a, b evaluated) int { return cmp.Compare(a.cluster, b.cluster) })
			errs = append(errs, controlv1alpha1.AggregationError{
				ColumnName: col.name,
				Error: withMore(fmt.Sprintf("for WEC %s, failed to parse combinedField subject as a float: %s",
					first.cluster, first.cells[i].notNumber), len(notNumbers)-1),
			})
		}
	}
	return errs
}

// aggregate returns the aggregate of the rows for the column, whose index is i.
func (col *column) aggregate(rows []evaluated, i int) controlv1alpha1.Value {
	if col.kind == controlv1alpha1.AggregatorCount {
		return numberValue(number{whole: true, i: int64(len(rows))})
	}
	sum := number{whole: true}
	var least, most *number
	for _, r := range rows {
		if r.cells[i].skip {
			continue
		}
		n := &r.cells[i].subject
		sum = sum.plus(*n)
		if least == nil || compareNumbers(*n, *least) < 0 {
			least = n
		}
		if most == nil || compareNumbers(*n, *most) > 0 {
			most = n
		}
	}
	switch col.kind {
	case controlv1alpha1.AggregatorMin:
		if least == nil {
			return numberValueOf("+Inf")
		}
		return numberValue(*least)
	case controlv1alpha1.AggregatorMax:
		if most == nil {
			return numberValueOf("-Inf")
		}
		return numberValue(*most)
	case controlv1alpha1.AggregatorAvg:
		if len(rows) == 0 {
			return numberValueOf("NaN")
		}
		average := number{f: sum.float() / float64(len(rows))}
		if count := int64(len(rows)); sum.whole && sum.i%count == 0 {
			average = number{whole: true, i: sum.i / count}
		}
		return numberValue(average)
	default:
		return numberValue(sum)
	}
}
