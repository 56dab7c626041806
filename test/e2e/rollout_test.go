package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

var quotas = schema.GroupVersionResource{Version: "v1", Resource: "resourcequotas"}

// TestRollout watches an update of a Deployment in two clusters from the WDS, as kubectl does: it
// is not finished before it is in both, whatever one of them says.
func TestRollout(t *testing.T) {
	t.Parallel()
	fleet := testenv.Shared(t)
	s := tell(t, fleet)
	s.namespace()
	s.create("wds1", deployments, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: server, namespace: $NAME, labels: {story: $NAME}}
spec:
  replicas: 2
  selector: {matchLabels: {app: server}}
  template:
    metadata: {labels: {app: server}}
    spec: {containers: [{name: server, image: "example.com/server:1"}]}`)
	s.create("wds1", controlv1alpha1.BindingPolicies, `
apiVersion: control.kubestellar.io/v1alpha1
kind: BindingPolicy
metadata: {name: $NAME}
spec:
  clusterSelectors: [`+both+`]
  downsync:
  - objectSelectors: [{matchLabels: {story: $NAME}}]
    wantMultiWECReportedState: true`)
	rollout := func(args ...string) (string, error) {
		return fleet.Run(append([]string{"kubectl", "--", "--context", "wds1", "-n", s.name, "rollout", "status", "deployment/server"}, args...)...)
	}
	finishes := func() {
		t.Helper()
		if out, err := rollout("--timeout=" + arrival.String()); err != nil {
			t.Fatalf("rollout status: %v: %s", err, out)
		}
	}
	says := func(want string) {
		t.Helper()
		testenv.Eventually(t, arrival, func() (bool, string) {
			out, err := rollout("--watch=false")
			return err == nil && strings.Contains(out, want), fmt.Sprintf("rollout status says %q, want %q (%v)", out, want, err)
		})
	}
	number := func(space string, fields ...string) int64 {
		t.Helper()
		obj, err := s.get(space, deployments, s.name, "server")
		if err != nil {
			t.Fatal(err)
		}
		n, _, err := unstructured.NestedInt64(obj.Object, fields...)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}

	finishes()
	s.starlingSays(0, []string{"rollout", "status", "deployment/server", "--timeout=" + arrival.String()}, "1 object is healthy in 2 clusters")
	obj, err := s.get("wds1", deployments, s.name, "server")
	if err != nil {
		t.Fatal(err)
	}
	if got := obj.GetLabels(); got[controlv1alpha1.LabelMultiWECStatus] != "true" || got[controlv1alpha1.LabelExecutingCount] != "2" {
		t.Errorf("labels %v", got)
	}
	s.isReady()

	s.Log("one cluster does not hear of the update")
	s.create("cluster2", quotas, `{apiVersion: v1, kind: ResourceQuota, metadata: {name: none-more, namespace: $NAME}, spec: {hard: {pods: "2"}}}`)
	wake := s.fleet.Pause(s, "cluster2/klusterlet")
	s.patch("wds1", deployments, s.name, "server", `{"spec":{"template":{"spec":{"containers":[{"name":"server","image":"example.com/server:2"}]}}}}`)
	generation := number("wds1", "metadata", "generation")
	testenv.Eventually(t, arrival, func() (bool, string) {
		obj, err := s.get("cluster1", deployments, s.name, "server")
		if err != nil {
			return false, err.Error()
		}
		source, _, _ := strings.Cut(obj.GetAnnotations()[controlv1alpha1.AnnotationSourceGeneration], "/")
		observed, _, _ := unstructured.NestedInt64(obj.Object, "status", "observedGeneration")
		return source == strconv.FormatInt(generation, 10) && observed == obj.GetGeneration(), fmt.Sprintf("cluster1 has content %s, and observed %d", source, observed)
	})
	testenv.Never(t, 3*time.Second, func() string {
		if n := number("wds1", "status", "observedGeneration"); n >= generation {
			return fmt.Sprintf("the WDS says that generation %d of %d was observed", n, generation)
		}
		return ""
	})
	says("Waiting for deployment spec update to be observed")
	s.starlingSays(124, []string{"rollout", "status", "deployment/server", "--for=applied", "--timeout=20s"}, "1 of 2 copies applied", "waits for cluster2")

	s.Log("it hears of it, and has no room")
	wake()
	says("Waiting for deployment \"server\" rollout to finish: 0 out of 2 new replicas have been updated")
	s.starlingSays(0, []string{"rollout", "status", "deployment/server", "--for=applied", "--timeout=" + arrival.String()}, "1 object is applied in 2 clusters")
	s.starlingSays(124, []string{"rollout", "status", "deployment/server", "--timeout=3s"}, "waits for", "cluster2")

	s.Log("there is room")
	s.remove("cluster2", quotas, s.name, "none-more")
	// The cluster tries to create a Pod with growing delays. What does not go on meanwhile is
	// reported as not arriving.
	testenv.Eventually(t, arrival, func() (bool, string) {
		out, code := s.starling("rollout", "status", "deployment/server")
		return code == 0, out
	})
	s.starlingSays(0, []string{"rollout", "status", "deployment/server", "--timeout=" + arrival.String()}, "1 object is healthy in 2 clusters")
	for _, cluster := range []string{"cluster1", "cluster2"} {
		if n := number(cluster, "status", "updatedReplicas"); n != 2 {
			t.Errorf("%s has %d updated replicas", cluster, n)
		}
	}
	finishes()
}
