package expression_test

import (
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/starlinghq/starling/pkg/core/expression"
)

func compiled(tb testing.TB, text string, limit uint64) *expression.Expression {
	tb.Helper()
	env, err := expression.Environment(cel.Variable("a", cel.DynType), cel.Variable("b", cel.DynType))
	if err != nil {
		tb.Fatal(err)
	}
	e, err := expression.Compile([]*cel.Env{env}, text, limit, "a string", types.StringKind)
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

func TestEvaluationIsDeterministic(t *testing.T) {
	e := compiled(t, "a.map(k, k).join(',')", expression.EvaluationLimit)
	in := map[string]any{"a": map[string]any{"z": "", "y": "", "x": "", "w": "", "v": "", "u": ""}}
	for range 50 {
		value, cost, err := e.Evaluate(in)
		if err != nil || value.Value() != "u,v,w,x,y,z" || cost == 0 {
			t.Fatalf("%v, cost %d, %v", value, cost, err)
		}
	}
	if !e.Uses("a") || e.Uses("b") {
		t.Errorf("uses a: %t, b: %t", e.Uses("a"), e.Uses("b"))
	}
}

func TestCostIsLimited(t *testing.T) {
	e := compiled(t, "[1,2,3,4,5,6,7,8,9].map(x, [1,2,3,4,5,6,7,8,9].map(y, x * y)).size() > 0 ? 'a' : 'b'", 100)
	if _, _, err := e.Evaluate(nil); err == nil || !strings.Contains(err.Error(), "limit of 100") {
		t.Errorf("%v", err)
	}
}

// large returns an object of about n bytes, half of it in one text and half in small values.
func large(n int) map[string]any {
	list := make([]any, n/16)
	for i := range list {
		list[i] = map[string]any{"name": "12345678"}
	}
	return map[string]any{"list": list, "text": strings.Repeat("x", n/2)}
}

// TestReadingCosts: functions that read whole values cost by all that is in these, and what one
// call reads is bounded. Without that, each of these takes from tens of seconds to days, or all
// memory.
func TestReadingCosts(t *testing.T) {
	in := map[string]any{"a": map[string]any{"spec": large(400 << 10), "n": make([]any, 1000), "text": strings.Repeat("x", 400<<10)}, "b": large(400 << 10)}
	for i := range 1000 {
		in["a"].(map[string]any)["n"].([]any)[i] = int64(i)
	}
	for name, source := range map[string]string{
		"Equal":       "a.n.all(x, a.spec == a.spec) ? 'x' : 'y'",
		"EqualToCopy": "a.n.all(x, a.spec == b) ? 'x' : 'y'",
		"NotEqual":    "a.n.all(x, !(a.spec != a['spec'])) ? 'x' : 'y'",
		"Conditional": "a.n.all(x, (x < 5 ? a.spec : b) == b) ? 'x' : 'y'",
		"In":          "a.n.all(x, a.spec in [b, b, b]) ? 'x' : 'y'",
		"IndexOf":     "a.n.all(x, [b, b].indexOf(a.spec) == 0) ? 'x' : 'y'",
		"Format":      "a.n.all(x, '%s'.format([a.spec]).size() > 0) ? 'x' : 'y'",
		"Sets":        "sets.contains(a.spec.list, a.spec.list) ? 'x' : 'y'",
		"SetsInLoop":  "a.n.all(x, sets.contains([a.spec], [b])) ? 'x' : 'y'",
		"Distinct":    "a.spec.list.distinct().size() > 0 ? 'x' : 'y'",
		"Repeated":    "[1].map(x, a.n.map(y, b)).map(x, a.n.map(y, x)).map(x, a.n.map(y, x)) == [b] ? 'x' : 'y'",
		"RepeatedIn":  "a.n.map(y, a.n) in [a.n.map(y, a.n).map(z, a.n)] ? 'x' : 'y'",
		"Replace":     "a.text.replace('x', a.text)",
		"Join":        "a.n.map(x, 'x').join(a.text)",
		"Range":       "lists.range(100000000).size() > 0 ? 'x' : 'y'",
		"Flatten":     "a.n.map(x, a.n.map(y, b.list)).flatten(5).size() > 0 ? 'x' : 'y'",
	} {
		t.Run(name, func(t *testing.T) {
			value, cost, err := compiled(t, source, expression.EvaluationLimit).Evaluate(in)
			if err == nil || !strings.Contains(err.Error(), "limit of") {
				t.Errorf("%v, cost %d, error %v", value, cost, err)
			}
		})
	}
}

// TestReadingCostsLittle: what is cheap stays possible with large objects.
func TestReadingCostsLittle(t *testing.T) {
	in := map[string]any{"a": map[string]any{"spec": large(200 << 10), "n": []any{"x", "y"}}, "b": large(200 << 10)}
	for source, most := range map[string]uint64{
		"a.spec == b ? 'x' : 'y'":                           45_000,
		"a.spec.list.size() == b.list.size() ? 'x' : 'y'":   20,
		"'x' in a.n ? 'x' : 'y'":                            10,
		"a.spec.list.all(e, e.name != 'z') ? 'x' : 'y'":     200_000,
		"a.?missing == optional.none() ? 'x' : 'y'":         10,
		"a.n == ['x', 'y'] ? 'x' : 'y'":                     20,
		"sets.contains(a.n, ['x']) ? 'x' : 'y'":             20,
		"'%s-%s'.format([a.n[0], a.n[1]]).replace('-', '')": 40,
	} {
		if value, cost, err := compiled(t, source, 10*expression.EvaluationLimit).Evaluate(in); err != nil || cost > most {
			t.Errorf("%s: %v, cost %d, want at most %d: %v", source, value, cost, most, err)
		}
	}
}
