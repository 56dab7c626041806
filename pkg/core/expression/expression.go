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

	"github.com/starlinghq/starling/pkg/core/text"
)

// Cost limits, in units of CEL: for one evaluation, and, as in Kubernetes, for all expressions of
// one object or policy.
//
// Kubernetes allows a cost of a million for one evaluation. The time that CEL takes to count the
// cost is quadratic in the rounds of a loop over the input, so that such an evaluation can take
// minutes. With this limit it takes at most about half a second, for some thousand elements.
const (
	EvaluationLimit uint64 = 50_000
	ObjectLimit     uint64 = 10_000_000
)

// interruptEvery is the number of iterations between two checks of the cost limit.
const interruptEvery = 100

// base returns the environment of the Kubernetes version of the libraries.
var base = sync.OnceValue(func() *environment.EnvSet { return environment.MustBaseEnvSet(version.MajorMinor(1, 35)) })

// Environment returns the environment of Kubernetes with additional variables. It takes some
// milliseconds.
func Environment(variables ...cel.EnvOption) (*cel.Env, error) {
	set, err := base().Extend(environment.VersionedOptions{IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: variables})
	if err != nil {
		return nil, fmt.Errorf("build CEL environment of Kubernetes: %w", err)
	}
	return Ordered(set.NewExpressionsEnv())
}

// Ordered returns an environment in which maps are iterated in the order of their keys.
func Ordered(env *cel.Env) (*cel.Env, error) {
	env, err := env.Extend(cel.CustomTypeAdapter(ordered{env.CELTypeAdapter()}))
	if err != nil {
		return nil, fmt.Errorf("extend CEL environment: %w", err)
	}
	return env, nil
}

// Expression is a compiled expression. It is safe for concurrent use.
type Expression struct {
	program   cel.Program
	limit     uint64
	variables map[string]bool
}

// Uses reports whether the expression refers to a variable.
func (e *Expression) Uses(variable string) bool { return e.variables[variable] }

// Compile compiles an expression in the first environment in which it is valid. If kinds are given,
// the type of the expression must be one of them, or not known before the evaluation. Errors name
// the kinds by must. It takes about a millisecond.
func Compile(envs []*cel.Env, source string, limit uint64, must string, kinds ...types.Kind) (*Expression, error) {
	var first error
	for _, env := range envs {
		ast, issues := env.Compile(source)
		if issues.Err() != nil {
			if first == nil {
				first = summary(issues)
			}
			continue
		}
		if kind := ast.OutputType().Kind(); len(kinds) > 0 && !slices.Contains(append(kinds, anyKinds...), kind) {
			return nil, fmt.Errorf("must evaluate to %s, evaluates to %s", must, cel.FormatCELType(ast.OutputType()))
		}
		program, err := env.Program(ast, append(programOptions(ast),
			cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.CostLimit(limit), cel.InterruptCheckFrequency(interruptEvery))...)
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

// anyKinds are the kinds of expressions whose values may be of any kind. Optional values are
// opaque.
var anyKinds = []types.Kind{types.DynKind, types.AnyKind, types.NullTypeKind, types.OpaqueKind, types.TypeParamKind}

// summary returns the errors in an expression on one line. CEL prints three lines for each.
func summary(issues *cel.Issues) error {
	var messages []string
	for _, e := range issues.Errors() {
		reason := strings.TrimSuffix(e.Message, " (in container '')") // CEL appends it to errors about names; there are no containers here
		message := fmt.Sprintf("%d:%d: %s", e.Location.Line(), max(1, e.Location.Column()+1), reason)
		if !slices.Contains(messages, message) {
			messages = append(messages, message)
		}
	}
	const shown = 3
	return errors.New(strings.Join(text.Bound(messages, shown), "; "))
}

// Evaluate returns the value of the expression and the cost of the evaluation. An absent optional
// value is null.
func (e *Expression) Evaluate(variables map[string]any) (value ref.Val, cost uint64, err error) {
	value, details, err := e.program.Eval(variables)
	if details != nil && details.ActualCost() != nil {
		cost = *details.ActualCost()
	}
	var cancelled interpreter.EvalCancelledError
	if errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded {
		return nil, e.limit, fmt.Errorf("the evaluation costs more than the limit of %d: use fewer elements, or fewer nested loops", e.limit)
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

// maxError bounds the message of one error, which may quote a reported value.
const maxError = 512

// OneLine returns the message of an error on one line, truncated.
func OneLine(message string) string { return text.Clip(text.OneLine(message), maxError) }
