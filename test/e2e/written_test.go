package e2e

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

var (
	clusterRoles    = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	pods            = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	priorityClasses = schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1", Resource: "priorityclasses"}
)

// holds waits until the object in a space has the fields, in YAML, with these values.
func (s *story) holds(space string, gvr schema.GroupVersionResource, namespace, name, fields string) *unstructured.Unstructured {
	s.Helper()
	var want map[string]any
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(fields, "$NAME", s.name)), &want); err != nil {
		s.Fatal(err)
	}
	var obj *unstructured.Unstructured
	testenv.Eventually(s, arrival, func() (bool, string) {
		var err error
		if obj, err = s.get(space, gvr, namespace, name); err != nil {
			return false, fmt.Sprintf("%s: %v", space, err)
		}
		var decoded map[string]any // with the types that YAML gives
		raw, err := yaml.Marshal(obj.Object)
		if err != nil || yaml.Unmarshal(raw, &decoded) != nil {
			return false, fmt.Sprint(err)
		}
		return includes(decoded, want), fmt.Sprintf("%s: %s %s is %v, want %v; the policy says %v", space, gvr.Resource, name, decoded["spec"], want, s.observed().Status.Errors)
	})
	return obj
}

// includes reports whether a value has all fields of another one. nil is the value of a field that
// does not exist.
func includes(have, want any) bool {
	fields, isMap := want.(map[string]any)
	if !isMap {
		return reflect.DeepEqual(have, want)
	}
	in, _ := have.(map[string]any)
	for name, value := range fields {
		if !includes(in[name], value) {
			return false
		}
	}
	return true
}

// TestWhatUsersWriteArrives: what a user writes of a Service, a Job, a Pod or a ClusterRole is what
// clusters have, and what the WDS adds to it does not disturb what a cluster decides.
func TestWhatUsersWriteArrives(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	s.namespace()
	s.create("cluster1", priorityClasses, `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: $NAME}, value: 1000, globalDefault: true}`)
	s.create("cluster1", clusterRoles, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: $NAME-local, labels: {aggregate: $NAME}},
		rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}`)
	s.create("wds1", services, `{apiVersion: v1, kind: Service, metadata: {name: front, namespace: $NAME, labels: {story: $NAME}}, spec: {type: LoadBalancer,
		externalTrafficPolicy: Local, sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 600}}, ipFamilyPolicy: PreferDualStack,
		clusterIP: 10.0.0.253, ports: [{port: 80, nodePort: 30053}]}}`)
	const template = `{metadata: {labels: {job: $NAME}}, spec: {restartPolicy: Never, containers: [{name: c, image: example.com/none}]}}`
	s.create("wds1", jobs, `{apiVersion: batch/v1, kind: Job, metadata: {name: queued, namespace: $NAME, labels: {story: $NAME}}, spec: {suspend: true, template: `+template+`}}`)
	s.create("wds1", jobs, `{apiVersion: batch/v1, kind: Job, metadata: {name: chosen, namespace: $NAME, labels: {story: $NAME}},
		spec: {manualSelector: true, selector: {matchLabels: {job: $NAME}}, template: `+template+`}}`)
	s.create("wds1", clusterRoles, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: $NAME, labels: {story: $NAME}},
		aggregationRule: {clusterRoleSelectors: [{matchLabels: {aggregate: $NAME}}]}, rules: []}`)
	s.create("wds1", pods, `{apiVersion: v1, kind: Pod, metadata: {name: tool, namespace: $NAME, labels: {story: $NAME}}, spec: {containers: [{name: c, image: example.com/none}]}}`)
	s.policy(both)

	for _, cluster := range []string{"cluster1", "cluster2"} {
		front := s.holds(cluster, services, s.name, "front", `{spec: {externalTrafficPolicy: Local, sessionAffinity: ClientIP,
			sessionAffinityConfig: {clientIP: {timeoutSeconds: 600}}, ipFamilyPolicy: PreferDualStack, clusterIP: 10.0.0.253}}`)
		ports, _, _ := unstructured.NestedSlice(front.Object, "spec", "ports")
		if number := ports[0].(map[string]any)["nodePort"]; number != int64(30053) {
			t.Errorf("%s: the node port is %v", cluster, number)
		}
		s.holds(cluster, jobs, s.name, "queued", `{spec: {suspend: true}, status: {startTime: null}}`)
		s.holds(cluster, jobs, s.name, "chosen", `{spec: {selector: {matchLabels: {job: $NAME}}}}`)
	}
	s.holds("cluster1", pods, s.name, "tool", `{spec: {priority: 1000}}`)
	s.holds("cluster2", pods, s.name, "tool", `{spec: {priority: 0}}`)
	s.holds("cluster1", clusterRoles, "", s.name, `{rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}`)
	s.isReady()

	s.Log("edits arrive, and leave alone what each cluster decided")
	const touched = `{"metadata":{"labels":{"touched":"yes"}}}`
	s.patch("wds1", jobs, s.name, "queued", `{"spec":{"suspend":false}}`)
	s.patch("wds1", pods, s.name, "tool", touched)
	s.patch("wds1", clusterRoles, "", s.name, touched)
	for _, cluster := range []string{"cluster1", "cluster2"} {
		s.holds(cluster, jobs, s.name, "queued", `{spec: {suspend: false}}`)
		s.holds(cluster, pods, s.name, "tool", `{metadata: {labels: {touched: "yes"}}}`)
	}
	role := s.holds("cluster1", clusterRoles, "", s.name, `{metadata: {labels: {touched: "yes"}}}`)
	rules := []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"pods"}, "verbs": []any{"get"}}}
	if diff := cmp.Diff(rules, role.Object["rules"]); diff != "" {
		t.Errorf("the rules after an edit (-want +got):\n%s", diff)
	}
	for _, entry := range role.GetManagedFields() {
		if entry.Manager == "work-agent" && strings.Contains(string(entry.FieldsV1.Raw), "f:rules") {
			t.Errorf("OCM's agent owns the rules: %s", entry.FieldsV1.Raw)
		}
	}
	s.isReady()
}

