package expression

import (
	"context"

	"github.com/google/cel-go/interpreter"
)

// perSize is the cost of reading one unit of size: what CEL counts for one character.
const perSize = 0.1

// meter counts what the functions of one evaluation read and make, as far as CEL does not. It ends
// the evaluation that reads too much, or whose context ends. A nil meter counts nothing.
type meter struct {
	context context.Context //nolint:containedctx // of one evaluation, which functions of CEL do not pass on
	// left is the size that may still be read.
	left int
	cost uint64
	// unchecked is the work since the context was checked.
	unchecked int
}

// checkEvery is the work between two checks of the context: some microseconds, except for one large
// value.
const checkEvery = 100

// read counts a size. Small ones cost nothing: CEL counts the call.
func (m *meter) read(size int) {
	if m == nil {
		return
	}
	m.unchecked += 1 + size
	if m.unchecked >= checkEvery {
		m.unchecked = 0
		if m.context.Err() != nil {
			panic(interpreter.EvalCancelledError{Message: "interrupted", Cause: interpreter.ContextCancelled})
		}
	}
	if size > m.left {
		// As CEL does, which recovers. An expression could ignore an error, and go on.
		panic(interpreter.EvalCancelledError{Message: "too much to read", Cause: interpreter.CostLimitExceeded})
	}
	if cost := uint64(float64(size) * perSize); cost > 0 {
		m.cost += cost
		m.left -= size
	}
}

// most returns the largest size that may be read.
func (m *meter) most() int {
	if m == nil {
		return maxSource
	}
	return m.left
}

// metered are variables with the meter of their evaluation.
type metered struct {
	interpreter.Activation
	meter *meter
}

// meterOf returns the meter of an evaluation, nil while constants are evaluated, before it.
func meterOf(in interpreter.Activation) *meter {
	for in != nil {
		if m, ok := in.(*metered); ok {
			return m.meter
		}
		in = in.Parent()
	}
	return nil
}
