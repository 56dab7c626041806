package works

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
)

func TestLeft(t *testing.T) {
	of := func(n int) objref.Ref {
		return objref.Ref{Group: "apps", Resource: "deployments", Namespace: "a-namespace-with-a-long-name", Name: fmt.Sprintf("a-deployment-with-a-long-name-%d", n)}
	}
	key := func(n int) string { return plan.LeftKey(of(n)) }
	left := plan.Left{}
	for n := range 1500 { // as many as a work has
		left[key(n)] = types.UID(fmt.Sprintf("0c6a3f0e-8a52-4b0d-9d2e-%012d", n))
	}
	text := Left(left)
	const most = 128 << 10 // half of what the annotations of an object may have
	if len(text) > most {
		t.Errorf("%d bytes", len(text))
	}
	listed := []objref.Ref{of(1), of(1499), of(1500)}
	want := plan.Left{key(1): left[key(1)], key(1499): left[key(1499)]}
	if diff := cmp.Diff(want, readLeft(text, listed, false)); diff != "" {
		t.Errorf("of those that are listed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(left, readLeft(text, nil, true)); diff != "" {
		t.Errorf("of a cluster that is behind (-want +got):\n%s", diff)
	}
	if got := readLeft(text, nil, false); len(got) > 0 {
		t.Errorf("when nothing is listed: %v", got)
	}
	for _, odd := range []string{"", "x", ",:"} {
		if got := readLeft(odd, listed, true); len(got) > 0 {
			t.Errorf("%q: %v", odd, got)
		}
	}
}
