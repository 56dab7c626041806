package expression

import (
	"fmt"
	"math"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiserver/pkg/cel/library"
)

// CEL counts the cost of a call after it, and by the number of entries of a list or map, not by
// what is in them: to compare two whole objects costs 1. Also, a list that contains a list many
// times takes no memory, but comparing it takes long, and no loop is interrupted in it. So
// functions that read all of a value cost by its deep size, and the sizes of their arguments are
// bounded before the call. Both depend on nothing but the values, so that the results do not depend
// on time.

// perSize is the cost of reading one unit of deep size: what CEL counts for one character.
const perSize = 0.1

// Limits on the deep sizes of arguments.
const (
	// mostRead is what can be read for the cost of a whole evaluation.
	mostRead = int(float64(EvaluationLimit) / perSize)
	// mostCompared is for functions that compare each item with each one.
	mostCompared = 2000
	// mostRepeated is for texts that a function inserts many times.
	mostRepeated = 256
	// mostCounted is for the length of a list that a function makes.
	mostCounted = int(EvaluationLimit)
)

// reader says how a function reads its arguments.
type reader struct {
	// most are the limits of the deep sizes of the arguments, the receiver first. The last one is
	// that of all further arguments.
	most []int
	// cost returns the size that is read, from the deep sizes of the arguments; nil for their sum.
	cost func(sizes []int, args []ref.Val) float64
}

// readers are the functions that read whole values and whose cost CEL and Kubernetes count too low.
var readers = map[string]reader{
	"_==_": {most: []int{mostRead}, cost: least},
	"_!=_": {most: []int{mostRead}, cost: least},
	"@in":  {most: []int{mostRead}, cost: func(sizes []int, args []ref.Val) float64 { return comparing(sizes[0], sizes[1], args[1]) }},

	"indexOf":     {most: []int{mostRead}, cost: func(sizes []int, args []ref.Val) float64 { return comparing(sizes[1], sizes[0], args[0]) }},
	"lastIndexOf": {most: []int{mostRead}, cost: func(sizes []int, args []ref.Val) float64 { return comparing(sizes[1], sizes[0], args[0]) }},

	"format": {most: []int{mostRead}}, "flatten": {most: []int{mostRead}}, "sort": {most: []int{mostRead}}, "@sortByAssociatedKeys": {most: []int{mostRead}},
	"reverse": {most: []int{mostRead}}, "slice": {most: []int{mostRead}}, "charAt": {most: []int{mostRead}}, "strings.quote": {most: []int{mostRead}},

	"sets.contains": {most: []int{mostCompared}, cost: product}, "sets.equivalent": {most: []int{mostCompared}, cost: product},
	"sets.intersects": {most: []int{mostCompared}, cost: product},
	"distinct":        {most: []int{mostCompared}, cost: func(sizes []int, _ []ref.Val) float64 { return float64(sizes[0]) * float64(sizes[0]) }},

	"replace": {most: []int{mostRead, mostRead, mostRepeated}}, "join": {most: []int{mostRead, mostRepeated}},
	"lists.range": {most: []int{mostCounted}},
}

// setsOverloads are the functions whose cost CEL's library counts itself.
var setsOverloads = []string{"list_sets_contains_list", "list_sets_equivalent_list", "list_sets_intersects_list"}

func least(sizes []int, _ []ref.Val) float64 { return float64(min(sizes[0], sizes[1])) }

func product(sizes []int, _ []ref.Val) float64 { return float64(sizes[0]) * float64(sizes[1]) }

// comparing is what is read when an item is compared with each item of a list.
func comparing(item, list int, of ref.Val) float64 {
	if sized, ok := of.(traits.Sizer); ok {
		if n, ok := sized.Size().(types.Int); ok {
			return math.Min(float64(list), float64(item)*float64(n))
		}
	}
	return float64(list)
}

// programOptions make a program of the AST count and bound what functions read.
func programOptions(checked *cel.Ast) []cel.ProgramOption {
	most := map[int64]int{}
	ast.PostOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind {
			return
		}
		call := e.AsCall()
		r, ok := readers[call.FunctionName()]
		if !ok {
			return
		}
		args := call.Args()
		if call.IsMemberFunction() {
			args = append([]ast.Expr{call.Target()}, args...)
		}
		for i, arg := range args {
			limit(most, arg, r.most[min(i, len(r.most)-1)])
		}
	}))
	var costs []interpreter.CostTrackerOption
	for _, id := range setsOverloads {
		costs = append(costs, interpreter.OverloadCostTracker(id, func(args []ref.Val, _ ref.Val) *uint64 { return costOf(readers["sets.contains"], args) }))
	}
	return []cel.ProgramOption{
		cel.CostTracking(estimator{}), cel.CostTrackerOptions(costs...),
		cel.CustomDecorator(func(i interpreter.Interpretable) (interpreter.Interpretable, error) { return guard(i, most), nil }),
	}
}

// limit records the limit of the value of an expression. The value of a field has the identity of
// the variable that the path of fields begins with.
func limit(most map[int64]int, e ast.Expr, size int) {
	if before, ok := most[e.ID()]; !ok || size < before {
		most[e.ID()] = size
	}
	switch e.Kind() { //nolint:exhaustive // all others have values of their own
	case ast.SelectKind:
		limit(most, e.AsSelect().Operand(), size)
	case ast.CallKind:
		switch call := e.AsCall(); call.FunctionName() {
		case "_[_]", "_[?_]", "_?._":
			limit(most, call.Args()[0], size)
		case "_?_:_":
			limit(most, call.Args()[1], size)
			limit(most, call.Args()[2], size)
		}
	}
}

