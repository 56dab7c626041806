package binding

import (
	"slices"
	"testing"

	"k8s.io/utils/clock"
)

// TestWaitFor: a policy that waits for another one misses no change of it, whenever that happens,
// and no end of a sync that it found running.
func TestWaitFor(t *testing.T) {
	m := newMemory(clock.RealClock{})
	gathered := m.now()
	if m.waitFor("a", []string{"b"}, nil, gathered) {
		t.Error("something happened")
	}
	if got := m.touch("b"); !slices.Equal(got, []string{"a"}) {
		t.Errorf("a change of b concerns %q", got)
	}
	if got := m.touch("c"); len(got) > 0 {
		t.Errorf("a change of c concerns %q", got)
	}
	if !m.waitFor("a", []string{"b"}, nil, gathered) {
		t.Error("a change of b between gathering and waiting is lost")
	}
	if m.waitFor("a", nil, nil, m.now()) || len(m.touch("b")) > 0 || len(m.waiters) > 0 {
		t.Error("a waits still")
	}

	m.begin("b")
	if m.waitFor("a", []string{"b"}, []string{"b"}, m.now()) {
		t.Error("the sync of b has not ended")
	}
	if got := m.end("b"); !slices.Equal(got, []string{"a"}) || len(m.end("b")) > 0 {
		t.Errorf("the end of the sync concerns %q", got)
	}
	if !m.waitFor("a", []string{"b"}, []string{"b"}, m.now()) {
		t.Error("the end of the sync between gathering and waiting is lost")
	}
}
