package binding

import (
	"fmt"
	"slices"
	"testing"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/test/testenv"
)

// TestStatusErrors: the policies that request the status of an object report why it is not
// returned, also after a restart.
func TestStatusErrors(t *testing.T) {
	e := newEnvironment(t)
	e.cluster(e.name, map[string]string{"test": e.name})
	e.deployment(e.name, "web", nil)
	c := e.start()
	spec := func(asks bool) string {
		return fmt.Sprintf(`{"clusterSelectors":[{"matchLabels":{"test":%q}}],"downsync":[{"namespaces":[%q],"wantMultiWECReportedState":%v}]}`, e.name, e.name, asks)
	}
	asking, other := e.policy("asking", spec(true)), e.policy("other", spec(false))
	for _, policy := range []string{asking, other} {
		e.eventuallyBound(policy, "deployments web", "-> "+e.name)
	}
	errors := func(policy string, want ...string) {
		t.Helper()
		testenv.Eventually(t, patience, func() (bool, string) {
			got := e.getPolicy(policy).Status.Errors
			return slices.Equal(got, want), fmt.Sprintf("%s: errors %q, want %q", policy, got, want)
		})
	}
	ref := objref.New(deployments.GroupResource(), e.name, "web")
	c.SetStatusError(ref, "the right is missing")
	errors(asking, "status return: the right is missing")
	errors(other)
	c.SetStatusError(ref, "")
	errors(asking)

	c.SetStatusError(ref, "the right is missing")
	errors(asking, "status return: the right is missing")
	c.stop()
	c = e.start()
	e.expectNoWrites(c) // it is not found out again yet
	c.SetStatusError(ref, "something else")
	errors(asking, "status return: something else")
	c.stop()
	e.start()
	errors(asking) // it is not found out again
}
