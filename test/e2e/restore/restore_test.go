// Package restore restores the spaces of a hub from a backup, while a cluster with OCM's agents
// goes on.
package restore

import (
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/install/ocm"
	"github.com/starlinghq/starling/test/testenv"
)

var (
	configMaps      = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	managedClusters = schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters"}
	manifestWorks   = schema.GroupVersionResource{Group: "work.open-cluster-management.io", Version: "v1", Resource: "manifestworks"}
)

// cluster is the name of the cluster in the hub, and shop the namespace of what is delivered.
const (
	cluster = "cluster1"
	shop    = "shop"
)

// TestRestoreOfTheHub: a WDS and an ITS are restored from a backup. Whatever was written after it,
// nothing changes in the cluster until the hold is released. Then the cluster has what the restored
// space and the administrator ask for, and what is wanted is still the same object.
func TestRestoreOfTheHub(t *testing.T) {
	hub := testenv.Start(t, testenv.Options{OCM: true, Controllers: true})
	site := testenv.Start(t, testenv.Options{Spaces: []string{"wds1"}}) // another machine: it is not restored
	wds, its, wec := hub.Space(t, "wds1"), hub.Space(t, "its1"), site.Space(t, "wds1")
	join(t, hub, site)

	wds.Apply(t, `{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {app: shop}}}`)
	for name, value := range map[string]string{"same": "1", "edited": "1", "deleted": "1", "moved": "1"} {
		write(t, wds, name, "shop", value)
	}
	policy(t, wds, "shop")
	for _, name := range []string{"same", "edited", "deleted", "moved"} {
		arrives(t, wec, name, "1")
	}
	ready(t, wds, "shop")
	foreign(t, its, "1") // of another program
	arrives(t, wec, "foreign", "1")

	backups := t.TempDir()
	etcd := hub.Component(t, "etcd").Address
	pki := filepath.Join(hub.Dir, "etcd", "pki")
	run(t, hub, "space", "backup", "--space", "wds1", "--type", "wds", "--endpoint", "https://"+etcd, "--dir", backups,
		"--ca", filepath.Join(pki, "ca.crt"), "--cert", filepath.Join(pki, "client-wds1.crt"), "--key", filepath.Join(pki, "client-wds1.key"))

	t.Log("after the backup")
	foreign(t, its, "2")
	arrives(t, wec, "foreign", "2")
	write(t, wds, "edited", "shop", "2")
	write(t, wds, "created", "shop", "2")
	write(t, wds, "adopted", "shop", "2")
	write(t, wds, "late", "late", "2")
	policy(t, wds, "late")
	write(t, wds, "moved", "late", "1")
	wds.Delete(t, configMaps, shop, "deleted")
	for name, value := range map[string]string{"edited": "2", "created": "2", "adopted": "2", "late": "2", "moved": "1"} {
		arrives(t, wec, name, value)
	}
	leaves(t, wec, "deleted")
	ready(t, wds, "shop")
	ready(t, wds, "late")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) { // the work of "shop" has released it
		owners := wec.Get(t, configMaps, shop, "moved").GetOwnerReferences()
		return len(owners) == 1, fmt.Sprintf("moved has the owners %v", owners)
	})
	before := content(t, wec)
	events := watch(t, wec)

	t.Log("the hub is restored")
	run(t, hub, "down")
	restore := []string{
		"space", "restore", "--space", "wds1=wds", "--space", "its1=its", "--id", "r1", "--dir", backups,
		"--data-dir", filepath.Join(hub.Dir, "etcd", "data"), "--replace",
	}
	run(t, hub, restore...)
	run(t, hub, restore...) // which does nothing
	if _, err := hub.Up(); err != nil {
		t.Fatal(err)
	}

	t.Log("the cluster receives what is new: it has seen all works by then")
	write(t, wds, "fresh", "fresh", "3")
	policy(t, wds, "fresh")
	arrives(t, wec, "fresh", "3")
	bindings := wds.Client.Resource(controlv1alpha1.Bindings)
	for _, condition := range []string{controlv1alpha1.BindingConditionHeld, controlv1alpha1.BindingConditionDelivered} {
		t.Logf("%s: %s", condition, testenv.Condition(t, bindings, "shop", condition, controlv1alpha1.ReasonHeld))
	}
	testenv.Never(t, 10*time.Second, func() string { return strings.Join(events("fresh"), ", ") })
	now := content(t, wec)
	delete(now, "fresh")
	if !maps.Equal(before, now) {
		t.Errorf("the cluster has %v, and had %v", now, before)
	}

	t.Log("the administrator writes again what is to stay, and releases the hold")
	write(t, wds, "adopted", "shop", "2")
	wds.Patch(t, controlv1alpha1.Bindings, "", "shop", `{"metadata":{"annotations":{"starling.io/hold":null}}}`)
	arrives(t, wec, "edited", "1")
	arrives(t, wec, "deleted", "1")
	leaves(t, wec, "created")
	ready(t, wds, "shop")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) { // those of "late" are orphans
		left := restoredWorks(t, its)
		return len(left) == 0, fmt.Sprintf("works that were restored are left: %v", left)
	})
	now = content(t, wec)
	for _, name := range []string{"same", "edited", "adopted", "moved", "late", "foreign"} {
		if uid, _, _ := strings.Cut(now[name], " "); !strings.HasPrefix(before[name], uid+" ") {
			t.Errorf("%s is %q, and was %q: it is another object", name, now[name], before[name])
		}
	}
	t.Log("a work of another program is handed to the cluster")
	its.Patch(t, manifestWorks, cluster, "foreign", `{"status":{"conditions":[]}}`, "status")
	its.Patch(t, manifestWorks, cluster, "foreign", `{"metadata":{"labels":{"restored":"r1"}}}`)
	arrives(t, wec, "foreign", "1")
	if got := events("fresh", "edited", "deleted", "created"); slices.ContainsFunc(got, func(e string) bool { return strings.HasPrefix(e, "DELETED") || strings.HasPrefix(e, "ADDED") }) {
		t.Errorf("events in the cluster: %v", got)
	}
}

