package e2e

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/starlinghq/starling/test/testenv"
)

// TestDeletionThatWaitsForFinalizers: an object with a finalizer that only a controller of the
// clusters would remove is deleted in the WDS. It leaves the clusters, though it stays in the WDS.
// So does everything in a Namespace that is deleted and that such an object keeps.
func TestDeletionThatWaitsForFinalizers(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	s.namespace()
	s.configMap("settings", "one")
	for _, name := range []string{"app", "store"} {
		s.create("wds1", configMaps, `{apiVersion: v1, kind: ConfigMap,
metadata: {name: `+name+`, namespace: $NAME, labels: {story: $NAME}, finalizers: [example.com/wait]}, data: {key: one}}`)
		s.Cleanup(func() { s.letGo("wds1", name) })
	}
	s.policy(both)
	for _, cluster := range []string{"cluster1", "cluster2"} {
		for _, name := range []string{"settings", "app", "store"} {
			if copied := s.arrives(cluster, name, "one"); len(copied.GetFinalizers()) > 0 {
				t.Errorf("%s: %s has the finalizers %v, which nobody there removes", cluster, name, copied.GetFinalizers())
			}
		}
	}

	deleteIn := func(name string) {
		if err := s.space("wds1", configMaps).Namespace(s.name).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	deleteIn("app")
	for _, cluster := range []string{"cluster1", "cluster2"} {
		s.leaves(cluster, configMaps, s.name, "app")
		s.arrives(cluster, "store", "one")
	}
	s.isReady()
	if o, err := s.get("wds1", configMaps, s.name, "app"); err != nil || o.GetDeletionTimestamp() == nil {
		t.Errorf("the object does not wait in the WDS (%v)", err)
	}

	if err := s.space("wds1", namespaces).Delete(t.Context(), s.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, cluster := range []string{"cluster1", "cluster2"} {
		s.leaves(cluster, configMaps, s.name, "store")
		s.leaves(cluster, configMaps, s.name, "settings")
		s.leaves(cluster, namespaces, "", s.name)
	}
	if o, err := s.get("wds1", namespaces, "", s.name); err != nil || o.GetDeletionTimestamp() == nil {
		t.Errorf("the Namespace does not wait in the WDS (%v)", err)
	}
}
