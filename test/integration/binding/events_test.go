package binding

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/test/testenv"
)

// TestEvents: the controller reports as events when a policy becomes ready and when its spec is
// invalid. It runs with its production rights.
func TestEvents(t *testing.T) {
	e := newEnvironment(t)
	e.cluster(e.name, map[string]string{"test": e.name})
	e.create(configMaps, object(e.name, "a", nil))
	e.start()
	events := schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}
	eventually := func(policy string, want ...string) {
		t.Helper()
		testenv.Eventually(t, patience, func() (bool, string) {
			list, err := e.wds.Resource(events).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range list.Items {
				o := list.Items[i].Object
				if regarding, _ := o["regarding"].(map[string]any); regarding["name"] == policy && regarding["kind"] == "BindingPolicy" {
					got = append(got, fmt.Sprint(o["type"], " ", o["reason"]))
				}
			}
			slices.Sort(got)
			return slices.Equal(want, got), fmt.Sprintf("events %q, want %q", got, want)
		})
	}
	spec := fmt.Sprintf(`{"clusterSelectors":[{"matchLabels":{"test":%q}}],"downsync":[{"namespaces":[%q]}]}`, e.name, e.name)
	policy := e.policy("p", spec)
	e.eventuallyBound(policy, "configmaps a", "-> "+e.name)
	e.answer(policy, true)
	eventually(policy, "Normal Ready")
	e.patch(policies, "", policy, `{"spec":{"downsync":[{"objectSelectors":[{"matchLabels":{"-":"x"}}]}]}}`)
	eventually(policy, "Normal Ready", "Warning InvalidSpec")
}
