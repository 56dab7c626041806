package status

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"slices"
	"strings"
	"sync"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/starlinghq/starling/pkg/statusagent/manager"
	"github.com/starlinghq/starling/test/testenv"
)

const (
	addonName    = "addon-status"
	addonRole    = "open-cluster-management:addon-status:agent"
	agentAccount = "status-agent-sa"
	agentHome    = "open-cluster-management-agent-addon"
)

// theManager runs for all tests of the binary, under its own identity, unless one stops it.
var theManager struct {
	sync.Mutex
	stop func()
}

func managerConfig(its *space) *rest.Config {
	user, group := serviceAccount("starling-system", "status-agent-manager")
	return its.As(user, group)
}

func startManager(t *testing.T, its *space) {
	t.Helper()
	startManagerWith(t, its, "")
}

// startManagerWith starts the manager with the image of the agent, unless it runs.
func startManagerWith(t *testing.T, its *space, agentImage string) {
	t.Helper()
	theManager.Lock()
	defer theManager.Unlock()
	if theManager.stop != nil {
		return
	}
	m, err := manager.New(manager.Config{ITS: managerConfig(its), Install: manager.InstallAll, AgentImage: agentImage})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := m.Run(ctx); err != nil {
			klog.Background().Error(err, "The manager ended; there are no rights and works from now on")
		}
	}()
	theManager.stop = func() {
		cancel()
		<-ended
	}
}

// stopManager stops the manager, and has it started again when the test ends.
func stopManager(t *testing.T, its *space) {
	t.Helper()
	endManager()
	t.Cleanup(func() { startManager(t, its) })
}

func endManager() {
	theManager.Lock()
	defer theManager.Unlock()
	if theManager.stop != nil {
		theManager.stop()
		theManager.stop = nil
	}
}

// join does what OCM does for a cluster that the hub has accepted, and waits until the manager has
// given its agent its rights. With them, the agent's identities are returned.
func join(t *testing.T, cluster string) (hub, wec *rest.Config) {
	t.Helper()
	_, its, wecSpace := fleet(t)
	startManager(t, its)
	its.create(t, clusters, map[string]any{
		"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
		"metadata": map[string]any{"name": cluster}, "spec": map[string]any{"hubAcceptsClient": true},
	})
	its.namespace(t, cluster)
	testenv.Eventually(t, patience, func() (bool, string) {
		return its.Get(t, roleBindings, cluster, addonRole) != nil, "no rights in the mailbox"
	})
	testenv.Eventually(t, patience, func() (bool, string) {
		return its.Get(t, manifestWorks, cluster, "addon-addon-status-deploy-0") != nil, "no work with the agent's manifests"
	})
	// OCM's work agent applies what the add-on brings.
	deploy := its.Get(t, manifestWorks, cluster, "addon-addon-status-deploy-0")
	manifests, _, err := unstructured.NestedSlice(deploy.Object, "spec", "workload", "manifests")
	if err != nil {
		t.Fatal(err)
	}
	wecSpace.namespace(t, agentHome) // by OCM's agent when it is installed
	for _, m := range manifests {
		wecSpace.ApplyObject(t, &unstructured.Unstructured{Object: m.(map[string]any)})
	}
	user, group := serviceAccount(agentHome, agentAccount)
	return its.As(agentUser(cluster), "system:open-cluster-management:cluster:"+cluster+":addon:"+addonName), wecSpace.As(user, group)
}

func agentUser(cluster string) string {
	return "system:open-cluster-management:cluster:" + cluster + ":addon:" + addonName + ":agent:status-agent"
}

