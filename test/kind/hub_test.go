package kindtest

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/tarball"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/test/testenv"
)

// namespace is that of the release on the hosting cluster.
const namespace = "starling"

// Ports of the nodes of the hosting cluster at which its spaces are reached.
const (
	portITS = 30443
	portWDS = 30444
)

// TestHub: the chart "starling" installs an ITS, a WDS and the controllers on a cluster. Another
// cluster joins. A Deployment in the WDS runs there, its status returns, and an edit arrives.
func TestHub(t *testing.T) {
	images := os.Getenv("STARLING_IMAGES")
	if images == "" {
		t.Skip("it needs the images of Starling: run `make e2e-kind`, or set STARLING_IMAGES to the archive of `make images`")
	}
	start := time.Now()
	since := func(what string) { t.Logf("%5.1f s: %s", time.Since(start).Seconds(), what) }
	host := Create(t, "starling-host", nil)
	host.LoadArchive(t, images)
	since("the hosting cluster runs")

	node := host.Name + "-control-plane"
	installed := installChart(t, host, "../../charts/starling", map[string]any{
		"image": map[string]any{"tag": version(t, images)},
		"ITSes": []any{hosted("its1", node, portITS)},
		"WDSes": []any{hosted("wds1", node, portWDS)},
	})
	if !strings.Contains(installed, "wds1-transport-controller") {
		t.Fatal("the release has no transport-controller")
	}
	since("the chart is installed")

	its := spaceOf(t, host, "its1", portITS)
	wds := spaceOf(t, host, "wds1", portWDS)
	wec := Create(t, "starling-prod", nil)
	wec.LoadArchive(t, images)
	wec.LoadArchive(t, buildProbe(t))
	since("the cluster \"prod\" runs")
	join(t, its, wec, "prod", version(t, images))
	since("the cluster \"prod\" has joined")

	wds.Apply(t, `
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
        image: `+probeImage+`
        args: [serve, /data/file]
        readinessProbe: {httpGet: {port: 8080}}
        volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, emptyDir: {}}]
`)
	wec.WaitForDeployment(t, "hello", "hello")
	since("the Deployment runs in \"prod\"")
	waitStatus(t, wds, 1)
	since("its status has returned")
	wds.Patch(t, deployments, "hello", "hello", `{"spec":{"replicas":2}}`)
	waitStatus(t, wds, 2)
	since("an edit has arrived, and its status has returned")
	logMemory(t, host)
}

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// waitStatus blocks until the Deployment in the WDS has the status of that many pods, which run in
// the WEC: nothing runs in a WDS.
func waitStatus(t *testing.T, wds *space, replicas int64) {
	t.Helper()
	testenv.Eventually(t, patience, func() (bool, string) {
		obj, err := wds.client.Resource(deployments).Namespace("hello").Get(t.Context(), "hello", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		got, _, _ := unstructured.NestedInt64(obj.Object, "status", "availableReplicas")
		return got == replicas, "the Deployment in the WDS has the status " + text(obj.Object["status"])
	})
}

// hosted returns the entry of a space that is reached at a port of the node.
func hosted(name, node string, port int) map[string]any {
	return map[string]any{"name": name, "type": "hosted", "apiServer": map[string]any{
		"hosts":   []any{node},
		"url":     url(node, port),
		"service": map[string]any{"type": "NodePort", "nodePort": port},
	}}
}

// version returns the tag of the images in an archive.
func version(t *testing.T, archive string) string {
	t.Helper()
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(archive) })
	if err != nil {
		t.Fatal(err)
	}
	_, tag, found := strings.Cut(manifest[0].RepoTags[0], ":")
	if !found {
		t.Fatalf("image %q has no tag", manifest[0].RepoTags[0])
	}
	return tag
}
