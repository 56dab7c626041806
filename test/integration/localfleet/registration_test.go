package localfleet_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/starlinghq/starling/pkg/localfleet"
	"github.com/starlinghq/starling/test/testenv"
)

var managedClusters = schema.GroupVersionResource{
	Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters",
}

// TestBootstrapTokenCannotAcceptItsCluster checks why OCM's webhooks run: the token with which a
// cluster requests to join may create a ManagedCluster, but must not accept it.
func TestBootstrapTokenCannotAcceptItsCluster(t *testing.T) {
	f := testenv.Shared(t)
	ctx := t.Context()
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(f.Dir, "spaces", "cluster1", "bootstrap.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	bootstrap, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	clusters := bootstrap.Resource(managedClusters)
	newCluster := func(name string, accepted bool) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
			"metadata": map[string]any{"name": name},
			"spec":     map[string]any{"hubAcceptsClient": accepted},
		}}
	}

	// The token may request to join.
	if _, err := clusters.Create(ctx, newCluster("stranger", false), metav1.CreateOptions{}); err != nil {
		t.Fatalf("the bootstrap token cannot ask to join: %v", err)
	}
	t.Cleanup(func() { f.Kubectl(t, "its1", "delete", "managedcluster", "stranger") })

	// It must not accept or approve the cluster, in any way.
	accept := []byte(`{"spec":{"hubAcceptsClient":true}}`)
	attempts := map[string]func() error{
		"create a cluster that is accepted": func() error {
			_, err := clusters.Create(ctx, newCluster("intruder", true), metav1.CreateOptions{})
			return err
		},
		"patch its cluster": func() error {
			_, err := clusters.Patch(ctx, "stranger", types.MergePatchType, accept, metav1.PatchOptions{})
			return err
		},
		"patch the subresource accept": func() error {
			_, err := clusters.Patch(ctx, "stranger", types.MergePatchType, accept, metav1.PatchOptions{}, "accept")
			return err
		},
		"patch the status": func() error {
			_, err := clusters.Patch(ctx, "stranger", types.MergePatchType, []byte(`{"status":{}}`), metav1.PatchOptions{}, "status")
			return err
		},
		"delete another cluster": func() error {
			return clusters.Delete(ctx, "cluster1", metav1.DeleteOptions{})
		},
	}
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	attempts["approve a certificate"] = func() error {
		csrs, err := kube.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		_, err = kube.CertificatesV1().CertificateSigningRequests().
			UpdateApproval(ctx, csrs.Items[0].Name, &csrs.Items[0], metav1.UpdateOptions{})
		return err
	}
	attempts["read Secrets"] = func() error {
		_, err := kube.CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
		return err
	}
	attempts["read ConfigMaps"] = func() error {
		_, err := kube.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
		return err
	}
	for what, attempt := range attempts {
		// A refusal of the webhook has "denied" in its text, a missing right the reason Forbidden.
		err := attempt()
		if refused := err != nil && (apierrors.IsForbidden(err) || strings.Contains(err.Error(), "denied")); !refused {
			t.Errorf("%s: want a refusal, got %v", what, err)
		}
	}
	got := f.Kubectl(t, "its1", "get", "managedcluster", "stranger", "-o", "jsonpath={.spec.hubAcceptsClient}")
	if got == "true" {
		t.Error("the cluster has let itself in")
	}
}

// TestRightsOfOneSpaceAreNoneInAnother checks that each space has its own CAs.
func TestRightsOfOneSpaceAreNoneInAnother(t *testing.T) {
	f := testenv.Shared(t)
	wec, its := f.Config(t, "cluster1"), f.Config(t, "its1")
	wec.Host, wec.CAData = its.Host, its.CAData
	client, err := kubernetes.NewForConfig(wec)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("the administrator of cluster1 in its1: want Unauthorized, got %v", err)
	}
}

// TestPendingCluster approves a cluster with kubectl as a user does, and removes it.
func TestPendingCluster(t *testing.T) {
	f := testenv.Shared(t)
	out, err := f.Run("wec", "add", "edge", "--pending", "--labels", "site=edge")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "kubectl starling cluster accept edge --its-context its1") {
		t.Errorf("the command is not shown: %s", out)
	}
	status := func() localfleet.WECStatus {
		for _, w := range f.Status(t).WECs {
			if w.Name == "edge" {
				return w
			}
		}
		t.Fatal("no cluster edge in the status")
		return localfleet.WECStatus{}
	}
	if w := status(); w.Accepted || w.Joined || !w.Pending {
		t.Errorf("a pending cluster is %+v", w)
	}

	csr := strings.TrimSpace(f.Kubectl(t, "its1", "get", "csr", "-l", "open-cluster-management.io/cluster-name=edge", "-o", "name"))
	f.Kubectl(t, "its1", "certificate", "approve", csr)
	f.Kubectl(t, "its1", "patch", "managedcluster", "edge", "--type", "merge", "-p", `{"spec":{"hubAcceptsClient":true}}`)
	testenv.Eventually(t, 5*time.Minute, func() (bool, string) {
		w := status()
		return w.Available, fmt.Sprintf("%+v", w)
	})
	if w := status(); w.Labels["site"] != "edge" || w.Labels["name"] != "edge" {
		t.Errorf("its labels are %v", w.Labels)
	}

	// The delivered objects and the cluster are deleted completely.
	if _, err := f.Run("wec", "remove", "edge"); err != nil {
		t.Fatal(err)
	}
	if out, err := f.Run("kubectl", "--", "--context", "its1", "get", "managedcluster,namespace", "edge"); err == nil {
		t.Errorf("the hub still knows the cluster: %s", out)
	}
	for _, c := range f.Components(t) {
		if c.Space == "edge" {
			t.Errorf("%s still runs", c.Name)
		}
	}
	if out, err := f.Run("kubectl", "--", "config", "get-contexts", "edge"); err == nil {
		t.Errorf("the kubeconfig still has the cluster: %s", out)
	}
}