func run(t *testing.T, fleet *testenv.Fleet, args ...string) {
	t.Helper()
	if _, err := fleet.Run(args...); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, space *testenv.Space, name, app, value string) {
	t.Helper()
	space.Apply(t, fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: shop, labels: {app: %s}}, data: {key: %q}}`, name, app, value))
}

// foreign writes a work as another program does.
func foreign(t *testing.T, its *testenv.Space, value string) {
	t.Helper()
	its.Apply(t, fmt.Sprintf(`
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: foreign, namespace: cluster1}
spec: {workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: foreign, namespace: shop, labels: {app: foreign}}, data: {key: %q}}]}}`, value))
}

// policy delivers what has a label to the cluster.
func policy(t *testing.T, space *testenv.Space, app string) {
	t.Helper()
	space.Apply(t, fmt.Sprintf(`
apiVersion: control.kubestellar.io/v1alpha1
kind: BindingPolicy
metadata: {name: %[1]s}
spec:
  clusterSelectors: [{matchLabels: {name: cluster1}}]
  downsync: [{objectSelectors: [{matchLabels: {app: %[1]s}}]}]`, app))
}

func ready(t *testing.T, space *testenv.Space, policy string) {
	t.Helper()
	testenv.Condition(t, space.Client.Resource(controlv1alpha1.BindingPolicies), policy, controlv1alpha1.BindingPolicyConditionReady, "Applied")
}

func arrives(t *testing.T, space *testenv.Space, name, value string) {
	t.Helper()
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		obj := space.Get(t, configMaps, shop, name)
		return obj != nil && dataOf(obj) == value, fmt.Sprintf("%s is %v, want %q", name, obj, value)
	})
}

func leaves(t *testing.T, space *testenv.Space, name string) {
	t.Helper()
	testenv.Eventually(t, testenv.Patience, func() (bool, string) { return space.Get(t, configMaps, shop, name) == nil, name + " is still there" })
}

func dataOf(obj *unstructured.Unstructured) string {
	value, _, _ := unstructured.NestedString(obj.Object, "data", "key")
	return value
}

// content returns the UIDs, versions and data of what is delivered to the cluster, by name.
func content(t *testing.T, wec *testenv.Space) map[string]string {
	t.Helper()
	list, err := wec.Client.Resource(configMaps).Namespace(shop).List(t.Context(), metav1.ListOptions{LabelSelector: "app"})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for i := range list.Items {
		obj := &list.Items[i]
		all[obj.GetName()] = fmt.Sprintf("%s %s %s", obj.GetUID(), obj.GetResourceVersion(), dataOf(obj))
	}
	return all
}

// watch returns a function that returns what has happened in the cluster since, without objects of
// these names.
func watch(t *testing.T, wec *testenv.Space) func(except ...string) []string {
	t.Helper()
	list, err := wec.Client.Resource(configMaps).Namespace(shop).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := wec.Client.Resource(configMaps).Namespace(shop).Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watcher.Stop)
	var mu sync.Mutex
	events := map[string][]string{}
	go func() {
		for event := range watcher.ResultChan() {
			mu.Lock()
			name := "?"
			if obj, ok := event.Object.(*unstructured.Unstructured); ok {
				name = obj.GetName()
			}
			events[name] = append(events[name], fmt.Sprintf("%s %s", event.Type, name))
			mu.Unlock()
		}
	}()
	return func(except ...string) []string {
		mu.Lock()
		defer mu.Unlock()
		var all []string
		for name, of := range events {
			if !slices.Contains(except, name) {
				all = append(all, of...)
			}
		}
		return all
	}
}

// restoredWorks returns the names of works of Starling that were restored.
func restoredWorks(t *testing.T, its *testenv.Space) []string {
	t.Helper()
	list, err := its.Client.Resource(manifestWorks).Namespace(cluster).List(t.Context(), metav1.ListOptions{LabelSelector: controlv1alpha1.LabelWDSUID})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		if _, restored := list.Items[i].GetAnnotations()[controlv1alpha1.AnnotationRestored]; restored {
			names = append(names, list.Items[i].GetName())
		}
	}
	return names
}

// join runs OCM's agent for the site, and accepts it in the hub.
func join(t *testing.T, hub, site *testenv.Fleet) {
	t.Helper()
	wec := site.Space(t, "wds1")
	wec.Install(t,
		testenv.OCM(t, "work/v1/0000_01_work.open-cluster-management.io_appliedmanifestworks.crd.yaml"),
		testenv.OCM(t, "cluster/v1alpha1/0000_02_clusters.open-cluster-management.io_clusterclaims.crd.yaml"))
	wec.Apply(t, `{apiVersion: v1, kind: Namespace, metadata: {name: `+ocm.NamespaceAgent+`}}`)
	bin, err := testenv.Binary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	hubDir := filepath.Join(dir, "hub")
	agent := exec.CommandContext(t.Context(), bin, append([]string{
		"klusterlet", "--space=" + cluster, "--",
		"--kubeconfig=" + kubeconfig(t, site, "wds1"), "--spoke-kubeconfig=" + kubeconfig(t, site, "wds1"),
		"--bootstrap-kubeconfig=" + kubeconfig(t, hub, "its1"),
		"--hub-kubeconfig-dir=" + hubDir, "--workload-source-config=" + filepath.Join(hubDir, "kubeconfig"),
		"--namespace=" + ocm.NamespaceAgent, "--agent-id=starling", "--listen=" + testenv.Address(t), "--disable-leader-election",
		"--cluster-healthcheck-period=15s",
	}, ocm.AgentFlags(cluster)...)...)
	out := &testLog{}
	agent.Stdout, agent.Stderr = out, out
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- agent.Wait() }()
	t.Cleanup(func() {
		_ = agent.Process.Kill()
		if t.Failed() {
			t.Logf("the end of the log of OCM's agent:\n%s", out.end())
		}
	})

	its := hub.Space(t, "its1")
	kube, err := kubernetes.NewForConfig(its.Config)
	if err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		select {
		case err := <-ended:
			t.Fatalf("OCM's agent ended: %v", err)
		default:
		}
		managed := its.Get(t, managedClusters, "", cluster)
		if managed == nil {
			return false, "the cluster has not asked to join"
		}
		if accepted, _, _ := unstructured.NestedBool(managed.Object, "spec", "hubAcceptsClient"); !accepted {
			its.Patch(t, managedClusters, "", cluster, `{"metadata":{"labels":{"name":"cluster1"}},"spec":{"hubAcceptsClient":true}}`)
		}
		approve(t, kube)
		conditions, _, _ := unstructured.NestedSlice(managed.Object, "status", "conditions")
		return slices.ContainsFunc(conditions, func(c any) bool {
			condition, _ := c.(map[string]any)
			return condition["type"] == "ManagedClusterConditionAvailable" && condition["status"] == "True"
		}), fmt.Sprintf("the cluster is not available: %v", conditions)
	})
}

// approve approves the certificates that the cluster has asked for.
func approve(t *testing.T, kube kubernetes.Interface) {
	t.Helper()
	requests, err := kube.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{LabelSelector: "open-cluster-management.io/cluster-name=" + cluster})
	if err != nil {
		t.Fatal(err)
	}
	for i := range requests.Items {
		request := &requests.Items[i]
		if len(request.Status.Conditions) > 0 {
			continue
		}
		request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test",
		})
		if _, err := kube.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), request.Name, request, metav1.UpdateOptions{}); err != nil {
			t.Log(err)
		}
	}
}

// kubeconfig writes a kubeconfig of the administrator of one space.
func kubeconfig(t *testing.T, fleet *testenv.Fleet, space string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(fleet.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.CurrentContext = space
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// testLog keeps what a process prints.
type testLog struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (l *testLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

func (l *testLog) end() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text[max(0, len(l.text)-4000):])
}
