package expression

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"

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

// TimeLimit is how long a controller evaluates the expressions of one object at a time. The cost
// limit is reached in a small part of that, so that results do not depend on how busy the machine
// is. If this limit is reached nevertheless, the values are not known.
const TimeLimit = time.Minute

// Bounds of the source, since compiling cannot be interrupted: the time is quadratic in the number
// of steps of an expression. With these bounds it takes at most about a second.
const (
	// maxSteps is the number of steps of an expression without its macros.
	maxSteps = 4000
	// maxSource is the length of an expression, in which each macro that contains its operand twice
	// counts for twice the length.
	maxSource = 1 << 18
)

// InterruptedError says that an evaluation was stopped because its context ended: the value is not
// known.
type InterruptedError struct{ Cause error }

// Error implements error.
func (e *InterruptedError) Error() string {
	return "the evaluation was interrupted: " + e.Cause.Error()
}

// Unwrap returns the error of the context.
func (e *InterruptedError) Unwrap() error { return e.Cause }

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
	if err := checkLength(source); err != nil {
		return nil, err
	}
	var first error
	for _, env := range envs {
		parsed, issues := env.Parse(source)
		if issues.Err() == nil {
			if err := checkSteps(parsed); err != nil {
				return nil, err
			}
			parsed, issues = env.Check(parsed)
		}
		if issues.Err() != nil {
			if first == nil {
				first = summary(issues)
			}
			continue
		}
		if kind := parsed.OutputType().Kind(); len(kinds) > 0 && !slices.Contains(append(kinds, anyKinds...), kind) {
			return nil, fmt.Errorf("must evaluate to %s, evaluates to %s", must, cel.FormatCELType(parsed.OutputType()))
		}
		program, err := env.Program(parsed, append(programOptions(env, parsed),
			cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.CostLimit(limit), cel.CostTracking(&library.CostEstimator{}))...)
		if err != nil {
			return nil, err
		}
		e := &Expression{program: program, limit: limit, variables: map[string]bool{}}
		for _, reference := range parsed.NativeRep().ReferenceMap() {
			if reference.Name != "" {
				e.variables[reference.Name] = true
			}
		}
		return e, nil
	}
	return nil, first
}

// checkLength returns an error if the source is too long when its macros are replaced.
func checkLength(source string) error {
	const most = 20 // a shift
	doubled := strings.Count(source, "optMap") + strings.Count(source, "optFlatMap")
	if doubled > most || len(source)<<doubled > maxSource {
		return fmt.Errorf("too long: %s, of which each use of optMap and optFlatMap doubles a part; shorten it, or use fewer of them",
			text.Count(len(source), "byte"))
	}
	return nil
}

// checkSteps returns an error if the expression has too many steps.
func checkSteps(parsed *cel.Ast) error {
	steps := 0
	ast.PostOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(func(ast.Expr) { steps++ }))
	if steps > maxSteps {
		return fmt.Errorf("too long: it has %d steps, at most %d are possible; shorten it", steps, maxSteps)
	}
	return nil
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
// value is null. If the context ends before, the error is an *InterruptedError: the value is not
// known. It notices that within about a second. Any other result depends only on the variables.
func (e *Expression) Evaluate(ctx context.Context, variables map[string]any) (value ref.Val, cost uint64, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, &InterruptedError{err}
	}
	in, err := interpreter.NewActivation(variables)
	if err != nil {
		return nil, 0, err
	}
	m := &meter{context: ctx, left: int(float64(e.limit) / perSize)}
	value, details, err := e.program.Eval(&metered{in, m})
	if details != nil && details.ActualCost() != nil {
		cost = *details.ActualCost() + m.cost
	}
	var ended interpreter.EvalCancelledError
	isEnded := errors.As(err, &ended)
	switch {
	case isEnded && ended.Cause == interpreter.ContextCancelled:
		return nil, cost, &InterruptedError{ctx.Err()}
	case isEnded && ended.Cause == interpreter.CostLimitExceeded, cost > e.limit:
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
