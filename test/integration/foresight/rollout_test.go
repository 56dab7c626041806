package foresight

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/starlinghq/starling/pkg/core/foresight/rollout"
	"github.com/starlinghq/starling/pkg/foresight/cli"
	"github.com/starlinghq/starling/pkg/transport/ocm"
	"github.com/starlinghq/starling/test/testenv"
)

// addClusters adds clusters of the site edge. Those but c4 have agents.
func (h *hub) addClusters(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		h.its.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+name+"}}")
		h.its.Apply(t, "{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: "+name+
			", labels: {site: edge}}, spec: {hubAcceptsClient: true, leaseDurationSeconds: 60}}")
		h.its.Apply(t, "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: managed-cluster-lease, namespace: "+name+
			"}, spec: {renewTime: \"2099-01-01T00:00:00.000000Z\", leaseDurationSeconds: 60}}")
		h.its.Patch(t, managedClusters, "", name, `{"status":{"conditions":[
			{"type":"HubAcceptedManagedCluster","status":"True","reason":"Accepted","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"},
			{"type":"ManagedClusterJoined","status":"True","reason":"Joined","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"},
			{"type":"ManagedClusterConditionAvailable","status":"True","reason":"Available","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, "status")
	}
}

func (h *hub) rollout(t *testing.T, args ...string) (status *rollout.Status, stderr string, code int) {
	t.Helper()
	out, stderr, code := h.command(t, cli.NewRolloutCommand, append([]string{"status", "-o", "json"}, args...)...)
	status = &rollout.Status{}
	if out != "" {
		if err := json.Unmarshal([]byte(out), status); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return status, stderr, code
}

// TestRolloutStatus makes edits, and waits for each: when the command says that it has arrived, the
// agents have reported on it.
func TestRolloutStatus(t *testing.T) {
	h := newHub(t)
	h.addClusters(t, "c1", "c2", "c3")
	namespace := "{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {app: shop}}}\n---\n"
	// Of settings, the last of two manifests counts.
	all := file(t, namespace+fmt.Sprintf(settingsText, "grey")+"\n---\n"+fmt.Sprintf(settingsText, "red")+"\n---\n"+edge)
	if _, stderr, code := h.rollout(t, "-f", all); code != 1 || !strings.Contains(stderr, "apply it first") {
		t.Errorf("before it is applied: exit code %d, %s", code, stderr)
	}
	h.fleet.Kubectl(t, "wds1", "apply", "-f", all)
	status, stderr, code := h.rollout(t, "-f", all, "--for=applied", "--timeout=1m")
	if code != 0 || status.Copies != 6 || status.Applied != 6 || status.Clusters != 3 {
		t.Fatalf("applied: exit code %d, %+v, %s", code, status, stderr)
	}
	for i := range 5 {
		color := fmt.Sprintf("color%d", i)
		edit := file(t, fmt.Sprintf(settingsText, color))
		if _, stderr, code := h.rollout(t, "-f", edit); code != 1 || !strings.Contains(stderr, "is not in the WDS as it is in") {
			t.Errorf("a file that is not applied: exit code %d, %s", code, stderr)
		}
		h.fleet.Kubectl(t, "wds1", "apply", "-f", edit)
		if status, stderr, code := h.rollout(t, "cm/settings", "--for=applied", "--timeout=1m"); code != 0 || status.Applied != 3 {
			t.Fatalf("edit %d: exit code %d, %+v, %s", i, code, status, stderr)
		}
		h.appliedEverywhere(t, color)
	}
	out, stderr, code := h.command(t, cli.NewRolloutCommand, "status", "policy/edge", "--for=delivered", "--timeout=1m")
	if code != 0 || out != "2 objects are delivered in 3 clusters\n" || stderr != "" {
		t.Errorf("a policy: exit code %d, %q, %q", code, out, stderr)
	}

	// A policy selects an object as soon as it has the label, and a cluster likewise, though
	// neither the policy nor a condition changes.
	for i := range 5 {
		h.applyAll(t, fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: new%d, namespace: shop, labels: {app: shop}}}", i))
		status, stderr, code := h.rollout(t, "policy/edge", "--for=applied", "--timeout=1m")
		if _, there := h.delivered(t)[fmt.Sprintf("c1 ConfigMap shop/new%d", i)]; code != 0 || status.Objects != 3+i || !there {
			t.Fatalf("object %d: exit code %d, %+v, there %t, %s", i, code, status, there, stderr)
		}
	}
	for i := range 5 {
		h.its.Patch(t, managedClusters, "", "c3", `{"metadata":{"labels":{"site":"core"}}}`)
		subject := []string{"policy/edge", "cm/settings"}[i%2]
		status, stderr, code := h.rollout(t, subject, "--for=applied", "--timeout=1m")
		if _, there := h.delivered(t)["c3 ConfigMap shop/settings"]; code != 0 || status.Clusters != 2 || there {
			t.Fatalf("without c3, %s: exit code %d, %+v, there %t, %s", subject, code, status, there, stderr)
		}
		h.its.Patch(t, managedClusters, "", "c3", `{"metadata":{"labels":{"site":"edge"}}}`)
		status, stderr, code = h.rollout(t, subject, "--for=applied", "--timeout=1m")
		if _, there := h.delivered(t)["c3 ConfigMap shop/settings"]; code != 0 || status.Clusters != 3 || !there {
			t.Fatalf("with c3, %s: exit code %d, %+v, there %t, %s", subject, code, status, there, stderr)
		}
	}
	for i := range 5 {
		h.fleet.Kubectl(t, "wds1", "delete", "configmap", "--namespace", "shop", fmt.Sprintf("new%d", i))
	}

	// A policy that no longer selects a cluster has arrived when the mailbox is empty.
	h.its.Patch(t, managedClusters, "", "c3", `{"metadata":{"labels":{"site":"core"}}}`)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		status, _, code := h.rollout(t, "policy/edge", "--for=applied", "--timeout=20s")
		_, there := h.delivered(t)["c3 ConfigMap shop/settings"]
		if code == 0 && status.Clusters == 2 && there {
			t.Fatalf("it has arrived in two clusters, and is still in the third: %+v", status)
		}
		return code == 0 && status.Clusters == 2, fmt.Sprintf("exit code %d, %+v", code, status)
	})

	// An object that no policy selects does not arrive.
	h.applyAll(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: lost, namespace: shop}}")
	if status, stderr, code := h.rollout(t, "cm/lost"); code != 1 || status.Result != rollout.Failed || !strings.Contains(stderr, "it does not arrive") {
		t.Errorf("not selected: exit code %d, %+v, %s", code, status, stderr)
	}
	if _, stderr, code := h.command(t, cli.NewRolloutCommand, "status", "cm/lost"); code != 1 || !strings.Contains(stderr, "kubectl label configmaps lost app=shop") {
		t.Errorf("not selected: exit code %d, %s", code, stderr)
	}

	// An object that is named in another version of its API is compared all the same.
	scaler := `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web, namespace: shop, labels: {app: shop}},
		spec: {maxReplicas: %d, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}}`
	// The first look is before a Binding lists it in its own version, and the next one after.
	h.applyAll(t, fmt.Sprintf(scaler, 2))
	inV1 := []string{"horizontalpodautoscalers.v1.autoscaling/web", "--for=delivered", "--timeout=1m"}
	if status, stderr, code := h.rollout(t, inV1...); code != 0 || status.Delivered != 2 {
		t.Errorf("another version: exit code %d, %+v, %s", code, status, stderr)
	}
	h.fleet.Kubectl(t, "wds1", "annotate", "bindings.control.kubestellar.io", "edge", "starling.io/hold=*")
	h.applyAll(t, fmt.Sprintf(scaler, 3))
	if status, stderr, code := h.rollout(t, inV1...); code != 1 || len(status.Late) == 0 || status.Late[0].Link != "NotHeld" {
		t.Errorf("another version, held: exit code %d, %+v, %s", code, status, stderr)
	}
	h.fleet.Kubectl(t, "wds1", "annotate", "bindings.control.kubestellar.io", "edge", "starling.io/hold-")
	if status, stderr, code := h.rollout(t, inV1...); code != 0 {
		t.Errorf("another version, released: exit code %d, %+v, %s", code, status, stderr)
	}

	// A cluster without an agent is waited for, and named.
	h.addClusters(t, "c4")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		status, stderr, code := h.rollout(t, "cm/settings", "--for=applied", "--timeout=2s")
		return code == 124 && status.Applied == 2 && status.Copies == 3 && strings.Contains(stderr, "waits for c4"), fmt.Sprintf("exit code %d, %+v, %s", code, status, stderr)
	})
	if _, stderr, code := h.command(t, cli.NewTreeCommand, "policy/none"); code != 1 || !strings.Contains(stderr, "there is no BindingPolicy none") {
		t.Errorf("tree of no policy: exit code %d, %s", code, stderr)
	}
	out, stderr, code = h.command(t, cli.NewTreeCommand, "policy/edge")
	if want := []string{"BindingPolicy edge (3 objects in 3 clusters)", "2 clusters: c1, c2", "Cluster c4", "configmaps shop/settings  applied"}; code != 0 || !containsAll(out, want) {
		t.Errorf("tree: exit code %d, %s%s", code, out, stderr)
	}
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// appliedEverywhere checks that each cluster has reported on the work with this color.
func (h *hub) appliedEverywhere(t *testing.T, color string) {
	t.Helper()
	list, err := h.its.Client.Resource(ocm.ManifestWorks).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	reported := 0
	for i := range list.Items {
		work := testenv.Into[workv1.ManifestWork](t, &list.Items[i])
		for n := range work.Spec.Workload.Manifests {
			if !strings.Contains(string(work.Spec.Workload.Manifests[n].Raw), `"`+color+`"`) {
				continue
			}
			if len(work.Status.Conditions) == 0 || work.Status.Conditions[0].ObservedGeneration != work.Generation {
				t.Errorf("%s is said to be applied in %s, which has not reported on it", color, work.Namespace)
			}
			reported++
		}
	}
	if reported != 3 {
		t.Errorf("%d clusters have %s, want 3", reported, color)
	}
}
