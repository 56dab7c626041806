package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

func TestPropagate(t *testing.T) {
	s := tell(t, testenv.Shared(t))
	s.namespace()
	s.configMap("settings", "one")
	s.configMap("other", "same")
	s.policy("{}")
	before := map[string]*unstructured.Unstructured{}
	for _, cluster := range []string{"cluster1", "cluster2"} {
		before[cluster] = s.arrives(cluster, "settings", "one")
		s.arrives(cluster, "other", "same")
	}
	s.isReady()

	s.Log("an edit arrives, in the same object")
	s.patch("wds1", configMaps, s.name, "settings", `{"data":{"key":"two"}}`)
	for cluster, was := range before {
		if now := s.arrives(cluster, "settings", "two"); now.GetUID() != was.GetUID() {
			t.Errorf("%s: the object was replaced: UID %s, was %s", cluster, now.GetUID(), was.GetUID())
		}
	}

	s.Log("an object whose label no longer matches leaves; the others stay")
	s.patch("wds1", configMaps, s.name, "settings", `{"metadata":{"labels":{"story":null}}}`)
	for cluster := range before {
		s.leaves(cluster, configMaps, s.name, "settings")
		s.arrives(cluster, "other", "same")
	}

	s.Log("it comes back with its label")
	s.patch("wds1", configMaps, s.name, "settings", `{"metadata":{"labels":{"story":"`+s.name+`"}}}`)
	for cluster := range before {
		s.arrives(cluster, "settings", "two")
	}

	s.Log("a deleted object leaves")
	s.remove("wds1", configMaps, s.name, "settings")
	for cluster := range before {
		s.leaves(cluster, configMaps, s.name, "settings")
	}
	s.isReady()

	s.Log("a deleted policy takes everything along, its Namespace too, and stays until that is so")
	s.remove("wds1", controlv1alpha1.BindingPolicies, "", s.name)
	s.leaves("wds1", controlv1alpha1.Bindings, "", s.name)
	for cluster := range before {
		s.leaves(cluster, configMaps, s.name, "other")
		s.leaves(cluster, namespaces, "", s.name)
	}
}

// TestNothingIsLeftBehind deletes objects the moment they arrive, while the agent is still writing down that they have, and some before: in
// the end neither cluster holds any of them.
func TestNothingIsLeftBehind(t *testing.T) {
	s := tell(t, testenv.Shared(t))
	s.namespace()
	s.configMap("stays", "here")
	s.policy("{}")
	s.arrives("cluster1", "stays", "here")
	s.arrives("cluster2", "stays", "here")

	hub := s.space("wds1", configMaps).Namespace(s.name)
	far := s.space("cluster1", configMaps).Namespace(s.name)
	const rounds = 60
	for i := range rounds {
		// Names come again: an object that comes back may still be listed from before.
		name := fmt.Sprint("brief-", i%7)
		obj := &unstructured.Unstructured{}
		obj.SetAPIVersion("v1")
		obj.SetKind("ConfigMap")
		obj.SetName(name)
		obj.SetLabels(map[string]string{"story": s.name})
		if _, err := hub.Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if i%3 > 0 {
			err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, arrival, true, func(ctx context.Context) (bool, error) {
				_, err := far.Get(ctx, name, metav1.GetOptions{})
				return err == nil, nil
			})
			if err != nil {
				t.Fatalf("%s does not arrive: %v", name, err)
			}
		}
		if err := hub.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 7 {
		s.leaves("cluster1", configMaps, s.name, fmt.Sprint("brief-", i))
		s.leaves("cluster2", configMaps, s.name, fmt.Sprint("brief-", i))
	}
	s.arrives("cluster1", "stays", "here")
	s.isReady()
}

func TestClusterLabels(t *testing.T) {
	s := tell(t, testenv.Shared(t))
	s.namespace()
	s.configMap("settings", "one")
	s.policy("{matchLabels: {story-" + s.name + ": here}}")

	s.labelCluster("cluster1", map[string]string{"story-" + s.name: "here"})
	s.arrives("cluster1", "settings", "one")
	s.isReady()
	s.leaves("cluster2", configMaps, s.name, "settings") // was never there

	s.labelCluster("cluster2", map[string]string{"story-" + s.name: "here"})
	s.arrives("cluster2", "settings", "one")

	s.labelCluster("cluster1", map[string]string{"story-" + s.name: "elsewhere"})
	s.leaves("cluster1", configMaps, s.name, "settings")
	s.arrives("cluster2", "settings", "one")
	s.isReady()
}

func TestClustersComeAndGo(t *testing.T) {
	fleet := testenv.Shared(t)
	s := tell(t, fleet)
	s.namespace()
	s.configMap("settings", "one")
	s.policy("{matchLabels: {site: far}}")
	if out, err := fleet.Run("wec", "add", "cluster3", "--labels", "site=far"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.arrives("cluster3", "settings", "one")
	s.isReady()

	if out, err := fleet.Run("wec", "remove", "cluster3"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	testenv.Eventually(t, arrival, func() (bool, string) {
		binding, err := s.get("wds1", controlv1alpha1.Bindings, "", s.name)
		if err != nil {
			return false, err.Error()
		}
		destinations, _, err := unstructured.NestedSlice(binding.Object, "spec", "destinations")
		return err == nil && len(destinations) == 0, "the Binding still names the cluster that was removed"
	})
}

func TestErrorOfAClusterReachesThePolicy(t *testing.T) {
	s := tell(t, testenv.Shared(t))
	s.create("cluster1", namespaces, `{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`)
	s.create("cluster1", configMaps,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: $NAME}, data: {key: old}, immutable: true}`)
	s.namespace()
	s.configMap("settings", "new")
	s.policy("{}")

	s.arrives("cluster2", "settings", "new")
	testenv.Eventually(t, arrival, func() (bool, string) {
		errors := s.observed().Status.Errors
		said := strings.Join(errors, "\n")
		return strings.Contains(said, "cluster1") && strings.Contains(said, "settings") && strings.Contains(said, "immutable"),
			"status.errors of the policy: " + said
	})
	if said := strings.Join(s.observed().Status.Errors, "\n"); strings.Contains(said, "cluster2") {
		t.Errorf("status.errors speaks of a cluster that is fine: %s", said)
	}
	binding, err := s.get("wds1", controlv1alpha1.Bindings, "", s.name)
	if err != nil {
		t.Fatal(err)
	}
	if errors, _, err := unstructured.NestedStringSlice(binding.Object, "status", "errors"); err != nil || len(errors) == 0 {
		t.Errorf("status.errors of the Binding: %v (%v), want the error of the cluster", errors, err)
	}
}