func TestManagerInstallsTheAddOn(t *testing.T) {
	_, its, _ := fleet(t)
	const cluster = "installed"
	join(t, cluster)

	addon := its.Get(t, addons, cluster, addonName)
	if addon == nil {
		t.Fatal("no ManagedClusterAddOn")
	}
	testenv.Eventually(t, patience, func() (bool, string) {
		addon = its.Get(t, addons, cluster, addonName)
		registrations, _, _ := unstructured.NestedSlice(addon.Object, "status", "registrations")
		namespace, _, _ := unstructured.NestedString(addon.Object, "status", "namespace")
		mode, _, _ := unstructured.NestedString(addon.Object, "status", "healthCheck", "mode")
		want := `[{"signerName":"kubernetes.io/kube-apiserver-client","subject":{"groups":["system:open-cluster-management:cluster:installed:addon:addon-status"],"user":"` + agentUser(cluster) + `"}}]`
		return asJSON(registrations) == want && namespace == agentHome && mode == "Lease",
			"status of the add-on is " + asJSON(addon.Object["status"])
	})

	binding := its.Get(t, roleBindings, cluster, addonRole)
	subjects, _, _ := unstructured.NestedSlice(binding.Object, "subjects")
	if got, want := asJSON(subjects), `[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"system:open-cluster-management:cluster:installed:addon:addon-status"}]`; got != want {
		t.Errorf("the rights in the mailbox are bound to %s, want %s", got, want)
	}

	// Somebody widens the rights.
	its.patch(t, roleBindings, cluster, addonRole, map[string]any{"subjects": []any{
		map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"},
	}})
	its.patch(t, addons, cluster, addonName, map[string]any{"metadata": map[string]any{"labels": map[string]any{"touched": "x"}}})
	testenv.Eventually(t, patience, func() (bool, string) {
		subjects, _, _ := unstructured.NestedSlice(its.Get(t, roleBindings, cluster, addonRole).Object, "subjects")
		return !strings.Contains(asJSON(subjects), "authenticated"), "still bound to " + asJSON(subjects)
	})

	// Somebody removes the add-on.
	uid := addon.GetUID()
	its.Delete(t, addons, cluster, addonName)
	testenv.Eventually(t, patience, func() (bool, string) {
		addon := its.Get(t, addons, cluster, addonName)
		return addon != nil && addon.GetUID() != uid, "the add-on is not installed again"
	})
}

func TestManagerLeavesOtherClustersAlone(t *testing.T) {
	_, its, _ := fleet(t)
	startManager(t, its)
	its.create(t, clusters, map[string]any{
		"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
		"metadata": map[string]any{"name": "stranger"}, "spec": map[string]any{"hubAcceptsClient": false},
	})
	its.namespace(t, "stranger")
	join(t, "after-stranger") // events come in order
	if its.Get(t, addons, "stranger", addonName) != nil {
		t.Error("the add-on is installed in a cluster that the hub has not accepted")
	}
	its.patch(t, clusters, "", "stranger", map[string]any{"spec": map[string]any{"hubAcceptsClient": true}})
	testenv.Eventually(t, patience, func() (bool, string) {
		return its.Get(t, addons, "stranger", addonName) != nil, "not installed after the hub has accepted the cluster"
	})
}

func TestManagerRestartWritesNothing(t *testing.T) {
	_, its, _ := fleet(t)
	const cluster = "manager-restart"
	join(t, cluster)
	// The reports of other tests are in mailboxes without the add-on. A first manager deletes them.
	var cleaning, sent testenv.Traffic
	first, err := manager.New(manager.Config{ITS: cleaning.Count(managerConfig(its)), Install: manager.InstallAll})
	if err != nil {
		t.Fatal(err)
	}
	stop := testenv.Run(t, first.Run)
	testenv.Eventually(t, patience, func() (bool, string) { return first.Ready() == nil, "not ready" })
	cleaning.Idle(t)
	stop()
	again, err := manager.New(manager.Config{ITS: sent.Count(managerConfig(its)), Install: manager.InstallAll})
	if err != nil {
		t.Fatal(err)
	}
	testenv.Run(t, again.Run)
	testenv.Eventually(t, patience, func() (bool, string) { return again.Ready() == nil, "not ready" })
	sent.Nothing(t, "", 0)
}