// guard returns the interpretable with a check of the deep size of its value, if it has a limit.
func guard(i interpreter.Interpretable, most map[int64]int) interpreter.Interpretable {
	size, ok := most[i.ID()]
	if !ok {
		return i
	}
	switch i := i.(type) {
	case guardedAttribute:
		return i
	case interpreter.InterpretableConst:
		if n, ok := i.Value().(types.Int); ok && int64(n) > int64(size) {
			return guarded{i, size}
		}
		return i // texts are bounded by the length of the expression
	case interpreter.InterpretableAttribute:
		return guardedAttribute{i, size}
	case interpreter.InterpretableConstructor:
		return guardedConstructor{i, size}
	case interpreter.InterpretableCall:
		return guardedCall{i, size}
	}
	return guarded{i, size}
}

// These have the interfaces by which CEL counts their cost.
type (
	guarded struct {
		interpreter.Interpretable
		most int
	}
	guardedCall struct {
		interpreter.InterpretableCall
		most int
	}
	guardedConstructor struct {
		interpreter.InterpretableConstructor
		most int
	}
	guardedAttribute struct {
		interpreter.InterpretableAttribute
		most int
	}
)

// Eval implements interpreter.Interpretable.
func (g guarded) Eval(in interpreter.Activation) ref.Val {
	return bounded(g.Interpretable.Eval(in), g.most)
}

// Eval implements interpreter.Interpretable.
func (g guardedCall) Eval(in interpreter.Activation) ref.Val {
	return bounded(g.InterpretableCall.Eval(in), g.most)
}

// Eval implements interpreter.Interpretable.
func (g guardedConstructor) Eval(in interpreter.Activation) ref.Val {
	return bounded(g.InterpretableConstructor.Eval(in), g.most)
}

// Eval implements interpreter.Interpretable.
func (g guardedAttribute) Eval(in interpreter.Activation) ref.Val {
	return bounded(g.InterpretableAttribute.Eval(in), g.most)
}

// bounded returns the value. If its deep size is more than the limit, it ends the evaluation as one
// that costs too much: an error could be ignored by the expression, which would go on.
func bounded(v ref.Val, most int) ref.Val {
	n, isNumber := v.(types.Int)
	if deepSize(v, most) > most || isNumber && most == mostCounted && int64(n) > int64(most) {
		panic(interpreter.EvalCancelledError{Message: "argument too large", Cause: interpreter.CostLimitExceeded}) // as CEL does, which recovers
	}
	return v
}

// estimator counts the cost of calls.
type estimator struct{}

// CallCost implements interpreter.ActualCostEstimator.
func (estimator) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	cost := (&library.CostEstimator{}).CallCost(function, overload, args, result)
	r, ok := readers[function]
	if !ok {
		return cost
	}
	read := costOf(r, args)
	if cost == nil || *cost < *read {
		return read
	}
	return cost
}

func costOf(r reader, args []ref.Val) *uint64 {
	sizes := make([]int, len(args))
	size := 0.0
	for i, arg := range args {
		sizes[i] = deepSize(arg, mostRead)
		size += float64(sizes[i])
	}
	if r.cost != nil {
		size = r.cost(sizes, args)
	}
	cost := uint64(math.Max(1, math.Ceil(size*perSize)))
	return &cost
}

// Size returns the number of bytes of the texts in an object, plus that of its other values.
func Size(object map[string]any) int { return deepSize(object, math.MaxInt) }

// deepSize returns the number of bytes of the texts in a value and of its other values, each as
// often as it is contained. It stops when that is more than most.
func deepSize(value any, most int) int {
	size := 1
	add := func(v any) bool {
		size += deepSize(v, most-size)
		return size <= most
	}
	switch v := value.(type) {
	case string:
		return max(1, len(v))
	case types.String:
		return max(1, len(v))
	case types.Bytes:
		return max(1, len(v))
	case map[string]any:
		for key, item := range v {
			if size += len(key); !add(item) {
				break
			}
		}
	case map[string]string:
		for key, item := range v {
			if size += len(key); !add(item) {
				break
			}
		}
	case map[ref.Val]ref.Val:
		for key, item := range v {
			if !add(key) || !add(item) {
				break
			}
		}
	case []any:
		for _, item := range v {
			if !add(item) {
				break
			}
		}
	case []ref.Val:
		for _, item := range v {
			if !add(item) {
				break
			}
		}
	case *types.Optional:
		if v.HasValue() {
			return deepSize(v.GetValue(), most)
		}
	case orderedMap:
		return deepSize(v.Value(), most)
	case traits.Lister:
		if n, ok := v.Size().(types.Int); ok && int64(n) > int64(most) {
			return most + 1
		}
		for it := v.Iterator(); it.HasNext() == types.True && add(it.Next()); {
		}
	case traits.Mapper:
		for it := v.Iterator(); it.HasNext() == types.True; {
			if key := it.Next(); !add(key) || !add(v.Get(key)) {
				break
			}
		}
	case fmt.Stringer:
		return max(1, len(v.String()))
	}
	return size
}
