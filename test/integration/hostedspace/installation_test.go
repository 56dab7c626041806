package hostedspace_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/starlinghq/starling/pkg/hostedspace"
	"github.com/starlinghq/starling/pkg/install/ocm"
	"github.com/starlinghq/starling/pkg/install/packages"
	"github.com/starlinghq/starling/test/testenv"
)

func installArgs(t testing.TB, kind, space string, more ...string) []string {
	t.Helper()
	return append([]string{"install", "--kubeconfig", kubeconfig(t, space, nil), "--type", kind, "--name", space}, more...)
}

func TestInstallWDS(t *testing.T) { //nolint:paralleltest // it compares versions of all objects
	fleet := testenv.Shared(t)
	space := fleet.Space(t, "wds1")
	args := installArgs(t, "wds", "wds1")
	succeeds(t, args, "Space wds1 has Kubernetes v", "Space wds1 is installed")
	space.Served(t, policies)
	system := space.Get(t, namespaces, "", "starling-system")
	for key, want := range map[string]string{hostedspace.TypeAnnotation: "wds", hostedspace.NameAnnotation: "wds1"} {
		if got := system.GetAnnotations()[key]; got != want {
			t.Errorf("annotation %s is %q, want %q", key, got, want)
		}
	}
	if space.Get(t, serviceAccounts, "starling-system", "transport-controller") == nil {
		t.Error("the identity of the transport-controller does not exist")
	}

	before := quiet(t, space)
	succeeds(t, args, "Chart wds is installed already", "Space wds1 is installed")
	unchanged(t, space, before)

	// What must not be installed in it.
	webhooks := []string{"--webhook-url", "https://127.0.0.1:1", "--webhook-ca", authority(t, "its1")}
	fails(t, append(installArgs(t, "its", "wds1"), webhooks...), "nothing was changed", "it is a space of type wds, not its")
	fails(t, append(args, "--name", "wds9"), "nothing was changed", `its name is "wds1"`)
	unchanged(t, space, before)

	// Other values are an upgrade, and an upgrade back.
	values := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(values, []byte("policyRights: false\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rights := func() int {
		list, err := space.Client.Resource(admission).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	all := rights()
	succeeds(t, append(args, "--values", values), "Installed chart wds")
	if got := rights(); got >= all {
		t.Errorf("%d admission policies with policyRights: false, want fewer than %d", got, all)
	}
	succeeds(t, args, "Installed chart wds")
	if got := rights(); got != all {
		t.Errorf("%d admission policies, want %d", got, all)
	}

	interruptUpgrade(t, space, append(args, "--values", values))
	succeeds(t, args, "Installed chart wds")
	if got := rights(); got != all {
		t.Errorf("%d admission policies after an interrupted upgrade, want %d", got, all)
	}
	succeeds(t, args, "Chart wds is installed already")

	waits(t, fleet, args)
}

// waits runs the command while the API server is down. The supervisor restarts it at once, so it is
// killed until the command has printed that it waits.
func waits(t *testing.T, fleet *testenv.Fleet, args []string) {
	t.Helper()
	bin, err := testenv.Binary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, append([]string{"space"}, args...)...)
	out := &output{}
	cmd.Stderr = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		if strings.Contains(out.String(), "Waiting for space wds1: ") {
			return true, ""
		}
		if c := fleet.Component(t, "wds1/kube-apiserver"); c.PID != 0 {
			testenv.KillProcess(t, c)
		}
		return false, "the command does not wait"
	})
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	contains(t, out.String(), "Chart wds is installed already")
}

// output is what a program prints. It can be read meanwhile.
type output struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.text.Write(p)
}

// String implements fmt.Stringer.
func (o *output) String() string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.text.String()
}

