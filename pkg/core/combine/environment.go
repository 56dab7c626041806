package combine

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

// limits bound what evaluations cost, in units of CEL.
type limits struct {
	// evaluation is for one expression and cluster, table for all expressions of a StatusCollector and all clusters of an object.
	evaluation, table uint64
}

// kubernetesLimits are those of Kubernetes for an expression, about 0.1 s, and for an object and all expressions of a policy.
var kubernetesLimits = limits{evaluation: 1_000_000, table: 10_000_000}

// interruptEvery is after how many iterations it is looked whether the cost is spent.
const interruptEvery = 100

// kubernetes is the version whose expressions are understood: that of the libraries that this is built with.
var kubernetes = version.MajorMinor(1, 35)

// environments are those that an expression may be written for, in order of preference. Each is made once; that takes some
// milliseconds.
var environments = sync.OnceValues(func() ([]*cel.Env, error) {
	variables := []cel.EnvOption{
		cel.Variable("obj", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("returned", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("inventory", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("propagation", cel.MapType(cel.StringType, cel.DynType)),
	}
	base, err := environment.MustBaseEnvSet(kubernetes).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions:        variables,
	})
	if err != nil {
		return nil, fmt.Errorf("build CEL environment of Kubernetes: %w", err)
	}
	// Kubernetes refuses lists and maps of mixed types; KubeStellar, which has plain CEL, does not.
	plain, err := cel.NewEnv(append(variables, cel.OptionalTypes(), cel.CrossTypeNumericComparisons(true), cel.DefaultUTCTimeZone(true))...)
	if err != nil {
		return nil, fmt.Errorf("build CEL environment: %w", err)
	}
	envs := []*cel.Env{base.NewExpressionsEnv(), plain}
	for i, env := range envs {
		if envs[i], err = env.Extend(cel.CustomTypeAdapter(ordered{env.CELTypeAdapter()})); err != nil {
			return nil, fmt.Errorf("extend CEL environment: %w", err)
		}
	}
	return envs, nil
})

// expression is a compiled one. It is safe for concurrent use.
type expression struct {
	program cel.Program
	limit   uint64
	// object and inventory tell whether it may look at obj, and at inventory.
	object, inventory bool
}

// compile understands an expression whose values must be of one of some kinds, if any are given; what is not known before it is
// evaluated may be anything.
func compile(text string, limit uint64, must string, kinds ...types.Kind) (*expression, error) {
	envs, err := environments()
	if err != nil {
		return nil, err
	}
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
		e := &expression{program: program, limit: limit}
		for _, reference := range ast.NativeRep().ReferenceMap() {
			switch reference.Name {
			case "obj":
				e.object = true
			case "inventory":
				e.inventory = true
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

// evaluate returns what the expression yields, and what that cost. The value is null where an optional one is absent.
func (e *expression) evaluate(variables map[string]any) (value ref.Val, cost uint64, err error) {
	value, details, err := e.program.Eval(variables)
	if details != nil && details.ActualCost() != nil {
		cost = *details.ActualCost()
	}
	var cancelled interpreter.EvalCancelledError
	if errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded {
		return nil, e.limit, fmt.Errorf("the evaluation costs more than the limit of %d, which is that of Kubernetes: look at fewer elements, or nest fewer loops", e.limit)
	}
	if err != nil {
		return nil, cost, errors.New(oneLine(err.Error()))
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

func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}
