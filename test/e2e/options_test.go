package e2e

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// TestOptions: what a cluster fills in or decides by itself is not taken back by the hub.
func TestOptions(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	claims := schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	autoscalers := schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}
	s.namespace()
	s.configMap("settings", "one")
	s.patch("wds1", configMaps, s.name, "settings", `{"metadata":{"annotations":{"starling.io/apply":"create-only"}}}`)
	for _, name := range []string{"kept", "kept-to-the-end"} {
		s.configMap(name, "one")
		s.patch("wds1", configMaps, s.name, name, `{"metadata":{"annotations":{"starling.io/on-removal":"orphan"}}}`)
	}
	s.create("wds1", claims, `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: $NAME, labels: {story: $NAME}}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}`)
	s.create("wds1", deployments, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: scaled, namespace: $NAME, labels: {story: $NAME}}
spec:
  replicas: 1
  selector: {matchLabels: {app: scaled}}
  template:
    metadata: {labels: {app: scaled}}
    spec: {containers: [{name: scaled, image: "example.com/scaled:1"}]}`)
	s.create("wds1", autoscalers, `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: scaled, namespace: $NAME, labels: {story: $NAME}}
spec: {maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: scaled}}`)
	s.policy(both)
	s.arrives("cluster1", "settings", "one")
	s.arrives("cluster1", "kept", "one")
	s.isReady()

	s.Log("the cluster binds the claim to a volume, and scales the Deployment")
	s.patch("cluster1", claims, s.name, "data", `{"spec":{"volumeName":"disk-of-the-cluster"}}`)
	_, err := s.space("cluster1", deployments).Namespace(s.name).Patch(t.Context(), "scaled", types.MergePatchType,
		[]byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{FieldManager: "autoscaler"}, "scale")
	if err != nil {
		t.Fatal(err)
	}

	s.Log("edits in the WDS arrive, and take nothing of that back")
	s.patch("wds1", claims, s.name, "data", `{"metadata":{"labels":{"edited":"yes"}}}`)
	s.patch("wds1", deployments, s.name, "scaled", `{"spec":{"minReadySeconds":7}}`)
	testenv.Eventually(t, arrival, func() (bool, string) {
		claim, err := s.get("cluster1", claims, s.name, "data")
		if err != nil {
			return false, err.Error()
		}
		volume, _, _ := unstructured.NestedString(claim.Object, "spec", "volumeName")
		return claim.GetLabels()["edited"] == "yes" && volume == "disk-of-the-cluster",
			fmt.Sprintf("the claim has labels %v and volume %q; errors %q", claim.GetLabels(), volume, s.observed().Status.Errors)
	})
	testenv.Eventually(t, arrival, func() (bool, string) {
		deployment, err := s.get("cluster1", deployments, s.name, "scaled")
		if err != nil {
			return false, err.Error()
		}
		seconds, _, _ := unstructured.NestedInt64(deployment.Object, "spec", "minReadySeconds")
		replicas, _, _ := unstructured.NestedInt64(deployment.Object, "spec", "replicas")
		if seconds == 7 && replicas != 3 {
			t.Fatalf("the edit set the replicas to %d", replicas)
		}
		return seconds == 7, fmt.Sprintf("minReadySeconds is %d; errors %q", seconds, s.observed().Status.Errors)
	})
	s.isReady()

	s.Log("a create-only object is not updated; an orphaned object stays when it leaves the policy")
	s.patch("wds1", configMaps, s.name, "settings", `{"data":{"key":"two"}}`)
	s.patch("wds1", configMaps, s.name, "kept", `{"data":{"key":"two"}}`)
	s.arrives("cluster1", "kept", "two")
	s.isReady()
	s.arrives("cluster1", "settings", "one")
	s.remove("wds1", configMaps, s.name, "kept")
	s.remove("wds1", configMaps, s.name, "settings")
	s.leaves("cluster1", configMaps, s.name, "settings")
	s.arrives("cluster1", "kept", "two")

	s.Log("when the policy goes, the Namespace of an orphaned object stays with it")
	uid := s.arrives("cluster1", "kept-to-the-end", "one").GetUID()
	s.remove("wds1", controlv1alpha1.BindingPolicies, "", s.name)
	s.leaves("cluster1", claims, s.name, "data")
	namespace, err := s.get("cluster1", namespaces, "", s.name)
	if err != nil || namespace.GetDeletionTimestamp() != nil || s.arrives("cluster1", "kept-to-the-end", "one").GetUID() != uid {
		t.Errorf("the Namespace is %v: %v", namespace, err)
	}
	for _, cluster := range []string{"cluster1", "cluster2"} { // what no policy has any more
		s.remove(cluster, namespaces, "", s.name)
	}
}

// TestIgnoredFields: a field that nobody changed in a cluster keeps its value, when the object is
// created, when an autoscaler comes, and when it goes; all other fields are repaired, and go.
func TestIgnoredFields(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	autoscalers := grouped("autoscaling", "horizontalpodautoscalers")
	autoscalers.Version = "v2"
	s.namespace()
	deployment := func(name, annotations string) {
		t.Helper()
		s.create("wds1", deployments, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: `+name+`, namespace: $NAME, labels: {story: $NAME, old: "1"}, annotations: {`+annotations+`}}
spec:
  replicas: 5
  selector: {matchLabels: {app: `+name+`}}
  template:
    metadata: {labels: {app: `+name+`}}
    spec: {containers: [{name: c, image: "example.com/c:1"}]}`)
	}
	deployment("ignoring", `starling.io/ignore-fields: .spec.replicas`)
	deployment("scaled", "")
	deployment("at-once", "")
	s.create("wds1", services, `{apiVersion: v1, kind: Service, metadata: {name: alone, namespace: $NAME, labels: {story: $NAME},
		annotations: {starling.io/ignore-fields: .spec.selector.app}}, spec: {selector: {app: alone}, ports: [{port: 80}]}}`)
	s.policy(both)
	holds := func(what, cluster, name string, replicas int64, labels map[string]string) {
		t.Helper()
		testenv.Eventually(t, arrival, func() (bool, string) {
			d, err := s.get(cluster, deployments, s.name, name)
			if err != nil {
				return false, err.Error()
			}
			got, _, _ := unstructured.NestedInt64(d.Object, "spec", "replicas")
			if got != replicas {
				t.Fatalf("%s: %s in %s has %d replicas, want %d", what, name, cluster, got, replicas)
			}
			for key, value := range labels {
				if d.GetLabels()[key] != value {
					return false, fmt.Sprintf("%s: %s in %s has the labels %v; errors %q", what, name, cluster, d.GetLabels(), s.observed().Status.Errors)
				}
			}
			return true, ""
		})
	}
	all := func(what string, labels map[string]string) {
		t.Helper()
		for _, cluster := range []string{"cluster1", "cluster2"} {
			holds(what, cluster, "ignoring", 5, labels)
			holds(what, cluster, "scaled", 5, labels)
		}
	}
	s.isReady()
	all("created", nil)

	s.Log("an autoscaler comes beside a running Deployment; nothing else is edited")
	s.create("wds1", autoscalers, `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: scaled, namespace: $NAME, labels: {story: $NAME}}
spec: {minReplicas: 5, maxReplicas: 9, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: scaled}}`)
	for _, cluster := range []string{"cluster1", "cluster2"} {
		testenv.Eventually(t, arrival, func() (bool, string) {
			_, err := s.get(cluster, autoscalers, s.name, "scaled")
			return err == nil, fmt.Sprintf("the autoscaler in %s: %v", cluster, err)
		})
	}
	s.isReady()
	all("the autoscaler came", nil)

	s.Log("the option comes in the write that removes the field")
	s.patch("wds1", deployments, s.name, "at-once", `{"metadata":{"labels":{"new":"1"},"annotations":{"starling.io/ignore-fields":".spec.replicas"}},"spec":{"replicas":null}}`)
	for _, cluster := range []string{"cluster1", "cluster2"} {
		holds("the field went", cluster, "at-once", 5, map[string]string{"new": "1"})
	}
	s.isReady()
	s.patch("wds1", deployments, s.name, "at-once", `{"metadata":{"labels":{"new":"2"}}}`)
	for _, cluster := range []string{"cluster1", "cluster2"} {
		holds("an edit after the field went", cluster, "at-once", 5, map[string]string{"new": "2"})
		service, err := s.get(cluster, services, s.name, "alone")
		if err != nil {
			t.Fatal(err)
		}
		if selector, _, _ := unstructured.NestedStringMap(service.Object, "spec", "selector"); selector["app"] != "alone" {
			t.Errorf("the Service in %s has the selector %v", cluster, selector)
		}
	}

	s.Log("labels come and go, and drift of them is repaired")
	for _, name := range []string{"ignoring", "scaled"} {
		s.patch("wds1", deployments, s.name, name, `{"metadata":{"labels":{"old":null,"new":"1"}}}`)
	}
	all("an edit", map[string]string{"old": "", "new": "1"})
	s.patch("cluster1", deployments, s.name, "ignoring", `{"metadata":{"labels":{"new":"changed"}},"spec":{"replicas":7}}`)
	s.patch("wds1", deployments, s.name, "ignoring", `{"metadata":{"labels":{"more":"1"}}}`)
	holds("drift", "cluster1", "ignoring", 7, map[string]string{"new": "1", "more": "1"})

	s.Log("the autoscaler goes, and the Deployment that a cluster lost comes back as it was")
	s.remove("wds1", autoscalers, s.name, "scaled")
	s.leaves("cluster1", autoscalers, s.name, "scaled")
	s.isReady()
	holds("the autoscaler went", "cluster1", "scaled", 5, nil)
	s.remove("cluster2", deployments, s.name, "ignoring")
	s.patch("wds1", deployments, s.name, "ignoring", `{"metadata":{"labels":{"more":"2"}}}`)
	testenv.Eventually(t, arrival, func() (bool, string) {
		d, err := s.get("cluster2", deployments, s.name, "ignoring")
		if err != nil {
			return false, err.Error()
		}
		replicas, _, _ := unstructured.NestedInt64(d.Object, "spec", "replicas")
		return replicas == 5, fmt.Sprintf("the new Deployment has %d replicas", replicas)
	})

	s.Log("without the annotation the cluster gets the value of the WDS")
	s.patch("wds1", deployments, s.name, "ignoring", `{"metadata":{"annotations":{"starling.io/ignore-fields":null}}}`)
	testenv.Eventually(t, arrival, func() (bool, string) {
		d, err := s.get("cluster1", deployments, s.name, "ignoring")
		if err != nil {
			return false, err.Error()
		}
		replicas, _, _ := unstructured.NestedInt64(d.Object, "spec", "replicas")
		return replicas == 5, fmt.Sprintf("the Deployment has %d replicas", replicas)
	})
	s.isReady()

	s.Log("a path into a list is an error")
	s.patch("wds1", deployments, s.name, "ignoring", `{"metadata":{"annotations":{"starling.io/ignore-fields":".spec.template.spec.containers[0].image"}}}`)
	testenv.Eventually(t, arrival, func() (bool, string) {
		errors := strings.Join(s.observed().Status.Errors, "\n")
		return strings.Contains(errors, "is in a list"), fmt.Sprintf("errors %q", errors)
	})
	s.remove("wds1", controlv1alpha1.BindingPolicies, "", s.name)
	s.leaves("cluster1", deployments, s.name, "ignoring")
	s.leaves("cluster2", deployments, s.name, "scaled")
}

