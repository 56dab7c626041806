package combine

import (
	"fmt"

	"github.com/google/cel-go/common/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/expression"
)

// DefaultLimit is how many rows a StatusCollector that does not say has at most.
const DefaultLimit = 20

// filterColumn is what errors of the filter are said to be of.
const filterColumn = "filter"

// Collector is a StatusCollector, understood. It does not change, and is safe for concurrent use.
type Collector struct {
	filter *expression.Expression
	// columns are those of select, or of groupBy and then of the aggregates; names are all their names.
	names   []string
	columns []column
	// groups is how many of the columns are of groupBy; aggregates tells whether the rest aggregate.
	groups     int
	aggregates bool
	limit      int
	maxCost    uint64
	// object and inventory tell whether an expression may look at them.
	object, inventory bool
}

// column is one column of a table.
type column struct {
	name string
	// kind is empty for a column of values.
	kind controlv1alpha1.AggregatorType
	// value is nil with COUNT.
	value *expression.Expression
}

// UsesObject tells whether an expression looks at obj.
func (c *Collector) UsesObject() bool { return c.object }

// UsesInventory tells whether an expression looks at inventory.
func (c *Collector) UsesInventory() bool { return c.inventory }

// Compile understands the spec, or says all that is wrong with it. With an error there is no Collector. It costs about a
// millisecond for each expression.
func Compile(spec *controlv1alpha1.StatusCollectorSpec) (*Collector, []string) {
	return compileWithin(spec, defaultLimits)
}

func compileWithin(spec *controlv1alpha1.StatusCollectorSpec, cost limits) (*Collector, []string) {
	c := &Collector{maxCost: cost.table, limit: int(min(spec.Limit, 1<<30)), aggregates: len(spec.CombinedFields) > 0, groups: len(spec.GroupBy)}
	if c.limit <= 0 {
		c.limit = DefaultLimit
	}
	var errs []string
	if len(spec.Select) > 0 && (len(spec.GroupBy) > 0 || len(spec.CombinedFields) > 0) {
		errs = append(errs, "groupBy and combinedFields must be empty if select is not")
	}
	if len(spec.GroupBy) > 0 && len(spec.CombinedFields) == 0 {
		errs = append(errs, "groupBy must be empty if combinedFields is")
	}
	understand := func(what string, text controlv1alpha1.Expression, must string, kinds ...types.Kind) *expression.Expression {
		e, err := compile(string(text), cost.evaluation, must, kinds...)
		if err != nil {
			errs = append(errs, what+" invalid: "+expression.OneLine(err.Error()))
			return nil
		}
		c.object, c.inventory = c.object || e.Uses("obj"), c.inventory || e.Uses("inventory")
		return e
	}
	add := func(name string, kind controlv1alpha1.AggregatorType, value *expression.Expression) {
		c.names = append(c.names, name)
		c.columns = append(c.columns, column{name, kind, value})
	}
	if spec.Filter != nil {
		c.filter = understand("filter expression", *spec.Filter, "true, false or null", types.BoolKind)
	}
	for _, s := range spec.Select {
		add(s.Name, "", understand(fmt.Sprintf("select expression (%s)", s.Name), s.Def, ""))
	}
	for _, g := range spec.GroupBy {
		add(g.Name, "", understand(fmt.Sprintf("groupBy expression (%s)", g.Name), g.Def, ""))
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
			subject = understand(what+" subject", *f.Subject, "a number", types.IntKind, types.UintKind, types.DoubleKind, types.StringKind)
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
