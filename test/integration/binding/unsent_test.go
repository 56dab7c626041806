package binding

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/test/testenv"
)

// TestHandWrittenEndpoints: an EndpointSlice that a user wrote is no workload, and the policy that
// asks for it by its label says so, until it does not any more.
func TestHandWrittenEndpoints(t *testing.T) {
	e := newEnvironment(t)
	wds := e.fleet.Space(t, "wds1")
	endpointSlices := schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
	wds.Apply(t, fmt.Sprintf(`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: legacy-db-1, namespace: %s, labels: {test: %s}},
		addressType: IPv4, endpoints: [{addresses: [192.0.2.1]}]}`, e.name, e.name))
	e.create(configMaps, object(e.name, "settings", map[string]string{"test": e.name}))
	policy := e.policy("endpoints", fmt.Sprintf(`{"downsync":[{"objectSelectors":[{"matchLabels":{"test":%q}}]}]}`, e.name))
	e.start()
	says := func(want string) {
		t.Helper()
		testenv.Eventually(t, patience, func() (bool, string) {
			all := strings.Join(e.getPolicy(policy).Status.Errors, "\n")
			return strings.Contains(all, want) && (want != "" || all == ""), fmt.Sprintf("status.errors are %q, want %q", all, want)
		})
	}
	e.eventuallyBound(policy, "configmaps settings")
	says("no object of resource endpointslices.discovery.k8s.io is workload: endpointslices.discovery.k8s.io " + e.name + "/legacy-db-1")
	wds.Remove(t, endpointSlices, e.name, "legacy-db-1")
	says("")
}
