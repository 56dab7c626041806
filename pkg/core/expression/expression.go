package expression

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Limits, in units of CEL: for one evaluation, and, as in Kubernetes, for all expressions of one object or policy.
//
// Kubernetes lets an evaluation cost a million. What CEL takes to count grows with the square of the rounds of a loop over given elements, so
// that can be minutes; this is at most about half a second, and some thousand elements.
const (
	EvaluationLimit uint64 = 50_000
	ObjectLimit     uint64 = 10_000_000
)

// interruptEvery is after how many iterations it is looked whether the cost is spent.
const interruptEvery = 100

// kubernetes is the version whose expressions are understood: that of the libraries that this is built with.
var kubernetes = version.MajorMinor(1, 35)

var base = sync.OnceValue(func() *environment.EnvSet { return environment.MustBaseEnvSet(kubernetes) })

// Environment returns the environment of Kubernetes with some variables. Making one takes some milliseconds.
func Environment(variables ...cel.EnvOption) (*cel.Env, error) {
	set, err := base().Extend(environment.VersionedOptions{IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: variables})
	if err != nil {
		return nil, fmt.Errorf("build CEL environment of Kubernetes: %w", err)
	}
	return Ordered(set.NewExpressionsEnv())
}

// Ordered returns an environment whose maps are walked through in the order of their keys.
func Ordered(env *cel.Env) (*cel.Env, error) {
	env, err := env.Extend(cel.CustomTypeAdapter(ordered{env.CELTypeAdapter()}))
	if err != nil {
		return nil, fmt.Errorf("extend CEL environment: %w", err)
	}
	return env, nil
}

// Expression is a compiled one. It is safe for concurrent use.
type Expression struct {
	program   cel.Program
	limit     uint64
	variables map[string]bool
}

// Uses tells whether the expression may look at a variable.
func (e *Expression) Uses(variable string) bool { return e.variables[variable] }

// Compile understands an expression for the first of some environments in which it can be. Its values must be of one of some kinds, if
// any are given, which an error calls must; what is not known before it is evaluated may be anything. It costs about a millisecond.
func Compile(envs []*cel.Env, text string, limit uint64, must string, kinds ...types.Kind) (*Expression, error) {
	var first error
	for _, env := range envs {
		ast, issues := env.Compile(text)
		if issues.Err() != nil {
			if first == nil {
				first = summary(issues)
			}
			continue
		}
		if kind := ast.OutputType().Kind(); len(kinds) > 0 && !slices.Contains(append(kinds, anyKinds...), kind) {
			return nil, fmt.Errorf("must evaluate to %s, evaluates to %s", must, cel.FormatCELType(ast.OutputType()))
		}
		program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.CostLimit(limit), cel.InterruptCheckFrequency(interruptEvery))
		if err != nil {
			return nil, err
		}
		e := &Expression{program: program, limit: limit, variables: map[string]bool{}}
		for _, reference := range ast.NativeRep().ReferenceMap() {
			if reference.Name != "" {
				e.variables[reference.Name] = true
			}
		}
		return e, nil
	}
	return nil, first
}

// anyKinds are those of expressions whose values may be of any kind: optional values are opaque.
var anyKinds = []types.Kind{types.DynKind, types.AnyKind, types.NullTypeKind, types.OpaqueKind, types.TypeParamKind}

// summary says on one line what is wrong with an expression: what CEL says takes three for each mistake.
func summary(issues *cel.Issues) error {
	const many = 3
	var texts []string
	for _, e := range issues.Errors() {
		message := strings.TrimSuffix(e.Message, " (in container '')") // of names; there are no containers here
		text := fmt.Sprintf("%d:%d: %s", e.Location.Line(), max(1, e.Location.Column()+1), message)
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if more := len(texts) - many; more > 0 {
		texts = append(texts[:many], fmt.Sprintf("… and %d more", more))
	}
	return errors.New(strings.Join(texts, "; "))
}

// Evaluate returns what the expression yields, and what that cost. The value is null where an optional one is absent.
func (e *Expression) Evaluate(variables map[string]any) (value ref.Val, cost uint64, err error) {
	value, details, err := e.program.Eval(variables)
	if details != nil && details.ActualCost() != nil {
		cost = *details.ActualCost()
	}
	var cancelled interpreter.EvalCancelledError
	if errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded {
		return nil, e.limit, fmt.Errorf("the evaluation costs more than the limit of %d: look at fewer elements, or nest fewer loops", e.limit)
	}
	if err != nil {
		return nil, cost, errors.New(OneLine(err.Error()))
	}
	for {
		optional, ok := value.(*types.Optional)
		if !ok {
			break
		}
		if !optional.HasValue() {
			return types.NullValue, cost, nil
		}
		value = optional.GetValue()
	}
	if types.IsUnknownOrError(value) {
		return nil, cost, fmt.Errorf("%v", value)
	}
	return value, cost, nil
}

// maxText bounds the text of one error: it may quote what a cluster reported.
const maxText = 512

// OneLine returns a text on one line, and not longer than an error may be.
func OneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}
