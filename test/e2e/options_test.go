package e2e

import (
	"fmt"
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
	s := tell(t, testenv.Shared(t))
	claims := schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	autoscalers := schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}
	s.namespace()
	s.configMap("settings", "one")
	s.configMap("kept", "one")
	s.patch("wds1", configMaps, s.name, "settings", `{"metadata":{"annotations":{"starling.io/apply":"create-only"}}}`)
	s.patch("wds1", configMaps, s.name, "kept", `{"metadata":{"annotations":{"starling.io/on-removal":"orphan"}}}`)
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
	s.policy("{}")
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

	s.Log("what is created only is not updated; what is to be kept stays when it leaves")
	s.patch("wds1", configMaps, s.name, "settings", `{"data":{"key":"two"}}`)
	s.patch("wds1", configMaps, s.name, "kept", `{"data":{"key":"two"}}`)
	s.arrives("cluster1", "kept", "two")
	s.isReady()
	s.arrives("cluster1", "settings", "one")
	s.remove("wds1", configMaps, s.name, "kept")
	s.remove("wds1", configMaps, s.name, "settings")
	s.leaves("cluster1", configMaps, s.name, "settings")
	s.arrives("cluster1", "kept", "two")
	s.remove("wds1", controlv1alpha1.BindingPolicies, "", s.name)
}
