package kindtest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/starlinghq/starling/test/testenv"
)

const (
	probeImage = "starling/probe:test"
	probeText  = "hello from a volume"
)

// TestCluster: a cluster runs what a chart of Starling contains. A Deployment of a user who is not
// root becomes available from a loaded image and writes to a volume, its log can be read, and a pod
// finds its Service by name.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := Create(t, "starling-cluster", buildProbe(t))
	client := c.Client(t)
	createProbe(t, client)
	c.WaitForDeployment(t, "default", "probe")

	claim, err := client.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "probe", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if claim.Status.Phase != corev1.ClaimBound {
		t.Errorf("the claim is %s, want Bound", claim.Status.Phase)
	}

	pod := podOfProbe(t, c)
	log, err := client.CoreV1().Pods("default").GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := "serving /data/file\n"; string(log) != want {
		t.Errorf("log %q, want %q", log, want)
	}

	// CoreDNS and the rules of kube-proxy may be later than the pod.
	testenv.Eventually(t, patience, func() (bool, string) {
		out, err := execIn(t, c, pod, "/probe", "get", "http://probe.default.svc.cluster.local")
		if err != nil {
			return false, "get from the Service: " + err.Error() + ": " + out
		}
		return out == probeText, "the Service serves " + out
	})
}

// TestWithoutImage: tests are skipped where there are no clusters.
func TestWithoutImage(t *testing.T) {
	t.Setenv(ImageVariable, "")
	passed := t.Run("Skips", func(t *testing.T) { Create(t, "none") })
	if !passed {
		t.Error("it failed without an image, want that it is skipped")
	}
}

// buildProbe returns an archive with an image of the probe.
func buildProbe(t *testing.T) string {
	t.Helper()
	root, file := t.TempDir(), filepath.Join(t.TempDir(), "probe.tar")
	for _, args := range [][]string{
		{"build", "-buildvcs=false", "-trimpath", "-o", filepath.Join(root, "probe"), "./probe"},
		{"run", "-buildvcs=false", "-trimpath", "../../hack/images", "archive", "--name", probeImage, "--root", root, "--to", file, "/probe"},
	} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v: %s", args[0], err, out)
		}
	}
	return file
}

// createProbe creates a Deployment with a volume, and a Service.
func createProbe(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "probe", Labels: map[string]string{"app": "probe"}}
	user := int64(65532)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	if _, err := client.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	service := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		Selector: meta.Labels, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}}
	if _, err := client.CoreV1().Services("default").Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	deployment := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: meta.Labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: meta, Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{RunAsUser: &user, RunAsGroup: &user, FSGroup: &user},
			Containers: []corev1.Container{{
				Name: "probe", Image: probeImage, Args: []string{"serve", "/data/file"},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
				ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
					HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8080)},
				}},
			}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "probe"},
			}}},
		}},
	}}
	if _, err := client.AppsV1().Deployments("default").Create(t.Context(), deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// podOfProbe returns the name of the only pod.
func podOfProbe(t *testing.T, c *Cluster) string {
	t.Helper()
	pods, err := c.Client(t).CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=probe"})
	if err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 1 {
		t.Fatalf("there are %d pods, want 1", len(pods.Items))
	}
	return pods.Items[0].Name
}

// execIn runs a command in a pod, and returns what it writes.
func execIn(t *testing.T, c *Cluster, pod string, command ...string) (string, error) {
	t.Helper()
	request := c.Client(t).CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(c.Config, "GET", request.URL().String())
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer // both are written at the same time
	err = executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr})
	return stdout.String() + stderr.String(), err
}
