package monitoring

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"k8s.io/apimachinery/pkg/util/sets"
)

// ofTargets are the labels that Prometheus adds to all metrics.
var ofTargets = []string{"container", "endpoint", "instance", "job", "namespace", "pod", "service"}

// check returns an error if a metric or a label of an expression does not exist. Otherwise it
// returns the labels of the result, sorted.
func check(metrics map[string]metric, text string) ([]string, error) {
	expr, err := parser.ParseExpr(text)
	if err != nil {
		return nil, err
	}
	result, err := resultLabels(metrics, expr)
	return sets.List(result), err
}

// resultLabels returns the labels of the result of an expression, all of whose parts it checks.
func resultLabels(metrics map[string]metric, expr parser.Expr) (sets.Set[string], error) {
	switch e := expr.(type) {
	case *parser.VectorSelector:
		return labelsOf(metrics, e)
	case *parser.MatrixSelector:
		return resultLabels(metrics, e.VectorSelector)
	case *parser.SubqueryExpr:
		return resultLabels(metrics, e.Expr)
	case *parser.ParenExpr:
		return resultLabels(metrics, e.Expr)
	case *parser.UnaryExpr:
		return resultLabels(metrics, e.Expr)
	case *parser.NumberLiteral, *parser.StringLiteral:
		return nil, nil
	case *parser.Call:
		return ofCall(metrics, e)
	case *parser.AggregateExpr:
		return ofAggregation(metrics, e)
	case *parser.BinaryExpr:
		return ofBinary(metrics, e)
	}
	return nil, fmt.Errorf("%T is not known to this test", expr)
}

func labelsOf(metrics map[string]metric, e *parser.VectorSelector) (sets.Set[string], error) {
	found, ok := metrics[e.Name]
	have := sets.New(ofTargets...)
	if ok && found.Type == "histogram" {
		return nil, fmt.Errorf("%q is a histogram: use its _bucket, _count or _sum", e.Name)
	}
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		if base, has := strings.CutSuffix(e.Name, suffix); has && !ok && metrics[base].Type == "histogram" {
			found, ok = metrics[base], true
			if suffix == "_bucket" {
				have.Insert("le")
			}
		}
	}
	if !ok {
		return nil, fmt.Errorf("no metric %q", e.Name)
	}
	have.Insert(found.Labels...)
	for _, m := range e.LabelMatchers {
		if m.Name != labels.MetricName && !have.Has(m.Name) {
			return nil, fmt.Errorf("%s has no label %q", e.Name, m.Name)
		}
	}
	return have, nil
}

func ofCall(metrics map[string]metric, e *parser.Call) (sets.Set[string], error) {
	var result sets.Set[string]
	for _, arg := range e.Args {
		of, err := resultLabels(metrics, arg)
		if err != nil {
			return nil, err
		}
		if of != nil {
			result = of
		}
	}
	if e.Func.Name == "histogram_quantile" {
		if !result.Has("le") {
			return nil, fmt.Errorf("there is no label %q in %s", "le", e)
		}
		result = result.Difference(sets.New("le"))
	}
	return result, nil
}

func ofAggregation(metrics map[string]metric, e *parser.AggregateExpr) (sets.Set[string], error) {
	below, err := resultLabels(metrics, e.Expr)
	if err != nil {
		return nil, err
	}
	if err := haveAll(below, e.Grouping, e); err != nil {
		return nil, err
	}
	switch {
	case e.Op == parser.TOPK || e.Op == parser.BOTTOMK:
		return below, nil
	case e.Without:
		return below.Difference(sets.New(e.Grouping...)), nil
	}
	return sets.New(e.Grouping...), nil
}

func ofBinary(metrics map[string]metric, e *parser.BinaryExpr) (sets.Set[string], error) {
	left, err := resultLabels(metrics, e.LHS)
	if err != nil {
		return nil, err
	}
	right, err := resultLabels(metrics, e.RHS)
	if err != nil {
		return nil, err
	}
	if m := e.VectorMatching; m != nil && len(m.MatchingLabels) > 0 {
		for _, side := range []sets.Set[string]{left, right} {
			if err := haveAll(side, m.MatchingLabels, e); err != nil {
				return nil, err
			}
		}
	}
	if left == nil {
		return right, nil
	}
	return left, nil
}

func haveAll(have sets.Set[string], want []string, expr parser.Expr) error {
	for _, label := range slices.Sorted(slices.Values(want)) {
		if !have.Has(label) {
			return fmt.Errorf("there is no label %q in %s", label, expr)
		}
	}
	return nil
}
