package binding

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// TestSameNameInTwoInventories: of two clusters of one name the one that was accepted first is the
// destination, whatever the order of the inventories. The other one has a condition that says so,
// and becomes the destination when the first one leaves.
func TestSameNameInTwoInventories(t *testing.T) {
	e := newEnvironment(t)
	e.fleet.Space(t, "wds1").Install(t, testenv.ManagedClusterCRD(t)) // the other inventory is in the WDS: any API server can hold one
	labelled := func(inventory string) map[string]string {
		return map[string]string{"test": e.name, "inventory": inventory}
	}
	e.cluster(e.name, labelled("first"))
	late := object("", e.name, labelled("second"))
	late.SetAPIVersion(managed.GroupVersion().String())
	late.SetKind("ManagedCluster")
	late.Object["spec"] = map[string]any{"hubAcceptsClient": true}
	earlier, err := e.its.Resource(managed).Get(t.Context(), e.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func() (bool, string) { // times are kept in seconds
		created, err := e.wds.Resource(managed).Create(t.Context(), late, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if created.GetCreationTimestamp().After(earlier.GetCreationTimestamp().Time) {
			return true, ""
		}
		return e.wds.Resource(managed).Delete(t.Context(), e.name, metav1.DeleteOptions{}) != nil, "it is not younger"
	})
	t.Cleanup(func() { _ = e.wds.Resource(managed).Delete(t.Context(), e.name, metav1.DeleteOptions{}) })

	first := e.policy("first", fmt.Sprintf(`{"clusterSelectors":[{"matchLabels":{"test":%q,"inventory":"first"}}]}`, e.name))
	second := e.policy("second", fmt.Sprintf(`{"clusterSelectors":[{"matchLabels":{"test":%q,"inventory":"second"}}]}`, e.name))
	c := e.start(inventoryOf(t, "its2", e.identity("wds1")), e.inventory())
	e.eventuallyBound(first, "-> "+e.name)
	e.eventuallyBound(second)
	marked := func(want bool) {
		t.Helper()
		testenv.Eventually(t, patience, func() (bool, string) {
			obj, err := e.wds.Resource(managed).Get(t.Context(), e.name, metav1.GetOptions{})
			if err != nil {
				return false, err.Error()
			}
			var cluster clusterv1.ManagedCluster
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &cluster); err != nil {
				t.Fatal(err)
			}
			got := meta.FindStatusCondition(cluster.Status.Conditions, controlv1alpha1.ManagedClusterConditionNameTaken)
			return (got != nil) == want, fmt.Sprintf("condition %+v", got)
		})
	}
	marked(true)

	// The one that bears the name is out of reach: the other stays refused, also after a restart.
	c.stop()
	c = e.start(inventoryOf(t, "its2", e.identity("wds1")), unreachable("its1"))
	other := e.policy("other", `{"clusterSelectors":[{"matchLabels":{"inventory":"second"}}]}`)
	e.eventuallyCondition(other, synced, "Unknown NotObserved")
	e.eventuallyBound(second)
	e.eventuallyBound(first, "-> "+e.name)
	marked(true)
	// The label is on the one that is refused, and says nothing of the other.
	if _, err := e.wds.Resource(managed).Patch(t.Context(), e.name, types.MergePatchType, []byte(`{"metadata":{"labels":{"starling.io/drained":"true"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	seen := e.policy("seen", `{"clusterSelectors":[{"matchLabels":{"inventory":"second"}}]}`)
	e.eventuallyCondition(seen, synced, "Unknown NotObserved")
	e.eventuallyBound(first, "-> "+e.name)
	if _, err := e.wds.Resource(managed).Patch(t.Context(), e.name, types.MergePatchType, []byte(`{"metadata":{"labels":{"starling.io/drained":null}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	c.stop()

	e.start(inventoryOf(t, "its2", e.identity("wds1")), e.inventory())
	if err := e.its.Resource(managed).Delete(t.Context(), e.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.eventuallyBound(second, "-> "+e.name)
	e.eventuallyBound(first)
	marked(false)
}