// TestReplicasOfTheCluster: replicas that nobody wrote are the cluster's. A cluster that scales a
// Deployment keeps what it chose when the Deployment is edited, also if replicas were delivered
// before.
func TestReplicasOfTheCluster(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	s.namespace()
	deployment := func(replicas, label string) string {
		return `{apiVersion: apps/v1, kind: Deployment, metadata: {name: NAMED, namespace: $NAME, labels: {story: $NAME` + label + `}}, spec: {` + replicas + `
			selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c, image: example.com/none}]}}}}`
	}
	apply := func(name, text string) {
		t.Helper()
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(strings.NewReplacer("NAMED", name, "$NAME", s.name).Replace(text)), obj); err != nil {
			t.Fatal(err)
		}
		if _, err := s.space("wds1", deployments).Namespace(s.name).Apply(t.Context(), name, obj, metav1.ApplyOptions{FieldManager: "kubectl"}); err != nil {
			t.Fatal(err)
		}
	}
	s.create("wds1", deployments, strings.ReplaceAll(deployment("", ""), "NAMED", "web"))
	apply("before", deployment("replicas: 1,", ""))
	s.Cleanup(func() { s.remove("wds1", deployments, s.name, "before") })
	s.policy(both)
	names := []string{"web", "before"}
	for _, name := range names {
		for _, cluster := range []string{"cluster1", "cluster2"} {
			s.holds(cluster, deployments, s.name, name, `{spec: {replicas: 1}}`)
		}
	}
	s.isReady()

	s.Log("cluster1 scales both; then labels are edited, and replicas are not written any more")
	for _, name := range names {
		if _, err := s.space("cluster1", deployments).Namespace(s.name).Patch(t.Context(), name, types.MergePatchType,
			[]byte(`{"spec":{"replicas":4}}`), metav1.PatchOptions{FieldManager: "autoscaler"}, "scale"); err != nil {
			t.Fatal(err)
		}
	}
	apply("before", deployment("", `, touched: "yes"`)) // first: an agent applies all that is in a work
	s.holds("cluster1", deployments, s.name, "before", `{metadata: {labels: {touched: "yes"}}}`)
	s.patch("wds1", deployments, s.name, "web", `{"metadata":{"labels":{"touched":"yes"}}}`)
	for _, name := range names {
		s.holds("cluster1", deployments, s.name, name, `{metadata: {labels: {touched: "yes"}}, spec: {replicas: 4}}`)
		s.holds("cluster2", deployments, s.name, name, `{metadata: {labels: {touched: "yes"}}, spec: {replicas: 1}}`)
	}
	s.isReady()

	s.Log("replicas that a user writes arrive")
	s.patch("wds1", deployments, s.name, "web", `{"spec":{"replicas":3}}`)
	for _, cluster := range []string{"cluster1", "cluster2"} {
		s.holds(cluster, deployments, s.name, "web", `{spec: {replicas: 3}}`)
	}
}

