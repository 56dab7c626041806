package binding

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestDeletionThatWaitsForFinalizers: an object that is being deleted is no workload any more,
// though a finalizer that only a controller of the clusters would remove keeps it in the WDS. With
// a Namespace, all that is in it leaves, and it stays so after a restart.
func TestDeletionThatWaitsForFinalizers(t *testing.T) {
	e := newEnvironment(t)
	wds := e.fleet.Space(t, "wds1")
	shop := e.name + "-shop"
	mine := map[string]string{"test": e.name}
	waiting := func(name string) *unstructured.Unstructured {
		o := object(shop, name, mine)
		o.SetFinalizers([]string{"example.com/wait"})
		return o
	}
	e.create(namespaces, object("", shop, mine))
	e.create(configMaps, waiting("app"))
	e.create(configMaps, waiting("store"))
	e.create(configMaps, object(shop, "settings", mine))
	policy := e.policy("finalizers", fmt.Sprintf(`{"downsync":[{"objectSelectors":[{"matchLabels":{"test":%q}}]}]}`, e.name))
	c := e.start()
	e.eventuallyBound(policy, "namespaces "+shop, "configmaps app", "configmaps settings", "configmaps store")

	wds.Delete(t, configMaps, shop, "app")
	e.eventuallyBound(policy, "namespaces "+shop, "configmaps settings", "configmaps store")
	if o := wds.Get(t, configMaps, shop, "app"); o.GetDeletionTimestamp() == nil {
		t.Error("the object does not wait for its finalizer")
	}

	wds.Delete(t, namespaces, "", shop)
	e.eventuallyBound(policy)
	if o := wds.Get(t, namespaces, "", shop); o.GetDeletionTimestamp() == nil {
		t.Error("the Namespace does not wait for the objects in it")
	}
	c.stop()
	restarted := e.start()
	e.ready(restarted)
	e.eventuallyBound(policy)

	// Nothing in this space empties Namespaces.
	for _, name := range []string{"app", "store"} {
		e.patch(configMaps, shop, name, `{"metadata":{"finalizers":null}}`)
	}
	wds.Remove(t, configMaps, shop, "store")
	wds.Remove(t, configMaps, shop, "settings")
	ending := wds.Get(t, namespaces, "", shop)
	unstructured.RemoveNestedField(ending.Object, "spec", "finalizers")
	if _, err := wds.Client.Resource(namespaces).Update(t.Context(), ending, metav1.UpdateOptions{}, "finalize"); err != nil {
		t.Fatal(err)
	}
	e.create(namespaces, object("", shop, mine))
	e.create(configMaps, object(shop, "settings", mine))
	e.eventuallyBound(policy, "namespaces "+shop, "configmaps settings")
}
