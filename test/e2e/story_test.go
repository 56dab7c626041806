package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// arrival is far more than an object needs to get to a cluster; it is what a loaded machine may
// take.
const arrival = 2 * time.Minute

// both is a selector of the two clusters of the fleet. It does not select those that a test adds.
const both = "{matchExpressions: [{key: name, operator: In, values: [cluster1, cluster2]}]}"

var (
	configMaps      = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	namespaces      = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	deployments     = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	managedClusters = schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters"}
	manifestWorks   = schema.GroupVersionResource{Group: "work.open-cluster-management.io", Version: "v1", Resource: "manifestworks"}
)

// story is one test's part of the fleet.
type story struct {
	*testing.T
	fleet *testenv.Fleet
	// name is the name of the story's namespace and policy, and the value of its label.
	name string
	// clients has the client of each space that was used. Reading a kubeconfig for each request
	// would take more time than the request.
	clients map[string]dynamic.Interface
	// deleted waits for the objects that are being deleted at the end of the test.
	deleted []func()
}

// tell begins a story. At the end of the test, the objects that it created are deleted. It has
// ended when none is left.
func tell(t *testing.T, fleet *testenv.Fleet) *story {
	t.Helper()
	name := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(t.Name(), "Test"), "/", "-"))
	s := &story{T: t, fleet: fleet, name: name, clients: map[string]dynamic.Interface{}}
	t.Cleanup(func() { // the last one
		for _, wait := range s.deleted {
			wait()
		}
	})
	return s
}

func (s *story) space(space string, gvr schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	s.Helper()
	client := s.clients[space]
	if client == nil {
		var err error
		if client, err = dynamic.NewForConfig(s.fleet.Config(s, space)); err != nil {
			s.Fatal(err)
		}
		s.clients[space] = client
	}
	return client.Resource(gvr)
}

// changing is held while a story changes the fleet: one command at a time may do that.
var changing sync.Mutex

// addCluster adds a cluster to the fleet, with these flags of `starling wec add`.
func (s *story) addCluster(name string, flags ...string) {
	s.Helper()
	changing.Lock()
	defer changing.Unlock()
	if _, err := s.fleet.Run(append([]string{"wec", "add", name}, flags...)...); err != nil {
		s.Fatal(err)
	}
	delete(s.clients, name) // of an earlier cluster of this name, which had another certificate
}

func (s *story) removeCluster(name string) {
	s.Helper()
	changing.Lock()
	defer changing.Unlock()
	if _, err := s.fleet.Run("wec", "remove", name); err != nil {
		s.Fatal(err)
	}
}

// create writes an object, given as YAML in which $NAME is the story's name, and removes it at the
// end of the story.
func (s *story) create(space string, gvr schema.GroupVersionResource, text string) *unstructured.Unstructured {
	s.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(text, "$NAME", s.name)), obj); err != nil {
		s.Fatal(err)
	}
	client := s.space(space, gvr)
	created, err := client.Namespace(obj.GetNamespace()).Create(s.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	namespace, name := created.GetNamespace(), created.GetName() // the server may have chosen the name
	s.Cleanup(func() {
		if gvr == controlv1alpha1.BindingPolicies {
			// The objects in the clusters go with the policy. The other deletions would only be
			// further edits for it.
			s.remove(space, gvr, namespace, name)
			return
		}
		if err := s.space(space, gvr).Namespace(namespace).Delete(contextOf(s.T), name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			s.deleted = append(s.deleted, func() { s.remove(space, gvr, namespace, name) })
		}
	})
	return created
}

// remove deletes an object and waits until it is gone; that it is gone already is fine.
func (s *story) remove(space string, gvr schema.GroupVersionResource, namespace, name string) {
	s.Helper()
	s.removeWithin(arrival, space, gvr, namespace, name)
}

func (s *story) removeWithin(limit time.Duration, space string, gvr schema.GroupVersionResource, namespace, name string) {
	s.Helper()
	client := s.space(space, gvr).Namespace(namespace)
	testenv.Eventually(s, limit, func() (bool, string) {
		// The context of the test has ended when this runs as a cleanup.
		err := client.Delete(contextOf(s.T), name, metav1.DeleteOptions{})
		return apierrors.IsNotFound(err), fmt.Sprintf("%s %s/%s in %s: %v", gvr.Resource, namespace, name, space, err)
	})
}

// namespace creates the story's namespace in the WDS, with its label.
func (s *story) namespace() {
	s.Helper()
	s.create("wds1", namespaces, `{apiVersion: v1, kind: Namespace, metadata: {name: $NAME, labels: {story: $NAME}}}`)
}

