package e2e

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// TestListedWorkRights: a cluster takes what its administrator lists, and nothing else. An object
// that OCM's agent may not apply is in the errors of its policy, and the others arrive, with their
// status. When it is allowed it arrives too, and nothing is created again.
func TestListedWorkRights(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	const cluster = "listed"
	s.addCluster(cluster, "--work-rights", "listed")
	t.Cleanup(func() { s.removeCluster(cluster) })
	roles := grouped("rbac.authorization.k8s.io", "clusterroles")
	allow := func(name, resources string) {
		t.Helper()
		role := &unstructured.Unstructured{}
		text := `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole,
			metadata: {name: ` + name + `, labels: {open-cluster-management.io/aggregate-to-work: "true"}},
			rules: [{apiGroups: [""], resources: [` + resources + `], verbs: [get, list, watch, create, update, patch, delete]}]}`
		if err := yaml.Unmarshal([]byte(text), role); err != nil {
			t.Fatal(err)
		}
		// It goes with the cluster.
		if _, err := s.space(cluster, roles).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	allow("delivered", "namespaces, configmaps, services")
	s.namespace()
	s.configMap("taken", "value")
	s.create("wds1", core("services"), `{apiVersion: v1, kind: Service, metadata: {name: taken, namespace: $NAME, labels: {story: $NAME}}, spec: {ports: [{port: 80}]}}`)
	s.create("wds1", core("limitranges"), `{apiVersion: v1, kind: LimitRange, metadata: {name: refused, namespace: $NAME, labels: {story: $NAME}}, spec: {limits: []}}`)
	// It would give rights that the agent does not have.
	s.create("wds1", roles, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: $NAME-secrets, labels: {story: $NAME}},
		rules: [{apiGroups: [""], resources: [secrets], verbs: [get]}]}`)
	s.policy("{matchLabels: {name: " + cluster + "}}")

	taken := s.arrives(cluster, "taken", "value")
	says := func(want map[string]bool) {
		t.Helper()
		testenv.Eventually(t, arrival, func() (bool, string) {
			text := strings.Join(s.observed().Status.Errors, "\n")
			for part, there := range want {
				if strings.Contains(text, part) != there {
					return false, "errors of the policy: " + text
				}
			}
			return true, ""
		})
	}
	says(map[string]bool{"refused": true, s.name + "-secrets": true, "forbidden": true, "taken": false})
	for _, left := range []struct {
		gvr             schema.GroupVersionResource
		namespace, name string
	}{{core("limitranges"), s.name, "refused"}, {roles, "", s.name + "-secrets"}} {
		if _, err := s.get(cluster, left.gvr, left.namespace, left.name); err == nil {
			t.Errorf("%s %q was created", left.gvr.Resource, left.name)
		}
	}
	// OCM's agent has installed the status agent, which reports.
	testenv.Eventually(t, arrival, func() (bool, string) {
		list, err := s.space("its1", controlv1alpha1.WorkStatuses).Namespace(cluster).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		for i := range list.Items {
			source, _, _ := unstructured.NestedStringMap(list.Items[i].Object, "spec", "sourceRef")
			if source["kind"] == "Service" && source["name"] == "taken" {
				return true, ""
			}
		}
		return false, "no report on the Service"
	})

	allow("delivered-too", "limitranges")
	testenv.Eventually(t, arrival, func() (bool, string) {
		_, err := s.get(cluster, core("limitranges"), s.name, "refused")
		return err == nil, "the LimitRange does not arrive"
	})
	says(map[string]bool{"refused": false, s.name + "-secrets": true})
	if again := s.arrives(cluster, "taken", "value"); again.GetUID() != taken.GetUID() {
		t.Error("the ConfigMap was created again")
	}
}
