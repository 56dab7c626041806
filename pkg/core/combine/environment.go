package combine

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/starlinghq/starling/pkg/core/expression"
)

// limits bound what evaluations cost, in units of CEL.
type limits struct {
	// evaluation is for one expression and cluster, table for all expressions of a StatusCollector and all clusters of an object.
	evaluation, table uint64
}

// defaultLimits are those of Kubernetes for an expression, and for an object and all expressions of a policy.
var defaultLimits = limits{evaluation: expression.EvaluationLimit, table: expression.ObjectLimit}

// environments are those that an expression may be written for, in order of preference. Each is made once; that takes some
// milliseconds.
var environments = sync.OnceValues(func() ([]*cel.Env, error) {
	variables := []cel.EnvOption{
		cel.Variable("obj", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("returned", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("inventory", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("propagation", cel.MapType(cel.StringType, cel.DynType)),
	}
	base, err := expression.Environment(variables...)
	if err != nil {
		return nil, err
	}
	// Kubernetes refuses lists and maps of mixed types; KubeStellar, which has plain CEL, does not.
	plain, err := cel.NewEnv(append(variables, cel.OptionalTypes(), cel.CrossTypeNumericComparisons(true), cel.DefaultUTCTimeZone(true))...)
	if err != nil {
		return nil, fmt.Errorf("build CEL environment: %w", err)
	}
	if plain, err = expression.Ordered(plain); err != nil {
		return nil, err
	}
	return []*cel.Env{base, plain}, nil
})

// compile understands an expression whose values must be of one of some kinds, if any are given.
func compile(text string, limit uint64, must string, kinds ...types.Kind) (*expression.Expression, error) {
	envs, err := environments()
	if err != nil {
		return nil, err
	}
	return expression.Compile(envs, text, limit, must, kinds...)
}