// TestRemovalsArrive: what is removed from an object in the WDS is removed in the clusters, and
// what others added there stays.
func TestRemovalsArrive(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	s.namespace()
	const (
		meta = `metadata: {name: removals, namespace: $NAME, labels: {story: $NAME, old: "1"}, annotations: {old: "1"}}`
		pod  = `{metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: example.com/c:1, env: [{name: OLD, value: one}, {name: NEW, value: two}]}]}}`
	)
	cases := []struct {
		resource schema.GroupVersionResource
		// text is the object without its end; edit removes what contains gone.
		text, edit, gone string
	}{
		{configMaps, "{kind: ConfigMap, apiVersion: v1, data: {OLD: one, new: two}", `{"data":{"OLD":null}}`, `"OLD"`},
		{core("secrets"), "{kind: Secret, apiVersion: v1, stringData: {OLD: one, new: two}", `{"data":{"OLD":null}}`, `"OLD"`},
		{
			core("services"), "{kind: Service, apiVersion: v1, spec: {selector: {a: b}, ports: [{name: new, port: 80}, {name: old, port: 8080}]}",
			`{"spec":{"ports":[{"name":"new","port":80}]}}`, `8080`,
		},
		{
			core("serviceaccounts"), "{kind: ServiceAccount, apiVersion: v1, automountServiceAccountToken: true",
			`{"automountServiceAccountToken":false}`, `"automountServiceAccountToken":true`,
		},
		{
			deployments, "{kind: Deployment, apiVersion: apps/v1, spec: {replicas: 0, selector: {matchLabels: {a: b}}, template: " + pod + "}",
			`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"example.com/c:1","env":[{"name":"NEW","value":"two"}]}]}}}}`, `"OLD"`,
		},
		{
			grouped("rbac.authorization.k8s.io", "roles"),
			"{kind: Role, apiVersion: rbac.authorization.k8s.io/v1, rules: [{apiGroups: [''], resources: [pods, secrets], verbs: [get]}]",
			`{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`, `"secrets"`,
		},
		{
			grouped("networking.k8s.io", "ingresses"),
			"{kind: Ingress, apiVersion: networking.k8s.io/v1, spec: {tls: [{hosts: [old.example.com]}], defaultBackend: {service: {name: a, port: {number: 80}}}}",
			`{"spec":{"tls":null}}`, `old.example.com`,
		},
		{
			grouped("networking.k8s.io", "networkpolicies"),
			"{kind: NetworkPolicy, apiVersion: networking.k8s.io/v1, spec: {podSelector: {}, ingress: [{ports: [{port: 80}, {port: 8080}]}]}",
			`{"spec":{"ingress":[{"ports":[{"port":80}]}]}}`, `8080`,
		},
	}
	for _, tc := range cases {
		s.create("wds1", tc.resource, tc.text+", "+meta+"}")
	}
	s.create("wds1", configMaps, `{kind: ConfigMap, apiVersion: v1, metadata: {name: still, namespace: $NAME, labels: {story: $NAME}}, data: {key: one}}`)
	s.policy(both)
	s.isReady()
	still := s.arrives("cluster1", "still", "one")
	for _, tc := range cases {
		s.patch("cluster1", tc.resource, s.name, "removals", `{"metadata":{"labels":{"of-the-cluster":"yes"}}}`)
		s.patch("wds1", tc.resource, s.name, "removals", tc.edit)
		s.patch("wds1", tc.resource, s.name, "removals", `{"metadata":{"labels":{"old":null},"annotations":{"old":null}}}`)
	}
	for _, tc := range cases {
		testenv.Eventually(t, arrival, func() (bool, string) {
			o, err := s.get("cluster1", tc.resource, s.name, "removals")
			if err != nil {
				return false, err.Error()
			}
			o.SetManagedFields(nil)
			text, err := o.MarshalJSON()
			return err == nil && !strings.Contains(string(text), tc.gone) && o.GetLabels()["old"] == "" && o.GetAnnotations()["old"] == "",
				fmt.Sprintf("%s: %s; errors %q", tc.resource.Resource, text, s.observed().Status.Errors)
		})
		if o, err := s.get("cluster1", tc.resource, s.name, "removals"); err != nil || o.GetLabels()["of-the-cluster"] != "yes" {
			t.Errorf("%s: the label of the cluster is gone: %v (%v)", tc.resource.Resource, o.GetLabels(), err)
		}
	}
	s.isReady()
	if now := s.arrives("cluster1", "still", "one"); now.GetResourceVersion() != still.GetResourceVersion() {
		t.Errorf("an object that did not change was written: %v, before %v", now, still)
	}
}

func core(resource string) schema.GroupVersionResource { return grouped("", resource) }

func grouped(group, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
}
