package combine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/expression"
)

// Report is what a cluster reports about an object.
type Report struct {
	// Reported is true if there is a report. The object exists in the cluster then.
	Reported bool
	// Version changes whenever Status or Updated changes. It is empty if there is no report.
	Version string
	// Status is the object's status in the cluster, nil if it has none. It is read only.
	Status map[string]any
	// Updated is the time of the last change of the status, zero if it is unknown.
	Updated time.Time
}

// input holds the variables of the expressions.
type input struct {
	object  map[string]any
	cluster *Cluster
	report  Report
}

func (in *input) variables() map[string]any {
	var status, updated any
	if in.report.Status != nil {
		status = in.report.Status
	}
	if in.report.Reported && !in.report.Updated.IsZero() {
		updated = in.report.Updated
	}
	labels := in.cluster.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	return map[string]any{
		"obj":         in.object,
		"returned":    map[string]any{"status": status},
		"inventory":   map[string]any{"name": in.cluster.Name, "labels": labels},
		"propagation": map[string]any{"lastReturnedUpdateTimestamp": updated},
	}
}

// row holds the results of the expressions of a Collector for one cluster. It is immutable.
type row struct {
	cost uint64
	// bytes is about what the row takes in memory.
	bytes int
	// excluded is true if the filter excludes the cluster. filterErr is the error of the filter.
	excluded  bool
	filterErr string
	cells     []cell
}

// cell is the result of the expression of one column.
type cell struct {
	// err is the reason why there is no value.
	err string
	// value is the value of select or groupBy.
	value controlv1alpha1.Value
	// subject is the subject of an aggregate. skip is true if it is null or not a number; notNumber
	// is the reason why it is not a number.
	subject   number
	skip      bool
	notNumber string
}

// Bounds of what rows take in memory, in bytes.
const (
	// maxRow is for the values of one row: a CombinedStatus cannot hold a larger one.
	maxRow = MaxSize
	// maxTable is for the rows of one Collector and object. It is more than a CombinedStatus can
	// hold, because rows are aggregated.
	maxTable = 8 << 20
	// perCell is what a cell takes without its value.
	perCell = 128
)

// bytesPerCost is the number of bytes of a value that cost one unit.
const bytesPerCost = 10

// evaluate evaluates the expressions for one cluster. If the context ends before, the error is an
// *expression.InterruptedError.
func (c *Collector) evaluate(ctx context.Context, in input) (*row, error) {
	r := &row{}
	variables := in.variables()
	var interrupted *expression.InterruptedError
	value := func(e *expression.Expression) (ref.Val, error) {
		v, cost, err := e.Evaluate(ctx, variables)
		r.cost += cost
		errors.As(err, &interrupted)
		return v, err
	}
	if c.filter != nil {
		switch v, err := value(c.filter); {
		case err != nil:
			r.filterErr = err.Error()
		case v == types.False || v.Type() == types.NullType:
			r.excluded = true
			return r, nil
		case v != types.True:
			r.filterErr = fmt.Sprintf("the filter must evaluate to true, false or null, evaluates to %s", v.Type().TypeName())
		}
		if interrupted != nil {
			return nil, interrupted
		}
		if r.filterErr != "" && c.aggregates {
			return r, nil
		}
	}
	r.cells = make([]cell, len(c.columns))
	r.bytes = perCell * len(c.columns)
	full := false
	for i := range c.columns {
		col := &c.columns[i]
		if col.value == nil { // COUNT
			continue
		}
		if full {
			r.cells[i].err = overRow
			continue
		}
		v, err := value(col.value)
		switch {
		case interrupted != nil:
			return nil, interrupted
		case err != nil:
			r.cells[i].err = err.Error()
		case col.kind == "":
			var size int
			if r.cells[i].value, size, err = valueOf(v); err != nil {
				r.cells[i].err = expression.OneLine(err.Error())
			}
			// The value is cached, so its size counts as well, as CEL counts reading a string.
			r.cost += uint64(size / bytesPerCost)
			if r.bytes += sizeOfValue(&r.cells[i].value); r.bytes > maxRow {
				r.bytes -= sizeOfValue(&r.cells[i].value)
				r.cells[i] = cell{err: overRow}
				full = true
			}
		default:
			r.cells[i] = subjectOf(v)
		}
	}
	return r, nil
}

// Reasons why an expression, or nothing of a cluster, is not evaluated.
const (
	overRow    = "the values of one row have more than 1 MiB; select fewer or smaller ones"
	overCost   = "not evaluated: the clusters before this one used up the cost limit for one StatusCollector and object; make the expressions cheaper"
	unknownRow = "not evaluated: the reports of this cluster are not known"
	overSize   = "not evaluated: the values of the clusters before this one have more than 8 MiB for one StatusCollector and object; select smaller ones"
)

// skipped returns the row of a cluster for which nothing is evaluated.
func (c *Collector) skipped(err string) *row {
	r := &row{cells: make([]cell, len(c.columns))}
	if c.aggregates {
		r.filterErr = err
		return r
	}
	for i := range r.cells {
		r.cells[i].err = err
	}
	return r
}

// subjectOf returns the cell of an aggregate.
func subjectOf(v ref.Val) cell {
	switch v := v.(type) {
	case types.Null:
		return cell{skip: true}
	case types.Int:
		return cell{subject: number{whole: true, i: int64(v)}}
	case types.Uint:
		if i := int64(v); i >= 0 {
			return cell{subject: number{whole: true, i: i}}
		}
		return cell{subject: number{f: float64(v)}}
	case types.Double:
		return cell{subject: number{f: float64(v)}}
	case types.String:
		n, err := parseNumber(string(v))
		if err != nil {
			return cell{skip: true, notNumber: expression.OneLine(err.Error())}
		}
		return cell{subject: n}
	}
	return cell{skip: true, notNumber: "the value has type " + v.Type().TypeName()}
}