// interruptUpgrade kills the command while Helm upgrades the release.
func interruptUpgrade(t *testing.T, space *testenv.Space, args []string) {
	t.Helper()
	bin, err := testenv.Binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bin, append([]string{"space"}, args...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pending := metav1.ListOptions{LabelSelector: "owner=helm,status=pending-upgrade"}
	for begin := time.Now(); time.Since(begin) < testenv.Patience; {
		list, err := space.Client.Resource(secrets).Namespace("starling-system").List(t.Context(), pending)
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) > 0 {
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	list, err := space.Client.Resource(secrets).Namespace("starling-system").List(t.Context(), pending)
	if err != nil || len(list.Items) == 0 {
		t.Errorf("no upgrade was interrupted: %v", err)
	}
}

func TestInstallITS(t *testing.T) { //nolint:paralleltest // it compares versions of all objects
	fleet := testenv.Shared(t)
	space := fleet.Space(t, "its1")
	args := installArgs(t, "its", "its1",
		"--webhook-url", "https://127.0.0.1:1/ocm", "--webhook-ca", authority(t, "its1"),
		"--server", space.Config.Host, "--server-ca", authority(t, "its1"))
	succeeds(t, args, "Applied OCM's hub: ", "Space its1 is installed")
	hooks, err := space.Client.Resource(mutatingHooks).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(hooks.Items) == 0 {
		t.Fatalf("OCM's webhooks: %v", err)
	}
	list, _, _ := unstructured.NestedSlice(hooks.Items[0].Object, "webhooks")
	hook, _ := list[0].(map[string]any)
	if url, _, _ := unstructured.NestedString(hook, "clientConfig", "url"); url != "https://127.0.0.1:1/ocm/mutate-cluster-open-cluster-management-io-v1-managedcluster" {
		t.Errorf("the URL of the webhook is %q", url)
	}

	// A cluster finds the space without credentials, and clusteradm with its bootstrap token.
	for name, config := range map[string]*rest.Config{
		"anonymous": {Host: space.Config.Host, TLSClientConfig: rest.TLSClientConfig{CAData: space.Config.CAData}},
		"bootstrap": space.AsServiceAccount(ocm.BootstrapAccount.Namespace, ocm.BootstrapAccount.Name),
	} {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		info, err := client.CoreV1().ConfigMaps("kube-public").Get(t.Context(), "cluster-info", metav1.GetOptions{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		found, err := clientcmd.RESTConfigFromKubeConfig([]byte(info.Data["kubeconfig"]))
		if err != nil {
			t.Fatal(err)
		}
		if found.Host != space.Config.Host || !bytes.Equal(found.CAData, space.Config.CAData) {
			t.Errorf("%s: the address is %s", name, found.Host)
		}
		if _, err := client.CoreV1().ConfigMaps("kube-public").List(t.Context(), metav1.ListOptions{}); err == nil {
			t.Errorf("%s may list ConfigMaps", name)
		}
	}

	before := quiet(t, space)
	succeeds(t, args, "Chart its is installed already")
	unchanged(t, space, before)

	// Only what differs is written.
	space.Patch(t, configMaps, "kube-public", "cluster-info", `{"data":{"kubeconfig":"damaged"}}`)
	before = quiet(t, space)
	succeeds(t, args)
	unchanged(t, space, before, "configmaps kube-public/cluster-info")

	// It is a hub now, so the hub need not be part of the request.
	before = quiet(t, space)
	succeeds(t, installArgs(t, "its", "its1"))
	fails(t, installArgs(t, "wds", "its1"), "it is a space of type its, not wds")
	unchanged(t, space, before)
}

func TestRefused(t *testing.T) { //nolint:paralleltest // it compares versions of all objects
	space := testenv.Shared(t).Space(t, host)
	before := quiet(t, space)
	fails(t, append(installArgs(t, "wds", host), "--kubeconfig", kubeconfig(t, host, as("somebody"))),
		"nothing was changed", `user "somebody" may not do everything`, "cluster-admin")
	fails(t, append(installArgs(t, "wds", host), "--kubeconfig", kubeconfig(t, host, func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
		*user = clientcmdapi.AuthInfo{Token: "nonsense"}
	})), "nothing was changed", "refuses the credentials")
	fails(t, installArgs(t, "its", host), "nothing was changed", "OCM's hub is not installed")
	unchanged(t, space, before)

	// A hosting cluster that kubeadm has made has published its address.
	space.Apply(t, "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: kube-public, name: cluster-info}, data: {kubeconfig: mine}}")
	before = quiet(t, space)
	fails(t, installArgs(t, "wds", host, "--server", space.Config.Host, "--server-ca", authority(t, host)),
		"nothing was changed", "ConfigMap kube-public/cluster-info was not written by Starling", "leave out --server")
	unchanged(t, space, before)

	closed := "https://" + testenv.Address(t)
	fails(t, append(installArgs(t, "wds", host), "--timeout", "3s", "--kubeconfig", kubeconfig(t, host, func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
		c.Server = closed
	})), "Waiting for space "+host, "nothing was changed", closed, "did not respond within 3s")
	// A server that accepts connections and never responds.
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	fails(t, append(installArgs(t, "wds", host), "--timeout", "3s", "--kubeconfig", kubeconfig(t, host, func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
		c.Server = "https://" + listener.Addr().String()
	})), "nothing was changed", "did not respond within 3s")
	if out, code := run(t, "install", "--type", "wds"); code != 2 {
		t.Errorf("an invalid command line has exit code %d: %s", code, out)
	}
}

// TestPackageServer registers a package-server that runs, and one that does not.
func TestPackageServer(t *testing.T) {
	fleet := testenv.Start(t, testenv.Options{Packages: true})
	space := fleet.Space(t, "wds1")
	api := space.Get(t, apiServices, "", packages.APIService)
	port, _, err := unstructured.NestedInt64(api.Object, "spec", "service", "port")
	if err != nil {
		t.Fatal(err)
	}
	space.Delete(t, apiServices, "", packages.APIService)
	config, err := clientcmd.LoadFromFile(fleet.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.CurrentContext = "wds1"
	file, ca := filepath.Join(t.TempDir(), "kubeconfig"), filepath.Join(t.TempDir(), "ca.crt")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ca, space.Config.CAData, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"install", "--kubeconfig", file, "--type", "wds", "--name", "wds1", "--package-server-ca", ca, "--package-server"}
	server := "localhost:" + strconv.FormatInt(port, 10)
	// The chart that the fleet has installed is the same.
	succeeds(t, append(args, server), "Chart wds is installed already", "Package-server is available")
	space.Served(t, packages.Revisions)
	before := quiet(t, space)
	succeeds(t, append(args, server), "Package-server is available")
	unchanged(t, space, before)

	space.Delete(t, apiServices, "", packages.APIService)
	space.Apply(t, `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: `+packages.APIService+`}
spec:
  {group: porch.kpt.dev, version: v1alpha1, groupPriorityMinimum: 1000, versionPriority: 15, service: {namespace: porch-system, name: api}}
`)
	fails(t, append(args, server), "nothing was changed", `Service "porch-system/api" serves packages in it already`)
	space.Delete(t, apiServices, "", packages.APIService)
	fails(t, append(args, "nowhere.invalid:1", "--timeout", "10s"),
		"Waiting for package-server: ", "it was not within 10s, all else is installed", "nowhere.invalid:1")
	succeeds(t, append(args, server), "Package-server is available")
	space.Served(t, packages.Revisions)
}
