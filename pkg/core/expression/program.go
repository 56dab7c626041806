package expression

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// CEL counts the cost of a call after it, and by the number of entries of a list or map, not by
// what is in them: to compare two whole objects costs 1, as does a + b of two lists. The sum of two
// lists is a view of both: with each further sum its length takes twice as long to find, and no
// loop is interrupted in that. A list that contains a list many times takes no memory, but reading
// it takes long. A loop that selects nothing costs nothing.
//
// So each call is counted by the size of what it reads and makes, before it is made, each loop by
// its length, and sums of lists are lists. The size depends on nothing but the values, so that the
// results do not depend on time.

// planner makes the program of an AST count what it reads.
type planner struct {
	functions map[string]*decls.FunctionDecl
	// ranges and keys are the expressions that loops iterate over, and those of keys, by their
	// identities. Errors print keys.
	ranges, keys positions
}

// positions are expressions. A path of fields has the identity of what it begins with.
type positions struct{ attributes, others map[int64]bool }

func newPositions() positions { return positions{map[int64]bool{}, map[int64]bool{}} }

func (p positions) add(e ast.Expr) {
	switch e.Kind() { // all others have values of their own
	case ast.LiteralKind, ast.ListKind, ast.MapKind:
		return // bounded by the length of the expression
	case ast.IdentKind:
		p.attributes[e.ID()] = true
	case ast.SelectKind:
		p.attributes[start(e).ID()] = true
	case ast.CallKind:
		switch e.AsCall().FunctionName() {
		case "_[_]", "_[?_]", "_?._", "_?_:_":
			p.attributes[start(e).ID()] = true
		default:
			p.others[e.ID()] = true
		}
	default:
		p.others[e.ID()] = true
	}
}

// start returns the expression that a path of fields begins with.
func start(e ast.Expr) ast.Expr {
	switch e.Kind() { //nolint:exhaustive // all others are no paths
	case ast.SelectKind:
		return start(e.AsSelect().Operand())
	case ast.CallKind:
		switch call := e.AsCall(); call.FunctionName() {
		case "_[_]", "_[?_]", "_?._":
			return start(call.Args()[0])
		}
	}
	return e
}

// programOptions make a program of the AST count and bound what functions read.
func programOptions(env *cel.Env, checked *cel.Ast) []cel.ProgramOption {
	p := &planner{functions: env.Functions(), ranges: newPositions(), keys: newPositions()}
	ast.PostOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() { //nolint:exhaustive // all others have neither
		case ast.ComprehensionKind:
			p.ranges.add(e.AsComprehension().IterRange())
		case ast.MapKind:
			for _, entry := range e.AsMap().Entries() {
				p.keys.add(entry.AsMapEntry().Key())
			}
		case ast.CallKind:
			switch call := e.AsCall(); call.FunctionName() {
			case "_[_]", "_[?_]", "_?._":
				p.keys.add(call.Args()[1])
			}
		}
	}))
	return []cel.ProgramOption{cel.CustomDecorator(p.decorate)}
}

// decorate makes one step of a program count what it reads. CEL calls it for each step, for a path
// of fields several times.
func (p *planner) decorate(i interpreter.Interpretable) (interpreter.Interpretable, error) {
	var err error
	if inner, ok := i.(interpreter.InterpretableCall); ok {
		if i, err = p.call(inner); err != nil {
			return nil, err
		}
	}
	if attribute, ok := i.(interpreter.InterpretableAttribute); ok {
		if inRange, isKey := p.ranges.attributes[i.ID()], p.keys.attributes[i.ID()]; inRange || isKey {
			delete(p.ranges.attributes, i.ID())
			delete(p.keys.attributes, i.ID())
			return countedAttribute{attribute, counts{inRange, isKey}}, nil
		}
		return i, nil
	}
	if inRange, isKey := p.ranges.others[i.ID()], p.keys.others[i.ID()]; inRange || isKey {
		if inner, ok := i.(interpreter.InterpretableCall); ok {
			return countedCall{inner, counts{inRange, isKey}}, nil
		}
		return countedValue{i, counts{inRange, isKey}}, nil
	}
	return i, nil
}

// counts says what of a value is counted: the entries of a range, all of a key.
type counts struct{ inRange, isKey bool }

func (c counts) count(in interpreter.Activation, v any) {
	m := meterOf(in)
	if c.inRange {
		m.read(shallowSize(v))
	}
	if c.isKey {
		m.read(deepSize(v, m.most()))
	}
}

// These have the interfaces by which CEL counts their cost.
type (
	countedValue struct {
		interpreter.Interpretable
		counts
	}
	countedCall struct {
		interpreter.InterpretableCall
		counts
	}
	countedAttribute struct {
		interpreter.InterpretableAttribute
		counts
	}
)

// Eval implements interpreter.Interpretable.
func (c countedValue) Eval(in interpreter.Activation) ref.Val {
	v := c.Interpretable.Eval(in)
	c.count(in, v)
	return v
}

// Eval implements interpreter.Interpretable.
func (c countedCall) Eval(in interpreter.Activation) ref.Val {
	v := c.InterpretableCall.Eval(in)
	c.count(in, v)
	return v
}

