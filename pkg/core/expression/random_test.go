package expression_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/cel"

	"github.com/starlinghq/starling/pkg/core/expression"
)

// generator makes random expressions of values of several kinds. Each has at most left steps.
type generator struct {
	*rand.Rand
	left, variable int
	// loops are the variables of the loops around, by their kinds.
	loops map[string][]string
}

// grammar has, for each kind, ways to make one of others. {list} is any expression of that kind;
// {each:text:bool} is a loop: a new variable of the first kind, and an expression of the second one
// with it.
var grammar = map[string][]string{
	"list": {
		"{list} + {list}", "[{any}, {any}]", "[{list}, {list}]", "{list}.map({each:any:any})", "{list}.filter({each:any:bool})", "[{list}].map({each:list:list})",
		"{list}.flatten()", "{list}.distinct()", "{list}.reverse()", "lists.range({int})", "{text}.split({text})", "[{list} + {list}].map({each:list:list})",
		"{map}.map({each:text:any})", "{bool} ? {list} : {list}", "{text}.findAll({text})", "{list}.slice(0, 1)", "[{list}, {list}].flatten(2)",
		"{list}.transformList(i, {each:any:any})",
	},
	"text": {
		"{text} + {text}", "string({int})", "[{text}, {text}].join({text})", "{text}.replace({text}, {text})", "'%s %s'.format([{any}, {list}])", "{text}.substring(0, 1)",
		"{bool} ? {text} : {text}", "[{text}].map({each:text:text})[0]", "{text}.lowerAscii()", "strings.quote({text})", "[{text} + {text}].map({each:text:text})[0]",
	},
	"int": {"{int} + {int}", "size({list})", "size({text})", "{list}.indexOf({any})", "{text}.indexOf({text})", "{map}.size()", "[{int}, {int}].max()", "{int} * {int}"},
	"bool": {
		"{any} == {any}", "{list} == {list}", "{list} != {list}", "{any} in {list}", "{list}.all({each:any:bool})", "{list}.exists({each:any:bool})", "{text} < {text}",
		"sets.contains({list}, {list})", "{text}.matches({text})", "{text}.contains({text})", "{bool} && {bool}", "!{bool}", "{map} == {map}", "{list}.exists_one({each:any:bool})",
		"quantity({text}).isInteger()", "has({map}.x)",
	},
	"map": {"{'x': {any}, 'y': {any}}", "{'x': {list}, 'y': {list}}", "{dyn({any}): {any}}", "{map}.transformMap(k, {each:any:any})", "{bool} ? {map} : {map}"},
	"any": {"{list}", "{text}", "{int}", "{bool}", "{map}", "{map}.x", "{list}[{int}]", "{map}[?{text}].orValue({any})", "{list}[0]", "{map}[{any}]"},
}

var leaves = map[string][]string{
	"list": {"a", "[1, 1]", "['x']", "[]"}, "text": {"b", "'x'", "''", "'(x?){99}'", "'1e9'"}, "int": {"1", "7", "100000"}, "bool": {"true", "false"},
	"map": {"c", "{}", "{'x': 1}"}, "any": {"a", "b", "1", "c"},
}

func (g *generator) make(kind string) string {
	g.left--
	if vars := g.loops[kind]; len(vars) > 0 && g.IntN(2) == 0 {
		return "dyn(" + vars[g.IntN(len(vars))] + ")"
	}
	if g.left <= 0 || g.IntN(8) == 0 {
		return "dyn(" + leaves[kind][g.IntN(len(leaves[kind]))] + ")"
	}
	var b strings.Builder
	rest := grammar[kind][g.IntN(len(grammar[kind]))]
	for {
		before, after, found := strings.Cut(rest, "{")
		b.WriteString(before)
		if !found {
			break
		}
		name, behind, _ := strings.Cut(after, "}")
		switch parts := strings.Split(name, ":"); {
		case parts[0] == "each" && len(parts) == 3:
			g.variable++
			v := fmt.Sprintf("v%d", g.variable)
			g.loops[parts[1]] = append(g.loops[parts[1]], v)
			fmt.Fprintf(&b, "%s, %s", v, g.make(parts[2]))
			g.loops[parts[1]] = g.loops[parts[1]][:len(g.loops[parts[1]])-1]
			rest = behind
		case grammar[name] != nil:
			b.WriteString(g.make(name))
			rest = behind
		default: // a map
			b.WriteString("{")
			rest = after
		}
	}
	return "dyn(" + b.String() + ")"
}

// TestRandomExpressionsEnd: the cost limit ends every evaluation, with a bounded amount of memory.
// A wall clock would have to end it only if the limit did not.
func TestRandomExpressionsEnd(t *testing.T) {
	env, err := expression.Environment(cel.Variable("a", cel.ListType(cel.DynType)), cel.Variable("b", cel.StringType), cel.Variable("c", cel.MapType(cel.StringType, cel.DynType)))
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]any{"a": large(100 << 10)["list"], "b": strings.Repeat("xy", 50<<10), "c": large(100 << 10)}
	const (
		rounds = 200
		steps  = 60
		memory = 512 << 20
		end    = time.Minute
	)
	seed := rand.Uint64()
	compiled, values, limited := 0, 0, 0
	for i := range rounds {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, uint64(i))), left: steps, loops: map[string][]string{}}
		source := g.make([]string{"list", "text", "bool", "any"}[g.IntN(4)])
		e, err := expression.Compile([]*cel.Env{env}, source, expression.EvaluationLimit, "")
		if err != nil {
			continue
		}
		compiled++
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		ctx, cancel := context.WithTimeout(t.Context(), end)
		_, cost, err := e.Evaluate(ctx, in)
		cancel()
		runtime.ReadMemStats(&after)
		var interrupted *expression.InterruptedError
		switch {
		case errors.As(err, &interrupted):
			t.Errorf("seed %d: costs only %d in %v: %s", seed, cost, end, source)
		case err == nil:
			values++
		case strings.Contains(err.Error(), "costs more than"):
			limited++
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > memory {
			t.Errorf("seed %d: allocates %d MiB: %s", seed, used>>20, source)
		}
	}
	t.Logf("%d of %d compiled, %d had a value, %d reached the limit", compiled, rounds, values, limited)
	if values < rounds/10 || limited < rounds/100 {
		t.Errorf("seed %d: the expressions are too similar", seed)
	}
}
