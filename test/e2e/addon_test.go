package e2e

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/test/testenv"
)

// TestStatusAgentSettings: OCM resolves which AddOnDeploymentConfig an add-on has, and the manager
// follows it. What it cannot use is in the condition of the add-on.
func TestStatusAgentSettings(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	addOns := schema.GroupVersionResource{Group: "addon.open-cluster-management.io", Version: "v1alpha1", Resource: "managedclusteraddons"}
	configs := addOns.GroupVersion().WithResource("addondeploymentconfigs")
	const addOn = "addon-status"
	says := func(status, message string) {
		t.Helper()
		testenv.Eventually(t, arrival, func() (bool, string) {
			have, err := s.get("its1", addOns, "cluster1", addOn)
			if err != nil || have == nil {
				return false, "no add-on in cluster1"
			}
			conditions, _, _ := unstructured.NestedSlice(have.Object, "status", "conditions")
			for _, item := range conditions {
				if c, _ := item.(map[string]any); c["type"] == "ManifestApplied" {
					text, _ := c["message"].(string)
					return c["status"] == status && strings.Contains(text, message), text
				}
			}
			return false, "no condition ManifestApplied"
		})
	}
	says("True", "")
	s.patch("its1", addOns, "cluster1", addOn, `{"spec":{"configs":[{"group":"addon.open-cluster-management.io",
		"resource":"addondeploymentconfigs","namespace":"cluster1","name":"`+s.name+`"}]}}`)
	t.Cleanup(func() {
		_, err := s.space("its1", addOns).Namespace("cluster1").Patch(contextOf(t), addOn, types.MergePatchType, []byte(`{"spec":{"configs":null}}`), metav1.PatchOptions{})
		if err != nil {
			t.Error(err)
		}
		says("True", "")
	})
	says("False", "AddOnDeploymentConfig cluster1/"+s.name+" does not exist; an agent that runs keeps its settings")
	s.create("its1", configs, `
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnDeploymentConfig
metadata: {name: $NAME, namespace: cluster1}
spec: {agentInstallNamespace: monitoring}
`)
	says("False", `spec.agentInstallNamespace "monitoring" is not supported`)
	s.patch("its1", configs, "cluster1", s.name, `{"spec":{"agentInstallNamespace":"open-cluster-management-agent-addon"}}`)
	says("True", "")
}