// Eval implements interpreter.Interpretable.
func (c countedAttribute) Eval(in interpreter.Activation) ref.Val {
	v := c.InterpretableAttribute.Eval(in)
	c.count(in, v)
	return v
}

// Resolve implements interpreter.Attribute. CEL calls it for a key that is a path of fields.
func (c countedAttribute) Resolve(in interpreter.Activation) (any, error) {
	v, err := c.InterpretableAttribute.Resolve(in)
	if err == nil {
		c.count(in, v)
	}
	return v, err
}

// call is a call that counts what it reads before it is made.
type call struct {
	interpreter.InterpretableCall
	args  []interpreter.Interpretable
	reads reader
	apply func(args []ref.Val) ref.Val
}

// call returns the call with the implementation that CEL would choose.
func (p *planner) call(inner interpreter.InterpretableCall) (interpreter.Interpretable, error) {
	c := &call{InterpretableCall: inner, args: inner.Args(), reads: readers[inner.Function()]}
	switch {
	case inner.OverloadID() == overloads.AddString || inner.OverloadID() == overloads.AddBytes:
		c.reads = nothing // CEL counts it
	case c.reads == nil:
		c.reads = all
	}
	switch inner.Function() {
	case "_==_":
		c.apply = func(args []ref.Val) ref.Val { return types.Equal(args[0], args[1]) }
		return c, nil
	case "_!=_":
		c.apply = func(args []ref.Val) ref.Val { return types.Bool(types.Equal(args[0], args[1]) != types.True) }
		return c, nil
	}
	var overload *functions.Overload
	if declared := p.functions[inner.Function()]; declared != nil {
		bindings, err := declared.Bindings()
		if err != nil {
			return nil, err
		}
		overload = find(bindings, inner.OverloadID(), inner.Function())
	}
	if len(c.args) == 0 || overload != nil && overload.NonStrict {
		return inner, nil // these are passed errors, and read nothing
	}
	c.apply = func(args []ref.Val) ref.Val { return apply(inner, overload, args) }
	switch inner.Function() {
	case "matches", "find", "findAll":
		c.countPattern()
	}
	return c, nil
}

func find(bindings []*functions.Overload, id, function string) *functions.Overload {
	var byName *functions.Overload
	for _, b := range bindings {
		switch b.Operator {
		case id:
			return b
		case function:
			byName = b
		}
	}
	return byName
}

// apply calls a function as CEL does.
func apply(c interpreter.InterpretableCall, overload *functions.Overload, args []ref.Val) ref.Val {
	if overload != nil && (overload.OperandTrait == 0 || args[0].Type().HasTrait(overload.OperandTrait)) {
		switch {
		case len(args) == 1 && overload.Unary != nil:
			return overload.Unary(args[0])
		case len(args) == 2 && overload.Binary != nil:
			return overload.Binary(args[0], args[1])
		case overload.Function != nil:
			return overload.Function(args...)
		}
	}
	if receiver, ok := args[0].(traits.Receiver); ok && args[0].Type().HasTrait(traits.ReceiverType) {
		return receiver.Receive(c.Function(), c.OverloadID(), args[1:])
	}
	return types.NewErr("no such overload: %s", c.Function())
}

// matchedText is a text that is matched with a constant pattern.
type matchedText struct {
	interpreter.Interpretable
	pattern types.String
}

// Eval implements interpreter.Interpretable.
func (t matchedText) Eval(in interpreter.Activation) ref.Val {
	v := t.Interpretable.Eval(in)
	m := meterOf(in)
	m.read(matched([]ref.Val{v, t.pattern}, m.most()))
	return v
}

// countPattern counts the matching of a constant pattern with the text: CEL replaces the call by
// one that has compiled the pattern, and keeps only its arguments.
func (c *call) countPattern() {
	constant, ok := c.args[1].(interpreter.InterpretableConst)
	if !ok {
		return
	}
	if pattern, ok := constant.Value().(types.String); ok {
		c.args = append([]interpreter.Interpretable{matchedText{c.args[0], pattern}}, c.args[1:]...)
		c.reads = nothing
	}
}

// Args implements interpreter.InterpretableCall.
func (c *call) Args() []interpreter.Interpretable { return c.args }

// Eval implements interpreter.Interpretable.
func (c *call) Eval(in interpreter.Activation) ref.Val {
	args := make([]ref.Val, len(c.args))
	for i, arg := range c.args {
		if args[i] = arg.Eval(in); types.IsUnknownOrError(args[i]) {
			return args[i]
		}
	}
	m := meterOf(in)
	m.read(c.reads(args, m.most()))
	result := c.apply(args)
	if c.Function() == "_+_" {
		result = list(result, args)
	}
	return types.LabelErrNode(c.ID(), result)
}

// list returns the sum of two lists as a list.
func list(sum ref.Val, args []ref.Val) ref.Val {
	lister, ok := sum.(traits.Lister)
	if !ok || sum == args[0] || sum == args[1] {
		return sum
	}
	values := make([]ref.Val, 0, shallowSize(sum))
	for it := lister.Iterator(); it.HasNext() == types.True; {
		values = append(values, it.Next())
	}
	return types.NewRefValList(types.DefaultTypeAdapter, values)
}
