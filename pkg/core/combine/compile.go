package combine

import (
	"fmt"

	"github.com/google/cel-go/common/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/expression"
)

// DefaultLimit is the maximum number of rows for a StatusCollector without a limit.
const DefaultLimit = 20

// filterColumn is the column name of errors of the filter.
const filterColumn = "filter"

// Collector is a compiled StatusCollector. It is immutable, and safe for concurrent use.
type Collector struct {
	filter *expression.Expression
	// columns are the columns of select, or of groupBy followed by combinedFields. names are their
	// names.
	names   []string
	columns []column
	// groups is the number of columns of groupBy. aggregates is true if the other columns
	// aggregate.
	groups     int
	aggregates bool
	limit      int
	maxCost    uint64
	// usesObject and usesInventory are true if an expression may use obj or inventory.
	usesObject, usesInventory bool
}

// column is one column of a table.
type column struct {
	name string
	// kind is empty for a column of select or groupBy.
	kind controlv1alpha1.AggregatorType
	// value is nil for COUNT.
	value *expression.Expression
}

// UsesObject reports whether an expression may use obj.
func (c *Collector) UsesObject() bool { return c.usesObject }

// UsesInventory reports whether an expression may use inventory.
func (c *Collector) UsesInventory() bool { return c.usesInventory }

// Compile compiles the spec. It returns either a Collector, or the texts of all errors in the spec.
// It takes about a millisecond for each expression.
func Compile(spec *controlv1alpha1.StatusCollectorSpec) (*Collector, []string) {
	return compileWithin(spec, defaultLimits)
}

func compileWithin(spec *controlv1alpha1.StatusCollectorSpec, cost limits) (*Collector, []string) {
	c := &Collector{maxCost: cost.table, limit: int(min(spec.Limit, 1<<30)), aggregates: len(spec.CombinedFields) > 0, groups: len(spec.GroupBy)}
	if c.limit <= 0 {
		c.limit = DefaultLimit
	}
	envs, err := environments()
	if err != nil {
		return nil, []string{err.Error()}
	}
	var errs []string
	if len(spec.Select) > 0 && (len(spec.GroupBy) > 0 || len(spec.CombinedFields) > 0) {
		errs = append(errs, "groupBy and combinedFields must be empty if select is not")
	}
	if len(spec.GroupBy) > 0 && len(spec.CombinedFields) == 0 {
		errs = append(errs, "groupBy must be empty if combinedFields is")
	}
	compileOne := func(what string, text controlv1alpha1.Expression, must string, kinds ...types.Kind) *expression.Expression {
		e, err := expression.Compile(envs, string(text), cost.evaluation, must, kinds...)
		if err != nil {
			errs = append(errs, what+" invalid: "+expression.OneLine(err.Error()))
			return nil
		}
		c.usesObject, c.usesInventory = c.usesObject || e.Uses("obj"), c.usesInventory || e.Uses("inventory")
		return e
	}
	add := func(name string, kind controlv1alpha1.AggregatorType, value *expression.Expression) {
		c.names = append(c.names, name)
		c.columns = append(c.columns, column{name, kind, value})
	}
	if spec.Filter != nil {
		c.filter = compileOne("filter expression", *spec.Filter, "true, false or null", types.BoolKind)
	}
	for _, s := range spec.Select {
		add(s.Name, "", compileOne(fmt.Sprintf("select expression (%s)", s.Name), s.Def, ""))
	}
	for _, g := range spec.GroupBy {
		add(g.Name, "", compileOne(fmt.Sprintf("groupBy expression (%s)", g.Name), g.Def, ""))
	}
	for _, f := range spec.CombinedFields {
		what := fmt.Sprintf("combinedField expression (%s)", f.Name)
		var subject *expression.Expression
		switch f.Type {
		case controlv1alpha1.AggregatorCount:
			if f.Subject != nil {
				errs = append(errs, what+" invalid: subject must be nil for COUNT type")
			}
		case controlv1alpha1.AggregatorSum, controlv1alpha1.AggregatorAvg, controlv1alpha1.AggregatorMin, controlv1alpha1.AggregatorMax:
			if f.Subject == nil {
				errs = append(errs, what+" invalid: subject must be set")
				break
			}
			subject = compileOne(what+" subject", *f.Subject, "a number", types.IntKind, types.UintKind, types.DoubleKind, types.StringKind)
		default:
			errs = append(errs, fmt.Sprintf("%s invalid: type must be one of COUNT, SUM, AVG, MIN, MAX, is %q", what, f.Type))
		}
		add(f.Name, f.Type, subject)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return c, nil
}
