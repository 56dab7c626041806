package binding

import (
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/starlinghq/starling/test/testenv"
)

// TestOwnLeases: the binding-controller updates its own Leases and no others, so it cannot take the
// lead of another program.
func TestOwnLeases(t *testing.T) {
	e := newEnvironment(t)
	for lease, want := range map[string]bool{"binding-controller": true, "binding-controller-binding-status": true, "transport-controller": false, "": false} {
		testenv.Allowed(t, e.fleet.Config(t, "wds1"), want, "system:serviceaccount:starling-system:binding-controller",
			authorizationv1.ResourceAttributes{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: "starling-system", Name: lease})
	}
}
