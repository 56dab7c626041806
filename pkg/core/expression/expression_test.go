package expression_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

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
		value, cost, err := e.Evaluate(t.Context(), in)
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
	if _, _, err := e.Evaluate(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "limit of 100") {
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
		"Added":       nested("[[1, 1]]", "[%s + %[1]s]", "%s.size() > 0 ? 'x' : 'y'"),
		"AddedTexts":  nested("[a.text]", "[%s + %[1]s]", "%s"),
		"AddedInLoop": nested("[a.n]", "[%s + %[1]s]", "%s.all(x, true) ? 'x' : 'y'"),
		"AsKey":       nested("[[1, 1]]", "[[%s, %[1]s]]", "{'a': 'b'}[dyn(%s)]"),
		"AsKeyOfMap":  nested("[[1, 1]]", "[[%s, %[1]s]]", "{dyn(%s): 'b'}.map(k, 'x').join()"),
		"InError":     nested("[[1, 1]]", "[[%s, %[1]s]]", "[{'a': 'b'}].map(m, m[dyn(%s)])"),
		"Joined":      nested("[[1, 1]]", "[[%s, %[1]s]]", "[dyn(%s)].join()"),
		"Less":        "a.n.all(x, a.text > 'a') ? 'x' : 'y'",
		"Length":      "a.n.all(x, a.text.size() > 0) ? 'x' : 'y'",
		"NotText":     "a.n.all(x, a.spec != 'a' + a.text) ? 'x' : 'y'",
		"EmptyLoops":  "lists.range(40000).filter(x, lists.range(40000).filter(y, false).size() > 0).size() > 0 ? 'x' : 'y'",
		"Quantity":    "quantity('1e999999999').isInteger() ? 'x' : 'y'",
		"Exponent":    "quantity('1E-999999999').add(quantity('1')).isInteger() ? 'x' : 'y'",
		"TextIndex":   "a.text.indexOf(a.text.substring(0, 40000) + 'y') > 0 ? 'x' : 'y'",
		"Precision":   "'" + strings.Repeat("%.999999f", 100) + "'.format([" + strings.Repeat("1.0, ", 99) + "1.0])",
		"Pattern":     "('y' + a.text).matches('(?:x?){1000}$y') ? 'x' : 'y'",
		"Patterns":    "a.n.all(x, !'y'.matches('(?:x?){1000}' + string(x))) ? 'x' : 'y'",
		"FindAll":     "('y' + a.text).findAll('(?:x?){1000}$y').size() > 0 ? 'x' : 'y'",
		"Flatten":     "a.n.map(x, a.n.map(y, b.list)).flatten(5).size() > 0 ? 'x' : 'y'",
	} {
		t.Run(name, func(t *testing.T) {
			value, cost, err := compiled(t, source, expression.EvaluationLimit).Evaluate(t.Context(), in)
			if err == nil || !strings.Contains(err.Error(), "limit of") {
				t.Errorf("%v, cost %d, error %v", value, cost, err)
			}
		})
	}
}

// nested returns 60 loops, each over what the step makes of the variable of the one before. The
// innermost evaluates the last expression.
func nested(first, step, last string) string {
	const depth = 60
	var b strings.Builder
	b.WriteString(first)
	for i := range depth {
		fmt.Fprintf(&b, ".map(v%d, ", i)
		if i < depth-1 {
			fmt.Fprintf(&b, step, fmt.Sprintf("v%d", i))
		}
	}
	fmt.Fprintf(&b, last, fmt.Sprintf("v%d", depth-1))
	return "dyn(" + b.String() + strings.Repeat(")", depth) + ".size() > 0 ? 'x' : 'y')"
}

// TestNoCompilationTakesLong: without the bounds, each of these takes minutes, or all memory.
func TestNoCompilationTakesLong(t *testing.T) {
	env, err := expression.Environment()
	if err != nil {
		t.Fatal(err)
	}
	for name, source := range map[string]string{
		"Doubled":   "optional.of(1)" + strings.Repeat(".optMap(x, x)", 60) + ".value()",
		"DoubledIn": "optional.of(1)" + strings.Repeat(".optFlatMap(x, optional.of(x))", 12) + ".value()",
		"Variables": "[" + strings.Repeat("[].map(x, x), ", 1200) + "[]]",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := expression.Compile([]*cel.Env{env}, source, expression.EvaluationLimit, ""); err == nil || !strings.HasPrefix(err.Error(), "too long: ") {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestSumsOfListsAreLists: what a sum contains, and how often, does not depend on how it was made.
func TestSumsOfListsAreLists(t *testing.T) {
	for source, want := range map[string]string{
		"(a + b).map(x, string(x)).join(',')":                                                  "1,2,3",
		"[a].map(x, x + x)[0].map(x, string(x)).join(',')":                                     "1,2,1,2",
		"a + b == [1, 2, 3] && b + a != a + b && 3 in a + b && (a + b)[2] == 3 ? 'yes' : 'no'": "yes",
		"string((a + []).size() + ([] + a).size() + (dyn(a) + dyn(b)).size())":                 "7",
		"(a + b).filter(x, x > 1).map(x, string(x)).join(',')":                                 "2,3",
	} {
		value, _, err := compiled(t, source, expression.EvaluationLimit).Evaluate(t.Context(), map[string]any{"a": []any{int64(1), int64(2)}, "b": []any{int64(3)}})
		if err != nil || value.Value() != want {
			t.Errorf("%s: %v, %v, want %s", source, value, err, want)
		}
	}
}

// TestEvaluationEndsWithItsContext: however cheap it is by its cost.
func TestEvaluationEndsWithItsContext(t *testing.T) {
	loops := strings.Repeat("lists.range(100).all(x, ", 8) + "true" + strings.Repeat(")", 8) + " ? 'x' : 'y'"
	e := compiled(t, loops, 1<<50)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	var interrupted *expression.InterruptedError
	if value, _, err := e.Evaluate(ctx, nil); !errors.As(err, &interrupted) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", value, err)
	}
	if value, cost, err := e.Evaluate(ctx, nil); !errors.As(err, &interrupted) || cost > 0 {
		t.Errorf("%v, cost %d, %v", value, cost, err)
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
		if value, cost, err := compiled(t, source, 10*expression.EvaluationLimit).Evaluate(t.Context(), in); err != nil || cost > most {
			t.Errorf("%s: %v, cost %d, want at most %d: %v", source, value, cost, most, err)
		}
	}
}
