package kindtest

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/starlinghq/starling/pkg/install/apply"
	"github.com/starlinghq/starling/pkg/install/manifest"
	"github.com/starlinghq/starling/test/testenv"
)

// installPatience is how long an installation may take. Pods wait for Secrets with a growing delay.
const installPatience = 10 * time.Minute

// installChart installs a chart as the release "starling", as `helm install --wait` does, and
// returns its manifest.
func installChart(t *testing.T, c *Cluster, path string, values map[string]any) string {
	t.Helper()
	loaded, err := loader.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	flags := genericclioptions.NewConfigFlags(false)
	ns := namespace
	flags.KubeConfig, flags.Namespace = &c.Kubeconfig, &ns
	cfg := &action.Configuration{}
	if err := cfg.Init(flags, namespace, "secret", func(string, ...any) {}); err != nil {
		t.Fatal(err)
	}
	install := action.NewInstall(cfg)
	install.ReleaseName, install.Namespace, install.CreateNamespace = "starling", namespace, true
	install.Wait, install.WaitForJobs, install.Timeout = true, true, installPatience
	release, err := install.RunWithContext(t.Context(), loaded, values)
	if err != nil {
		t.Fatalf("helm install: %v%s", err, c.problems(t, namespace))
	}
	return release.Manifest
}

// problems returns what does not run in a namespace, and the end of its logs.
func (c *Cluster) problems(t *testing.T, namespace string) string {
	t.Helper()
	pods, err := c.Client(t).CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return "\n" + err.Error()
	}
	var out strings.Builder
	for _, pod := range pods.Items {
		for _, s := range pod.Status.ContainerStatuses {
			if s.Ready || (s.State.Terminated != nil && s.State.Terminated.ExitCode == 0) {
				continue
			}
			lines := int64(5)
			log, err := c.Client(t).CoreV1().Pods(namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: s.Name, TailLines: &lines}).DoRaw(t.Context())
			if err != nil {
				log = []byte(err.Error())
			}
			fmt.Fprintf(&out, "\npod %s, container %s: %s\n%s", pod.Name, s.Name, text(s.State), log)
		}
	}
	return out.String()
}

// space is a space of a hosting cluster, as its administrator reaches it from outside.
type space struct {
	config *rest.Config
	kube   kubernetes.Interface
	client dynamic.Interface
}

// spaceOf connects to a space at a port of the node, with the kubeconfig for outside.
func spaceOf(t *testing.T, host *Cluster, name string, port int) *space {
	t.Helper()
	secret, err := host.Client(t).CoreV1().Secrets(namespace).Get(t.Context(), name+"-admin", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["kubeconfig-external"])
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := host.Client(t).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Containers know the node by its name, and this machine does not.
	config.ServerName = host.Name + "-control-plane"
	for _, address := range nodes.Items[0].Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			config.Host = url(address.Address, port)
		}
	}
	s := &space{config: config}
	if s.kube, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if s.client, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	return s
}

func url(host string, port int) string {
	return "https://" + net.JoinHostPort(host, strconv.Itoa(port))
}

// kubeconfig returns a file with which to connect to the space, as context "hub".
func (s *space) kubeconfig(t *testing.T) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["hub"] = &clientcmdapi.Cluster{Server: s.config.Host, TLSServerName: s.config.ServerName, CertificateAuthorityData: s.config.CAData}
	config.AuthInfos["hub"] = &clientcmdapi.AuthInfo{ClientCertificateData: s.config.CertData, ClientKeyData: s.config.KeyData}
	config.Contexts["hub"] = &clientcmdapi.Context{Cluster: "hub", AuthInfo: "hub"}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// run runs a command, and returns what it prints.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", filepath.Base(name), err, out)
	}
	return string(out)
}

// Apply applies objects.
func (s *space) Apply(t *testing.T, objects string) {
	t.Helper()
	objs, err := manifest.Parse(strings.NewReader(objects))
	if err != nil {
		t.Fatal(err)
	}
	if err := apply.Objects(t.Context(), s.config, objs); err != nil {
		t.Fatal(err)
	}
}

// Patch changes an object with a merge patch.
func (s *space) Patch(t *testing.T, resource schema.GroupVersionResource, namespace, name, patch string) {
	t.Helper()
	_, err := s.client.Resource(resource).Namespace(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

var clusters = schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters"}

// join lets a cluster ask to join the ITS, as its administrator does, and accepts it.
func join(t *testing.T, its *space, wec *Cluster, name, tag string) {
	t.Helper()
	plugin := filepath.Join(t.TempDir(), "kubectl-starling")
	run(t, "go", "build", "-buildvcs=false", "-trimpath", "-o", plugin, "../../cmd/kubectl-starling")
	out := run(t, plugin, "cluster", "join", "--kubeconfig", wec.Kubeconfig, "--name", name, "--image", "starling/starling:"+tag,
		"--hub-kubeconfig", its.kubeconfig(t), "--hub-context", "hub")
	t.Logf("kubectl starling cluster join: %s", out)
	its.Patch(t, clusters, "", name, `{"metadata":{"labels":{"env":"prod"}},"spec":{"hubAcceptsClient":true}}`)
	testenv.Eventually(t, patience, func() (bool, string) {
		approve(t, its, name)
		obj, err := its.client.Resource(clusters).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		conditions := testenv.Into[clusterv1.ManagedCluster](t, obj).Status.Conditions
		return meta.IsStatusConditionTrue(conditions, clusterv1.ManagedClusterConditionAvailable), "the ManagedCluster has the conditions " + text(conditions)
	})
}

// approve approves what the cluster has requested with its bootstrap identity.
func approve(t *testing.T, its *space, name string) {
	t.Helper()
	requests := its.kube.CertificatesV1().CertificateSigningRequests()
	list, err := requests.List(t.Context(), metav1.ListOptions{LabelSelector: "open-cluster-management.io/cluster-name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		csr := &list.Items[i]
		if len(csr.Status.Conditions) > 0 {
			continue
		}
		csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test", Message: "the test accepts the cluster",
		}}
		if _, err := requests.UpdateApproval(t.Context(), csr.Name, csr, metav1.UpdateOptions{}); err != nil {
			t.Logf("approve %s: %v", csr.Name, err)
		}
	}
}

// logMemory logs what the pods of the hosting cluster use.
func logMemory(t *testing.T, host *Cluster) {
	t.Helper()
	nodes, err := host.Client(t).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := host.Client(t).CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/" + nodes.Items[0].Name + "/proxy/stats/summary").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var summary struct {
		Pods []struct {
			PodRef struct{ Name, Namespace string }
			Memory struct{ WorkingSetBytes int64 }
		}
	}
	if err := json.Unmarshal(data, &summary); err != nil {
		t.Fatal(err)
	}
	var total int64
	for _, pod := range summary.Pods {
		if pod.PodRef.Namespace == namespace {
			total += pod.Memory.WorkingSetBytes
			t.Logf("%-40s %4d MiB", pod.PodRef.Name, pod.Memory.WorkingSetBytes>>20)
		}
	}
	t.Logf("%-40s %4d MiB", "all pods of the release", total>>20)
}

// text returns a value as JSON.
func text(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(out)
}
