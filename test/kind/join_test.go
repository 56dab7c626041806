package kindtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/starlinghq/starling/test/testenv"
)

var managedClusters = schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters"}

// connectSpace connects to a space at a port of the node, with the kubeconfig for outside.
func connectSpace(t *testing.T, host *Cluster, name string, port int) *testenv.Space {
	t.Helper()
	secret, err := host.Client(t).CoreV1().Secrets(namespace).Get(t.Context(), name+"-admin", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["kubeconfig-external"])
	if err != nil {
		t.Fatal(err)
	}
	// Containers know the node by its name, and this machine does not.
	config.ServerName = host.Node()
	config.Host = url(host.address(t), port)
	return testenv.Connect(t, name, config)
}

// address returns the IP address of the node.
func (c *Cluster) address(t *testing.T) string {
	t.Helper()
	node, err := c.Client(t).CoreV1().Nodes().Get(t.Context(), c.Node(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return address.Address
		}
	}
	t.Fatalf("node %s has no address", c.Node())
	return ""
}

func url(host string, port int) string {
	return "https://" + net.JoinHostPort(host, strconv.Itoa(port))
}

// writeKubeconfig writes a file with which to connect to a space, as context "space".
func writeKubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	const name = "space"
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, TLSServerName: config.ServerName, CertificateAuthorityData: config.CAData}
	c.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	c.CurrentContext = name
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// plugin returns the path of kubectl-starling, which `make build` has built.
func plugin(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../bin/kubectl-starling")
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("run `make build` first: %v", err)
	}
	return path
}

// run runs a command, and returns what it prints.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := command(t.Context(), name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// command runs a command, and returns what it prints.
func command(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %q: %w: %s", filepath.Base(name), args, err, out)
	}
	return string(out), nil
}

// join lets a cluster ask to join the ITS, as its administrator does, and accepts it.
func (h *hub) join(t *testing.T, wec *Cluster, name string) {
	t.Helper()
	out := run(t, h.plugin, "cluster", "join", "--kubeconfig", wec.Kubeconfig, "--name", name, "--image", "starling/starling:"+h.tag,
		"--hub-kubeconfig", writeKubeconfig(t, h.its.Config), "--hub-context", "space")
	t.Logf("kubectl starling cluster join: %s", out)
	h.its.Patch(t, managedClusters, "", name, `{"metadata":{"labels":{"env":"`+name+`"}},"spec":{"hubAcceptsClient":true}}`)
	hub, err := kubernetes.NewForConfig(h.its.Config)
	if err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func() (bool, string) {
		approve(t, hub, name)
		conditions := testenv.Into[clusterv1.ManagedCluster](t, h.its.Get(t, managedClusters, "", name)).Status.Conditions
		return meta.IsStatusConditionTrue(conditions, clusterv1.ManagedClusterConditionAvailable), "the ManagedCluster has the conditions " + text(conditions)
	})
}

// approve approves what the cluster has requested with its bootstrap identity.
func approve(t *testing.T, hub kubernetes.Interface, name string) {
	t.Helper()
	requests := hub.CertificatesV1().CertificateSigningRequests()
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
	data, err := host.Client(t).CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/" + host.Node() + "/proxy/stats/summary").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var summary struct {
		Pods []struct {
			PodRef struct {
				Name      string `json:"name"`
				Namespace string `json:"namespace"`
			} `json:"podRef"`
			Memory struct {
				WorkingSetBytes int64 `json:"workingSetBytes"`
			} `json:"memory"`
		} `json:"pods"`
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
