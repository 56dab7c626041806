package nested_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/nested"
)

// TestMap: the zero Map can be read, set and deleted from, and keeps no empty inner map.
func TestMap(t *testing.T) {
	var m nested.Map[string, int, bool]
	m.Delete("a", 1)
	m.Set("a", 1, true)
	m.Set("a", 2, true)
	m.Set("b", 1, true)
	m.Delete("b", 2)
	m.Delete("b", 1)
	m.Delete("a", 1)
	m.Delete("c", 1)
	if diff := cmp.Diff(nested.Map[string, int, bool]{"a": {2: true}}, m); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	m.Delete("a", 2)
	if len(m) != 0 {
		t.Errorf("empty maps are kept: %v", m)
	}
}
