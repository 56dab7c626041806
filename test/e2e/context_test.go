package e2e

import (
	"context"
	"testing"
)

// contextOf returns the context of a test, or one that has not ended where that has: cleanups run
// after its end.
func contextOf(t *testing.T) context.Context {
	t.Helper()
	if t.Context().Err() != nil {
		return context.WithoutCancel(t.Context())
	}
	return t.Context()
}
