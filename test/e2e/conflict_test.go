package e2e

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// TestConflictOfTwoWDSes has two WDSes that want the same objects in one cluster. The first one
// delivers them. When it releases them, the other one adopts them as they are. A Namespace must not
// be deleted in between, because everything in it would be deleted too.
func TestConflictOfTwoWDSes(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	place := func(space, value, color string) {
		t.Helper()
		s.create(space, namespaces, fmt.Sprintf(`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME, labels: {story: $NAME, color: %s}}}`, color))
		s.create(space, configMaps, fmt.Sprintf(
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: $NAME, labels: {story: $NAME}}, data: {key: %q}}`, value))
		s.create(space, controlv1alpha1.BindingPolicies, `
apiVersion: control.kubestellar.io/v1alpha1
kind: BindingPolicy
metadata: {name: $NAME}
spec:
  clusterSelectors: [{matchLabels: {name: cluster1}}]
  downsync:
  - objectSelectors: [{matchLabels: {story: $NAME}}]`)
	}
	place("wds1", "first", "red")
	before := s.arrives("cluster1", "settings", "first")
	home := s.namespaceIn("cluster1", "red")
	s.isReady()

	s.Log("a second one wants them too: nothing changes, and both report the conflict")
	place("wds2", "second", "blue")
	// Both, of each object: the claim to the ConfigMap follows that to its Namespace, and an object
	// without a claim is deleted when the first WDS removes it.
	for _, object := range []string{"namespaces " + s.name, "configmaps " + s.name + "/settings"} {
		s.saysOn("wds2", object+`: WDS "wds1" (Binding "`+s.name+`") delivers this object, with different content; this Binding does not deliver it`)
		s.saysOn("wds1", object+`: WDS "wds2" (Binding "`+s.name+`") wants to deliver this object too, with different content; this Binding delivers it`)
	}
	s.patch("wds1", configMaps, s.name, "settings", `{"data":{"key":"edited"}}`)
	s.patch("wds2", configMaps, s.name, "settings", `{"data":{"key":"waiting"}}`)
	if now := s.arrives("cluster1", "settings", "edited"); now.GetUID() != before.GetUID() {
		t.Errorf("the object was replaced: UID %s, was %s", now.GetUID(), before.GetUID())
	}

	s.Log("the first one leaves: the second one takes the same objects over")
	s.remove("wds1", controlv1alpha1.BindingPolicies, "", s.name)
	if now := s.arrives("cluster1", "settings", "waiting"); now.GetUID() != before.GetUID() {
		t.Errorf("the object was replaced: UID %s, was %s", now.GetUID(), before.GetUID())
	}
	if now := s.namespaceIn("cluster1", "blue"); now.GetUID() != home.GetUID() {
		t.Errorf("the Namespace was replaced: UID %s, was %s", now.GetUID(), home.GetUID())
	}
	s.saysOn("wds2", "")

	s.Log("and takes them along")
	s.remove("wds2", controlv1alpha1.BindingPolicies, "", s.name)
	s.leaves("cluster1", configMaps, s.name, "settings")
	s.leaves("cluster1", namespaces, "", s.name)
}

// TestStatusOfTwoWDSes: the status of an object that two WDSes want comes back to the one that
// delivers it, although the work of the other one, which claims it, is older; and to both once they
// deliver the same.
func TestStatusOfTwoWDSes(t *testing.T) {
	t.Parallel()
	s := balanced(t, `{matchLabels: {name: nowhere}}`)
	for _, manifest := range []struct {
		resource schema.GroupVersionResource
		text     string
	}{
		{namespaces, `{apiVersion: v1, kind: Namespace, metadata: {name: $NAME, labels: {story: $NAME}}}`},
		{configMaps, `{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: $NAME, labels: {story: $NAME}}, data: {key: first}}`},
		{controlv1alpha1.BindingPolicies, `
apiVersion: control.kubestellar.io/v1alpha1
kind: BindingPolicy
metadata: {name: $NAME}
spec:
  clusterSelectors: [{matchLabels: {name: cluster1}}]
  downsync:
  - objectSelectors: [{matchLabels: {story: $NAME}}]
    wantSingletonReportedState: true`},
	} {
		s.create("wds2", manifest.resource, manifest.text)
	}
	s.arrives("cluster1", "settings", "first") // its work is older than what follows
	s.patch("wds1", controlv1alpha1.BindingPolicies, "", s.name, `{"spec":{"clusterSelectors":[{"matchLabels":{"name":"cluster1"}}]}}`)
	s.address("cluster1", "192.0.2.1")
	s.shows("192.0.2.1")

	s.Log("the other one wants the Service too, with other content, and has room for it in its work")
	s.create("wds2", services, `
apiVersion: v1
kind: Service
metadata: {name: door, namespace: $NAME, labels: {story: $NAME}}
spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{port: 81}]}`)
	s.saysOn("wds2", `delivers this object, with different content; this Binding does not deliver it`)
	testenv.Eventually(t, arrival, func() (bool, string) {
		list, err := s.space("cluster1", appliedWorks).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		holding := 0
		for i := range list.Items {
			resources, _, _ := unstructured.NestedSlice(list.Items[i].Object, "status", "appliedResources")
			for _, r := range resources {
				if r, ok := r.(map[string]any); ok && r["resource"] == "services" && r["namespace"] == s.name {
					holding++
				}
			}
		}
		return holding == 2, fmt.Sprintf("%d works hold the Service in the cluster", holding)
	})
	s.address("cluster1", "192.0.2.2")
	s.shows("192.0.2.2")
	if got := s.shownIn("wds2"); got != "" {
		t.Errorf("the WDS that only claims the object shows %q", got)
	}

	s.Log("and then the same content: both deliver it")
	s.patch("wds2", services, s.name, "door", `{"spec":{"ports":[{"port":80}]}}`)
	s.saysOn("wds2", "")
	s.address("cluster1", "192.0.2.3")
	for _, space := range []string{"wds1", "wds2"} {
		testenv.Eventually(t, arrival, func() (bool, string) { return s.shownIn(space) == "192.0.2.3", space + " shows " + s.shownIn(space) })
	}
}

// namespaceIn waits until the story's Namespace has a color in a cluster.
func (s *story) namespaceIn(cluster, color string) (found *unstructured.Unstructured) {
	s.Helper()
	testenv.Eventually(s, arrival, func() (bool, string) {
		ns, err := s.get(cluster, namespaces, "", s.name)
		if err != nil {
			return false, err.Error()
		}
		found = ns
		return ns.GetLabels()["color"] == color, fmt.Sprint(ns.GetLabels())
	})
	return found
}

// saysOn waits until the policy in a WDS says something in status.errors; "" is that it says
// nothing.
func (s *story) saysOn(space, text string) {
	s.Helper()
	testenv.Eventually(s, arrival, func() (bool, string) {
		obj, err := s.get(space, controlv1alpha1.BindingPolicies, "", s.name)
		if err != nil {
			return false, err.Error()
		}
		policy := &controlv1alpha1.BindingPolicy{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, policy); err != nil {
			s.Fatal(err)
		}
		all := strings.Join(policy.Status.Errors, "\n")
		if text == "" {
			return all == "", all
		}
		return strings.Contains(all, text), fmt.Sprintf("%+v", policy.Status)
	})
}