func (s *story) configMap(name, value string) {
	s.Helper()
	s.create("wds1", configMaps, fmt.Sprintf(
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: $NAME, labels: {story: $NAME}}, data: {key: %q}}`, name, value))
}

// policy places everything with the story's label on the clusters that match a selector, in YAML.
func (s *story) policy(selector string) {
	s.Helper()
	s.create("wds1", controlv1alpha1.BindingPolicies, fmt.Sprintf(`
apiVersion: control.kubestellar.io/v1alpha1
kind: BindingPolicy
metadata: {name: $NAME}
spec:
  clusterSelectors: [%s]
  downsync:
  - objectSelectors: [{matchLabels: {story: $NAME}}]`, selector))
}

// returning places everything with a label of the story on cluster1 alone, and has its status
// returned. The policy has the name of the story and the suffix, and so has the label's value.
func (s *story) returning(suffix string) {
	s.Helper()
	s.create("wds1", controlv1alpha1.BindingPolicies, strings.ReplaceAll(`
apiVersion: control.kubestellar.io/v1alpha1
kind: BindingPolicy
metadata: {name: $NAME$SUFFIX}
spec:
  clusterSelectors: [{matchLabels: {name: cluster1}}]
  downsync:
  - objectSelectors: [{matchLabels: {story: $NAME$SUFFIX}}]
    wantSingletonReportedState: true`, "$SUFFIX", suffix))
}

func (s *story) patch(space string, gvr schema.GroupVersionResource, namespace, name, mergePatch string) {
	s.Helper()
	_, err := s.space(space, gvr).Namespace(namespace).Patch(s.Context(), name, types.MergePatchType, []byte(mergePatch), metav1.PatchOptions{})
	if err != nil {
		s.Fatal(err)
	}
}

func (s *story) patchStatus(space string, gvr schema.GroupVersionResource, namespace, name, mergePatch string) {
	s.Helper()
	if _, err := s.space(space, gvr).Namespace(namespace).Patch(s.Context(), name, types.MergePatchType, []byte(mergePatch),
		metav1.PatchOptions{}, "status"); err != nil {
		s.Fatal(err)
	}
}

func (s *story) get(space string, gvr schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	s.Helper()
	return s.space(space, gvr).Namespace(namespace).Get(contextOf(s.T), name, metav1.GetOptions{})
}

// arrives waits until the cluster holds the object with this data.
func (s *story) arrives(cluster, name, value string) *unstructured.Unstructured {
	s.Helper()
	var obj *unstructured.Unstructured
	testenv.Eventually(s, arrival, func() (bool, string) {
		var err error
		if obj, err = s.get(cluster, configMaps, s.name, name); err != nil {
			return false, fmt.Sprintf("%s: %v", cluster, err)
		}
		got, _, err := unstructured.NestedString(obj.Object, "data", "key")
		return err == nil && got == value, fmt.Sprintf("%s: ConfigMap %s holds %q, want %q (%v)", cluster, name, got, value, err)
	})
	return obj
}

// leaves waits until the object is gone from a space.
func (s *story) leaves(space string, gvr schema.GroupVersionResource, namespace, name string) {
	s.Helper()
	testenv.Eventually(s, arrival, func() (bool, string) {
		_, err := s.get(space, gvr, namespace, name)
		return apierrors.IsNotFound(err), fmt.Sprintf("%s: %s %s is still there (%v)", space, gvr.Resource, name, err)
	})
}

// isReady waits until the story's policy says that all is applied.
func (s *story) isReady() {
	s.Helper()
	testenv.Eventually(s, arrival, func() (bool, string) {
		policy := s.observed()
		for _, c := range policy.Status.Conditions {
			if c.Type == controlv1alpha1.BindingPolicyConditionReady {
				return c.Status == metav1.ConditionTrue, fmt.Sprintf("Ready is %s: %s: %s %v", c.Status, c.Reason, c.Message, policy.Status.Errors)
			}
		}
		return false, "the policy has no condition Ready"
	})
}

// observed returns the story's policy.
func (s *story) observed() *controlv1alpha1.BindingPolicy {
	s.Helper()
	obj, err := s.get("wds1", controlv1alpha1.BindingPolicies, "", s.name)
	if err != nil {
		s.Fatal(err)
	}
	data, err := json.Marshal(obj)
	if err != nil {
		s.Fatal(err)
	}
	var policy controlv1alpha1.BindingPolicy
	if err := json.Unmarshal(data, &policy); err != nil {
		s.Fatal(err)
	}
	return &policy
}

// labelCluster sets labels of a cluster and takes them away at the end of the story.
func (s *story) labelCluster(cluster string, labels map[string]string) {
	s.Helper()
	patch := func(values map[string]any) string {
		data, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": values}})
		if err != nil {
			s.Fatal(err)
		}
		return string(data)
	}
	set, unset := map[string]any{}, map[string]any{}
	for key, value := range labels {
		set[key], unset[key] = value, nil
	}
	s.patch("its1", managedClusters, "", cluster, patch(set))
	s.Cleanup(func() {
		_, err := s.space("its1", managedClusters).Patch(contextOf(s.T), cluster, types.MergePatchType, []byte(patch(unset)), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			s.Errorf("take the labels of %s away: %v", cluster, err)
		}
	})
}

// works returns the resourceVersions of all works of all mailboxes.
func (s *story) works() map[string]string {
	s.Helper()
	list, err := s.space("its1", manifestWorks).List(s.Context(), metav1.ListOptions{LabelSelector: controlv1alpha1.LabelBindingUID})
	if err != nil {
		s.Fatal(err)
	}
	generations := map[string]string{}
	for i := range list.Items {
		work := &list.Items[i]
		generations[work.GetNamespace()+"/"+work.GetName()] = fmt.Sprintf("%s at generation %d", work.GetUID(), work.GetGeneration())
	}
	return generations
}

func sorted(set map[string]string) []string { return slices.Sorted(maps.Keys(set)) }
