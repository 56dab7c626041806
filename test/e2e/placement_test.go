package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

func TestPropagate(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	s.namespace()
	s.configMap("settings", "one")
	s.configMap("other", "same")
	s.policy(both)
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

// TestNothingIsLeftBehind deletes objects the moment they arrive, while the agent is still writing
// down that they have, and some before: in the end neither cluster holds any of them.
func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	s.namespace()
	s.configMap("stays", "here")
	s.policy(both)
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

// TestBriefPoliciesLeaveNothingBehind deletes policies while their first work is being applied.
// OCM's agent releases a deleted work of which it has no account yet, while it still applies it.
func TestBriefPoliciesLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	s.namespace()
	s.configMap("stays", "here")
	s.policy(both)
	s.arrives("cluster1", "stays", "here")

	policies, hub := s.space("wds1", controlv1alpha1.BindingPolicies), s.space("wds1", configMaps).Namespace(s.name)
	far := s.space("cluster1", configMaps).Namespace(s.name)
	works := s.space("its1", manifestWorks).Namespace("cluster1")
	const rounds = 80
	var running errgroup.Group
	running.SetLimit(8)
	for i := range rounds {
		name := fmt.Sprintf("%s-%d", s.name, i)
		running.Go(func() error {
			label := map[string]any{"brief": name}
			configMap := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "labels": label},
			}}
			if _, err := hub.Create(t.Context(), configMap, metav1.CreateOptions{}); err != nil {
				return err
			}
			policy := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy", "metadata": map[string]any{"name": name},
				"spec": map[string]any{
					"clusterSelectors": []any{map[string]any{"matchLabels": map[string]any{"name": "cluster1"}}},
					"downsync":         []any{map[string]any{"objectSelectors": []any{map[string]any{"matchLabels": label}}}},
				},
			}}
			if _, err := policies.Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
				return err
			}
			begun := func(ctx context.Context) (bool, error) {
				if i%2 == 0 { // the object is there, and the agent has hardly noted it
					_, err := far.Get(ctx, name, metav1.GetOptions{})
					return err == nil, nil
				}
				binding, err := s.space("wds1", controlv1alpha1.Bindings).Get(ctx, name, metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return false, nil
				}
				if err != nil {
					return false, err
				}
				list, err := works.List(ctx, metav1.ListOptions{LabelSelector: controlv1alpha1.LabelBindingUID + "=" + string(binding.GetUID())})
				return err == nil && len(list.Items) > 0, nil
			}
			if err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, arrival, true, begun); err != nil {
				return fmt.Errorf("policy %s: %w", name, err)
			}
			return policies.Delete(t.Context(), name, metav1.DeleteOptions{})
		})
	}
	if err := running.Wait(); err != nil {
		t.Fatal(err)
	}
	for i := range rounds {
		name := fmt.Sprintf("%s-%d", s.name, i)
		s.leaves("wds1", controlv1alpha1.BindingPolicies, "", name)
		s.leaves("cluster1", configMaps, s.name, name)
	}
}

func TestClusterLabels(t *testing.T) {
	t.Parallel()
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

func TestErrorOfAClusterReachesThePolicy(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	s.create("cluster1", namespaces, `{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`)
	s.create("cluster1", configMaps,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: $NAME}, data: {key: old}, immutable: true}`)
	s.namespace()
	s.configMap("settings", "new")
	s.policy(both)

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
