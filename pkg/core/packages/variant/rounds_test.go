package variant_test

import (
	"strings"
	"testing"

	"github.com/starlinghq/starling/pkg/core/packages/variant"
)

// TestRounds: the third write of the same files is refused. Other inputs, and a write by somebody
// else, begin again.
func TestRounds(t *testing.T) {
	var r variant.Rounds
	version := 0
	write := func(inputs string) bool {
		t.Helper()
		if r.Begin(inputs, string(rune(version)), []string{"b", "a"}) != nil {
			return false
		}
		version++
		r.Wrote(string(rune(version)), false) // it is marked as incomplete first
		if err := r.Begin(inputs, string(rune(version)), nil); err != nil {
			t.Errorf("refused after it began: %v", err)
		}
		version++
		r.Wrote(string(rune(version)), true)
		return true
	}
	for i, want := range []bool{true, true, false, false} {
		if got := write("x"); got != want {
			t.Errorf("write %d: %t", i, got)
		}
	}
	version++
	r.Wrote(string(rune(version)), false) // the failure is recorded in the draft
	if write("x") {
		t.Error("written again after the failure was recorded")
	}
	if err := r.Begin("x", string(rune(version)), []string{"Kptfile", "b", "a"}); err == nil || !strings.Contains(err.Error(), "sets in a, b,") {
		t.Errorf("the recorded failure is taken for a change by functions: %v", err)
	}
	for i, want := range []bool{true, true, false} {
		if got := write("y"); got != want {
			t.Errorf("other inputs, write %d: %t", i, got)
		}
	}
	version++ // somebody else
	for i, want := range []bool{true, true, false} {
		if got := write("y"); got != want {
			t.Errorf("after a write of a user, write %d: %t", i, got)
		}
	}
}
