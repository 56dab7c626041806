package kindtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/test/testenv"
)

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

const policy = `
apiVersion: control.kubestellar.io/v1alpha1
kind: BindingPolicy
metadata: {name: settings}
spec:
  clusterSelectors: [{matchExpressions: [{key: env, operator: In, values: [prod, edge]}]}]
  downsync:
  - objectSelectors: [{matchLabels: {app: settings}}]
---
apiVersion: v1
kind: Namespace
metadata: {name: settings, labels: {app: settings}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: settings, labels: {app: settings}}
---
apiVersion: control.kubestellar.io/v1alpha1
kind: BindingPolicy
metadata: {name: hello}
spec:
  clusterSelectors: [{matchLabels: {env: prod}}]
  downsync:
  - objectSelectors: [{matchLabels: {app: hello}}]
    wantSingletonReportedState: true
---
apiVersion: v1
kind: Namespace
metadata: {name: hello, labels: {app: hello}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: hello, namespace: hello, labels: {app: hello}}
spec:
  replicas: 1
  selector: {matchLabels: {app: hello}}
  template:
    metadata: {labels: {app: hello}}
    spec:
      containers:
      - name: hello
        image: ` + probeImage + `
        args: [serve, /data/file]
        readinessProbe: {httpGet: {port: 8080}}
        volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, emptyDir: {}}]
`

// deployment: a Deployment in the WDS runs in a cluster. Its status returns, and so does that of an
// edit.
func (h *hub) deployment(t *testing.T) {
	h.wds.Apply(t, policy)
	h.prod.WaitForDeployment(t, "hello", "hello")
	h.since(t, "the Deployment runs")
	h.hasStatus(t, 1)
	h.since(t, "its status has returned")
	h.wds.Patch(t, deployments, "hello", "hello", `{"spec":{"replicas":2}}`)
	h.hasStatus(t, 2)
	h.deliver(t, "first", h.prod, h.edge)
}

// hasStatus blocks until the Deployment in the WDS has the status of that many pods, which run in
// the cluster: nothing runs in a WDS.
func (h *hub) hasStatus(t *testing.T, replicas int64) {
	t.Helper()
	testenv.Eventually(t, patience, func() (bool, string) {
		obj := h.wds.Get(t, deployments, "hello", "hello")
		got, _, _ := unstructured.NestedInt64(obj.Object, "status", "availableReplicas")
		return got == replicas, "the Deployment in the WDS has the status " + text(obj.Object["status"])
	})
}

// deliver edits the ConfigMap in the WDS, and blocks until the clusters have the edit.
func (h *hub) deliver(t *testing.T, value string, clusters ...*Cluster) {
	t.Helper()
	h.edit(t, value)
	begin := time.Now()
	for _, c := range clusters {
		h.arrives(t, c, value)
	}
	t.Logf("edit %q took %d ms", value, time.Since(begin).Milliseconds())
}

// edit edits the ConfigMap in the WDS, as soon as the WDS is there.
func (h *hub) edit(t *testing.T, value string) {
	t.Helper()
	configMaps := h.wds.Client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace("settings")
	testenv.Eventually(t, patience, func() (bool, string) {
		_, err := configMaps.Patch(t.Context(), "settings", types.MergePatchType, fmt.Appendf(nil, `{"data":{"key":%q}}`, value), metav1.PatchOptions{})
		return err == nil, fmt.Sprint(err)
	})
}

