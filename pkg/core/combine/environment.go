package combine

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"

	"github.com/starlinghq/starling/pkg/core/expression"
)

// limits limit the cost of evaluations, in units of CEL.
type limits struct {
	// evaluation is the limit for one expression and cluster.
	evaluation uint64
	// table is the limit for all expressions of a StatusCollector and all clusters of an object.
	table uint64
}

// defaultLimits are the limits of package expression.
var defaultLimits = limits{evaluation: expression.EvaluationLimit, table: expression.ObjectLimit}

// environments returns the CEL environments in which an expression may be compiled, in order of
// preference. They are created once, which takes some milliseconds.
var environments = sync.OnceValues(func() ([]*cel.Env, error) {
	var variables []cel.EnvOption
	for _, name := range []string{"obj", "returned", "inventory", "propagation"} {
		variables = append(variables, cel.Variable(name, cel.MapType(cel.StringType, cel.DynType)))
	}
	base, err := expression.Environment(variables...)
	if err != nil {
		return nil, err
	}
	// Kubernetes refuses lists and maps of mixed types. KubeStellar uses plain CEL, which allows
	// them.
	plain, err := cel.NewEnv(append(variables, cel.OptionalTypes(), cel.CrossTypeNumericComparisons(true), cel.DefaultUTCTimeZone(true))...)
	if err != nil {
		return nil, fmt.Errorf("build CEL environment: %w", err)
	}
	if plain, err = expression.Ordered(plain); err != nil {
		return nil, err
	}
	return []*cel.Env{base, plain}, nil
})
