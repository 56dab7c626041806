package combine

import (
	"fmt"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/expression"
)

// Report is what a cluster says of an object.
type Report struct {
	// Reported tells whether it says anything: that it does says that the object is there.
	Reported bool
	// Version changes with what is below. It is empty if nothing is reported.
	Version string
	// Status is the object's status in the cluster, nil if it has none. It is not changed.
	Status map[string]any
	// Updated is when the status last changed, zero if that is not known.
	Updated time.Time
}

// input is all that the expressions see.
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

// row is what the expressions of a Collector yielded for one cluster. It does not change.
type row struct {
	cost uint64
	// out: the filter leaves the cluster out. filterErr: it could not say.
	out       bool
	filterErr string
	cells     []cell
}

// cell is what the expression of one column yielded.
type cell struct {
	// err says why there is no value.
	err string
	// value is that of select or groupBy.
	value controlv1alpha1.Value
	// subject is that of an aggregate; skip tells that it is null, and notNumber why it is none.
	subject   number
	skip      bool
	notNumber string
}

// bytesPerCost is how many bytes of a value cost one unit.
const bytesPerCost = 10

// evaluate evaluates the expressions for one cluster.
func (c *Collector) evaluate(in input) *row {
	r := &row{}
	variables := in.variables()
	value := func(e *expression.Expression) (ref.Val, error) {
		v, cost, err := e.Evaluate(variables)
		r.cost += cost
		return v, err
	}
	if c.filter != nil {
		switch v, err := value(c.filter); {
		case err != nil:
			r.filterErr = err.Error()
		case v == types.False || v.Type() == types.NullType:
			r.out = true
			return r
		case v != types.True:
			r.filterErr = fmt.Sprintf("the filter must evaluate to true, false or null, evaluates to %s", v.Type().TypeName())
		}
		if r.filterErr != "" && c.aggregates {
			return r
		}
	}
	r.cells = make([]cell, len(c.columns))
	for i := range c.columns {
		of := &c.columns[i]
		if of.value == nil { // COUNT
			continue
		}
		v, err := value(of.value)
		switch {
		case err != nil:
			r.cells[i].err = err.Error()
		case of.kind == "":
			var size int
			if r.cells[i].value, size, err = valueOf(v); err != nil {
				r.cells[i].err = expression.OneLine(err.Error())
			}
			// It is remembered: counted as CEL counts a walk through a text.
			r.cost += uint64(size / bytesPerCost)
		default:
			r.cells[i] = subjectOf(v)
		}
	}
	return r
}

// unaffordable is the row of a cluster for which nothing is evaluated, since the others cost too much.
func (c *Collector) unaffordable() *row {
	const err = "not evaluated: the evaluations for the clusters before this one cost more than the limit for one StatusCollector and object"
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

// subjectOf reads what is to be aggregated.
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
	return cell{skip: true, notNumber: fmt.Sprintf("it is of type %s", v.Type().TypeName())}
}