// arrives blocks until a cluster has an edit. It is still the same ConfigMap.
func (h *hub) arrives(t *testing.T, c *Cluster, value string) {
	t.Helper()
	client := c.Client(t).CoreV1().ConfigMaps("settings")
	var uid types.UID
	testenv.Eventually(t, patience, func() (bool, string) {
		configMap, err := client.Get(t.Context(), "settings", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		uid = configMap.UID
		return configMap.Data["key"] == value, fmt.Sprintf("cluster %s has %q, want %q", c.Name, configMap.Data["key"], value)
	})
	if first, found := h.uid[c]; found && first != string(uid) {
		t.Fatalf("the ConfigMap in cluster %s was created again", c.Name)
	}
	h.uid[c] = string(uid)
}

// packages: what is approved in the Repository of a cluster arrives there.
func (h *hub) packages(t *testing.T) {
	kubeconfig := "--kubeconfig=" + writeKubeconfig(t, h.wds.Config)
	dir := filepath.Join(t.TempDir(), "shop")
	run(t, h.plugin, "package", "init", "shop", "--repository=prod", kubeconfig)
	run(t, h.plugin, "package", "pull", "prod.shop.v1", dir, kubeconfig)
	err := os.WriteFile(filepath.Join(dir, "shop.yaml"), []byte("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	run(t, h.plugin, "package", "push", dir, kubeconfig)
	run(t, h.plugin, "package", "propose", "prod.shop.v1", kubeconfig)
	run(t, h.plugin, "package", "approve", "prod.shop.v1", kubeconfig)
	testenv.Eventually(t, patience, func() (bool, string) {
		_, err := h.prod.Client(t).CoreV1().Namespaces().Get(t.Context(), "shop", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
}

// networkCut: while a cluster cannot be reached, the leaders of the controllers are killed, then
// the pods of every part of the hub, and its node stops for twenty seconds. Each time edits arrive
// in the other cluster afterwards, and what runs in it does not notice. When the cluster can be
// reached again, it has what was edited meanwhile.
func (h *hub) networkCut(t *testing.T) {
	pods := h.running(t)
	restore := h.cut(t, h.edge)
	t.Run("FailOver", h.failOver)
	h.kills(t)
	h.pauses(t)
	if edge, err := h.edge.Client(t).CoreV1().ConfigMaps("settings").Get(t.Context(), "settings", metav1.GetOptions{}); err != nil || edge.Data["key"] != "first" {
		t.Fatalf("the cluster that was cut off has %v, %v: want the state before", edge.Data, err)
	}
	restore()
	h.since(t, "the network is back")
	h.arrives(t, h.edge, "after the pause")
	h.deliver(t, "after the cut", h.prod, h.edge)
	h.still(t, pods)
}

// kills ends the pods of each part of the hub, one part after the other.
func (h *hub) kills(t *testing.T) {
	client := h.host.Client(t)
	list, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=starling"})
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string][]string{}
	for _, pod := range list.Items {
		if pod.Status.Phase == corev1.PodRunning {
			part := pod.Labels["starling.io/space"] + "-" + pod.Labels["app.kubernetes.io/name"]
			parts[part] = append(parts[part], pod.Name)
		}
	}
	now := int64(0)
	for part, names := range parts {
		for _, name := range names {
			if err := client.CoreV1().Pods(namespace).Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%s was killed", part)
		h.deliver(t, "after "+part, h.prod)
	}
}

// pauses stops everything in the node of the hosting cluster for twenty seconds.
func (h *hub) pauses(t *testing.T) {
	run(t, "docker", "pause", h.host.Node())
	time.Sleep(20 * time.Second)
	run(t, "docker", "unpause", h.host.Node())
	h.since(t, "the node is back")
	h.deliver(t, "after the pause", h.prod)
}

// cut drops all packets between a cluster and the hub, in both directions, until restore is called
// or the test ends.
func (h *hub) cut(t *testing.T, c *Cluster) (restore func()) {
	t.Helper()
	address := h.host.address(t)
	each := func(verb, option string) {
		t.Helper()
		ctx := context.WithoutCancel(t.Context())
		for _, args := range [][]string{
			{"ip", "route", verb, "blackhole", address},
			{"iptables", option, "INPUT", "--source", address, "--jump", "DROP"},
			{"iptables", option, "FORWARD", "--source", address, "--jump", "DROP"},
		} {
			if _, err := command(ctx, "docker", append([]string{"exec", c.Node()}, args...)...); err != nil {
				t.Error(err)
			}
		}
	}
	each("add", "--insert")
	h.since(t, "cluster "+c.Name+" is cut off")
	restore = sync.OnceFunc(func() { each("del", "--delete") })
	t.Cleanup(restore)
	return restore
}

// running returns the pods of the Deployment in the cluster.
func (h *hub) running(t *testing.T) map[types.UID]int32 {
	t.Helper()
	list, err := h.prod.Client(t).CoreV1().Pods("hello").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods := map[types.UID]int32{}
	for _, pod := range list.Items {
		for _, s := range pod.Status.ContainerStatuses {
			pods[pod.UID] = s.RestartCount
		}
	}
	return pods
}

// still fails the test if the pods of the Deployment are others than before, or were restarted.
func (h *hub) still(t *testing.T, before map[types.UID]int32) {
	t.Helper()
	now := h.running(t)
	if len(before) != 2 || text(now) != text(before) {
		t.Errorf("the pods of the Deployment and their restarts were %v, and are %v", before, now)
	}
}

// upgrade: all pods are replaced by those of another version. Edits arrive afterwards.
func (h *hub) upgrade(t *testing.T) {
	pods := h.running(t)
	const tag = "v0.0.0-next"
	for _, c := range []*Cluster{h.host, h.prod, h.edge} {
		for _, image := range h.images {
			c.Tag(t, image, tag)
		}
	}
	h.tag = tag
	h.release.upgrade(t, h.values(tag))
	h.since(t, "the chart is upgraded")
	h.deliver(t, "after the upgrade", h.prod, h.edge)
	h.still(t, pods)
	testenv.Eventually(t, patience, func() (bool, string) {
		agents, err := h.prod.Client(t).AppsV1().Deployments("").List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=status-agent"})
		if err != nil || len(agents.Items) != 1 {
			return false, fmt.Sprintf("there are %d status agents in the cluster, %v", len(agents.Items), err)
		}
		return isAvailable(&agents.Items[0]) && agents.Items[0].Spec.Template.Spec.Containers[0].Image == "starling/status-agent:"+tag,
			"the status agent is " + text(agents.Items[0].Status)
	})
}

// installedAgain: uninstalling removes nothing from the clusters. The volumes and the certificate
// authorities stay, so that the chart, installed again, finds its clusters.
func (h *hub) installedAgain(t *testing.T) {
	pods := h.running(t)
	h.release.uninstall(t)
	h.since(t, "the chart is uninstalled")
	testenv.Eventually(t, patience, func() (bool, string) {
		left, err := h.host.Client(t).CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "status.phase=Running"})
		if err != nil {
			return false, err.Error()
		}
		return len(left.Items) == 0, fmt.Sprintf("%d pods are left", len(left.Items))
	})
	h.still(t, pods)
	h.arrives(t, h.prod, "after the upgrade")
	h.release.install(t, h.values(h.tag))
	h.since(t, "the chart is installed again")
	h.deliver(t, "after the second installation", h.prod, h.edge)
	h.still(t, pods)
}
