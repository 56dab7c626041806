package status

import (
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/test/testenv"
)

var (
	managementAddOns = schema.GroupVersionResource{Group: "addon.open-cluster-management.io", Version: "v1alpha1", Resource: "clustermanagementaddons"}
	configs          = schema.GroupVersionResource{Group: "addon.open-cluster-management.io", Version: "v1alpha1", Resource: "addondeploymentconfigs"}
)

const deployWork = "addon-addon-status-deploy-0"

// TestAgentSettings: the Deployment of the agent follows its AddOnDeploymentConfig. One that is
// missing or wrong changes nothing, and the condition of the add-on has the reason.
func TestAgentSettings(t *testing.T) {
	_, its, _ := fleet(t)
	endManager()
	startManagerWith(t, its, "docker.io/starling/status-agent:v1")
	t.Cleanup(func() {
		endManager()
		startManager(t, its)
	})
	const cluster = "settings"
	join(t, cluster)

	deployment := func() map[string]any {
		work := its.Get(t, manifestWorks, cluster, deployWork)
		if work == nil {
			return nil
		}
		manifests, _, _ := unstructured.NestedSlice(work.Object, "spec", "workload", "manifests")
		for _, m := range manifests {
			if obj, _ := m.(map[string]any); obj["kind"] == "Deployment" {
				return obj
			}
		}
		return nil
	}
	eventually := func(contains string) {
		t.Helper()
		testenv.Eventually(t, patience, func() (bool, string) {
			text := asJSON(deployment())
			return strings.Contains(text, contains), "want " + contains + " in Deployment " + text
		})
	}
	// refused waits until the condition has the reason, and checks that the work is as before.
	refused := func(before *unstructured.Unstructured, reason string) {
		t.Helper()
		testenv.Eventually(t, patience, func() (bool, string) {
			status := asJSON(its.Get(t, addons, cluster, addonName).Object["status"])
			return strings.Contains(status, reason), "want " + reason + " in status of the add-on: " + status
		})
		after := its.Get(t, manifestWorks, cluster, deployWork)
		if after == nil || after.GetUID() != before.GetUID() || after.GetGeneration() != before.GetGeneration() {
			t.Errorf("the work with the agent changed:\n%v\nwas\n%v", after, before)
		}
	}
	work := func() *unstructured.Unstructured { return its.Get(t, manifestWorks, cluster, deployWork) }
	eventually("docker.io/starling/status-agent:v1")

	// A user names a config, and OCM's addon-manager writes that to the status.
	name := map[string]any{"namespace": cluster, "name": "agent"}
	reference := func(more map[string]any) map[string]any {
		out := map[string]any{"group": configs.Group, "resource": configs.Resource}
		maps.Copy(out, more)
		return out
	}
	before := work()
	its.patch(t, addons, cluster, addonName, map[string]any{"spec": map[string]any{"configs": []any{reference(name)}}})
	refused(before, "waiting for OCM's addon-manager")
	desired := map[string]any{"desiredConfig": map[string]any{"namespace": cluster, "name": "agent", "specHash": ""}}
	its.setStatus(t, addons, cluster, addonName, map[string]any{"configReferences": []any{reference(map[string]any{
		"namespace": cluster, "name": "agent", "lastObservedGeneration": 0, "desiredConfig": desired["desiredConfig"],
	})}})
	refused(before, "AddOnDeploymentConfig settings/agent does not exist; an agent that runs keeps its settings")

	config := its.create(t, configs, map[string]any{
		"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnDeploymentConfig",
		"metadata": map[string]any{"namespace": cluster, "name": "agent"},
		"spec": map[string]any{
			"registries":          []any{map[string]any{"source": "docker.io", "mirror": "registry.example.com"}},
			"nodePlacement":       map[string]any{"tolerations": []any{map[string]any{"key": "infra", "operator": "Exists"}}},
			"customizedVariables": []any{map[string]any{"name": "imagePullSecrets", "value": "pull"}},
		},
	})
	eventually("registry.example.com/starling/status-agent:v1")
	eventually(`"tolerations":[{"key":"infra","operator":"Exists"}]`)
	eventually(`"imagePullSecrets":[{"name":"pull"}]`)

	before = work()
	its.patch(t, configs, cluster, config.GetName(), map[string]any{"spec": map[string]any{"agentInstallNamespace": "monitoring"}})
	refused(before, `AddOnDeploymentConfig settings/agent: spec.agentInstallNamespace \"monitoring\" is not supported`)

	its.patch(t, configs, cluster, config.GetName(), map[string]any{"spec": map[string]any{
		"agentInstallNamespace": agentHome, "proxyConfig": map[string]any{"httpsProxy": "http://proxy.example.com:3128"},
	}})
	eventually(`"env":[{"name":"HTTPS_PROXY","value":"http://proxy.example.com:3128"},{"name":"NO_PROXY","value":"$(KUBERNETES_SERVICE_HOST)"}]`)

	before = work()
	if err := its.Client.Resource(configs).Namespace(cluster).Delete(t.Context(), config.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	refused(before, "AddOnDeploymentConfig settings/agent does not exist")
}

// TestDefaultSettings: the add-on supports a default config, also if it was installed without, and
// the status has the hash of the config, with which OCM resolves it.
func TestDefaultSettings(t *testing.T) {
	_, its, _ := fleet(t)
	startManager(t, its)
	const namespace = "default-settings"
	its.namespace(t, namespace)
	supports := func() (bool, string) {
		management := its.Get(t, managementAddOns, "", addonName)
		if management == nil {
			return false, "no ClusterManagementAddOn"
		}
		text := asJSON(management.Object["spec"])
		return strings.Contains(text, `"resource":"addondeploymentconfigs"`), "spec of the ClusterManagementAddOn: " + text
	}
	testenv.Eventually(t, patience, supports)
	its.patch(t, managementAddOns, "", addonName, map[string]any{"spec": map[string]any{"supportedConfigs": []any{}}})
	testenv.Eventually(t, patience, supports)

	its.create(t, configs, map[string]any{
		"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnDeploymentConfig",
		"metadata": map[string]any{"namespace": namespace, "name": "agent"}, "spec": map[string]any{},
	})
	its.setStatus(t, managementAddOns, "", addonName, map[string]any{"defaultconfigReferences": []any{map[string]any{
		"group": configs.Group, "resource": configs.Resource,
		"desiredConfig": map[string]any{"namespace": namespace, "name": "agent", "specHash": ""},
	}}})
	testenv.Eventually(t, patience, func() (bool, string) {
		references, _, _ := unstructured.NestedSlice(its.Get(t, managementAddOns, "", addonName).Object, "status", "defaultconfigReferences")
		if len(references) != 1 {
			return false, "references: " + asJSON(references)
		}
		hash, _, _ := unstructured.NestedString(references[0].(map[string]any), "desiredConfig", "specHash")
		return hash != "", "no hash in " + asJSON(references)
	})
}