// TestTokenSecret: of a Secret that asks for a token of a ServiceAccount, the declaration is
// delivered. Each cluster issues its own token, and that of the WDS stays there: a WDS that is an
// ordinary cluster issues one, this one has what the Secret was written with.
func TestTokenSecret(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	accounts := schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	s.namespace()
	s.create("wds1", accounts, `{apiVersion: v1, kind: ServiceAccount, metadata: {name: scraper, namespace: $NAME}}`)
	s.create("wds1", secrets, `{apiVersion: v1, kind: Secret, metadata: {name: scraper-token, namespace: $NAME,
		annotations: {kubernetes.io/service-account.name: scraper}}, type: kubernetes.io/service-account-token, data: {token: b3VycyBpcyBub3QgdGhlaXJz}}`)
	const ours = "b3VycyBpcyBub3QgdGhlaXJz"
	s.create("wds1", controlv1alpha1.Bindings, `
apiVersion: control.kubestellar.io/v1alpha1
kind: Binding
metadata: {name: $NAME}
spec:
  destinations: [{clusterId: cluster1}]
  workload:
    clusterScope:
    - {group: "", version: v1, resource: namespaces, name: $NAME, resourceVersion: "1"}
    namespaceScope:
    - {group: "", version: v1, resource: serviceaccounts, namespace: $NAME, name: scraper, resourceVersion: "1"}
    - {group: "", version: v1, resource: secrets, namespace: $NAME, name: scraper-token, resourceVersion: "1"}`)
	var copied *unstructured.Unstructured
	testenv.Eventually(t, arrival, func() (bool, string) {
		var err error
		copied, err = s.get("cluster1", accounts, s.name, "scraper")
		return err == nil, fmt.Sprint(err)
	})
	testenv.Eventually(t, arrival, func() (bool, string) {
		secret, err := s.get("cluster1", secrets, s.name, "scraper-token")
		if err != nil {
			return false, err.Error()
		}
		token, _, _ := unstructured.NestedString(secret.Object, "data", "token")
		if token == ours {
			t.Fatal("the cluster has the token of the WDS")
		}
		of := secret.GetAnnotations()["kubernetes.io/service-account.uid"]
		return token != "" && of == string(copied.GetUID()), fmt.Sprintf("the token is of ServiceAccount %q, want %s", of, copied.GetUID())
	})
	works, err := s.space("its1", manifestWorks).Namespace("cluster1").List(t.Context(), metav1.ListOptions{
		LabelSelector: "transport.kubestellar.io/originOwnerReferenceBindingKey=" + s.name,
	})
	if err != nil || len(works.Items) == 0 {
		t.Fatalf("no works (%v)", err)
	}
	for i := range works.Items {
		if raw, err := works.Items[i].MarshalJSON(); err != nil || strings.Contains(string(raw), ours) {
			t.Errorf("the token of the WDS is in a ManifestWork (%v)", err)
		}
	}
}
