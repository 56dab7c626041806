package binding

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/objref"
)

func TestStatusErrors(t *testing.T) {
	one, two := objref.Ref{Resource: "services", Name: "one"}, objref.Ref{Resource: "services", Name: "two"}
	tr := newStatusErrors()
	set := func(ref objref.Ref, trouble string, asking []string, wantChanged ...string) {
		t.Helper()
		if diff := cmp.Diff(wantChanged, tr.set(ref, trouble, asking)); diff != "" {
			t.Errorf("changed policies (-want +got):\n%s", diff)
		}
	}
	of := func(policy string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, tr.of(policy)); diff != "" {
			t.Errorf("errors of %s (-want +got):\n%s", policy, diff)
		}
	}
	set(one, "", []string{"a"})
	set(one, "no right", []string{"a", "b"}, "a", "b")
	set(one, "no right", []string{"a", "b"})
	set(two, "no right", []string{"b"}, "b")
	of("a", "status return: no right")
	of("b", "status return: no right")
	set(two, "refused", []string{"b", "c"}, "b", "c")
	of("b", "status return: no right", "status return: refused")
	set(one, "no right", []string{"b", "c"}, "a", "c") // a does not ask any more
	of("a")
	of("c", "status return: no right", "status return: refused")
	set(one, "", []string{"b", "c"}, "b", "c")
	set(two, "", nil, "b", "c")
	of("b")
	of("c")
	if len(tr.byObject)+len(tr.byPolicy) > 0 {
		t.Errorf("something is left: %v, %v", tr.byObject, tr.byPolicy)
	}
}
