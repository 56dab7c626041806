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

func TestSameInputYieldsTheSame(t *testing.T) {
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
