package status

import (
	"fmt"
	"testing"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
)

func TestClaims(t *testing.T) {
	a := objref.Ref{Resource: "configmaps", Namespace: "web", Name: "a-b"}
	b := objref.Ref{Resource: "configmaps", Namespace: "web-a", Name: "b"}
	c := objref.Ref{Group: "apps", Resource: "deployments", Namespace: "web", Name: "a-b"}
	claims := NewClaims([]objref.Ref{c, a, a})
	for ref, want := range map[objref.Ref]bool{a: true, b: false, c: true} {
		if got := claims.Has(ReportName(ref)); got != want {
			t.Errorf("%s is claimed: %t, want %t", ref, got, want)
		}
	}
	if claims != NewClaims([]objref.Ref{a, c}) {
		t.Error("the order of the objects counts")
	}
	if none := NewClaims(nil); none != "" || none.Has(ReportName(a)) || claims.Has("") || none.Has("") {
		t.Error("nothing claims something")
	}
}

// TestClaimsAreBounded: a work that claims as many objects as a work can have leaves room for what
// else an API server stores of it.
func TestClaimsAreBounded(t *testing.T) {
	refs := make([]objref.Ref, packing.MaxCount)
	for i := range refs {
		refs[i] = objref.Ref{Resource: "configmaps", Namespace: "web", Name: fmt.Sprint(i)}
	}
	const most = 32 << 10
	if got := len(NewClaims(refs)); got > most {
		t.Errorf("%d bytes, want at most %d", got, most)
	}
}