// TestManagerApprovesTheAgentsOwnRequest: the request of the cluster's registration agent is
// approved, that of another cluster's is not, whatever its labels say.
func TestManagerApprovesTheAgentsOwnRequest(t *testing.T) {
	_, its, _ := fleet(t)
	const cluster = "csr1"
	join(t, cluster)
	join(t, cluster+"0") // whose name begins with the other's
	request := func(name, requester string) string {
		client, err := kubernetes.NewForConfig(its.As("system:open-cluster-management:"+requester+":agent",
			"system:open-cluster-management:"+requester, "system:open-cluster-management:managed-clusters", "system:masters"))
		if err != nil {
			t.Fatal(err)
		}
		csr, err := client.CertificatesV1().CertificateSigningRequests().Create(t.Context(), &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				"open-cluster-management.io/cluster-name": cluster, "open-cluster-management.io/addon-name": addonName,
			}},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: pemRequest(t, cluster), SignerName: certificatesv1.KubeAPIServerClientSignerName,
				Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return csr.Name
	}
	forged := request("addon-csr1-forged", cluster+"0")
	own := request("addon-csr1-own", cluster)
	client, err := kubernetes.NewForConfig(its.Config)
	if err != nil {
		t.Fatal(err)
	}
	approved := func(name string) bool {
		csr, err := client.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
			return c.Type == certificatesv1.CertificateApproved
		})
	}
	testenv.Eventually(t, patience, func() (bool, string) { return approved(own), "the own request is not approved" })
	if approved(forged) {
		t.Error("the request of another cluster is approved")
	}
}

// TestAgentReachesItsOwnMailboxOnly: by RBAC, with the identity that OCM issues.
func TestAgentReachesItsOwnMailboxOnly(t *testing.T) {
	hub, wec := join(t, "reach1")
	join(t, "reach10")
	client, err := dynamic.NewForConfig(hub)
	if err != nil {
		t.Fatal(err)
	}
	workStatus := func(namespace string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "control.kubestellar.io/v1alpha1", "kind": "WorkStatus",
			"metadata": map[string]any{"name": "w", "namespace": namespace},
			"spec":     map[string]any{"sourceRef": map[string]any{"group": "", "namespace": "n", "resource": "r", "name": "x"}},
		}}
	}
	options := metav1.CreateOptions{}
	if _, err := client.Resource(workStatuses).Namespace("reach1").Create(t.Context(), workStatus("reach1"), options); err != nil {
		t.Errorf("own mailbox: %v", err)
	}
	refused := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("%s: %v, want it to be forbidden", what, err)
		}
	}
	_, err = client.Resource(workStatuses).Namespace("reach10").Create(t.Context(), workStatus("reach10"), options)
	refused("write into another mailbox", err)
	_, err = client.Resource(workStatuses).Namespace("reach10").List(t.Context(), metav1.ListOptions{})
	refused("read another mailbox", err)
	_, err = client.Resource(workStatuses).List(t.Context(), metav1.ListOptions{})
	refused("read all mailboxes", err)
	refused("delete a work", client.Resource(manifestWorks).Namespace("reach1").Delete(t.Context(), "addon-addon-status-deploy-0", metav1.DeleteOptions{}))
	_, err = client.Resource(manifestWorks).Namespace("reach1").Create(t.Context(), &unstructured.Unstructured{Object: manifestWork("reach1", "forged", nil)}, options)
	refused("write a work", err)
	_, err = client.Resource(clusters).List(t.Context(), metav1.ListOptions{})
	refused("read the inventory", err)

	inWEC, err := dynamic.NewForConfig(wec)
	if err != nil {
		t.Fatal(err)
	}
	_, err = inWEC.Resource(configMaps).Namespace("default").Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x", "namespace": "default"},
	}}, options)
	refused("write in the WEC", err)
}

func pemRequest(t *testing.T, cluster string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{
			CommonName:   agentUser(cluster),
			Organization: []string{"system:open-cluster-management:cluster:" + cluster + ":addon:" + addonName},
		},
		DNSNames: []string{addonName + ".addon.open-cluster-management.io"},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}
