package space

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

var managedClusters = schema.GroupVersionResource{
	Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters",
}

const (
	conditionJoined    = "ManagedClusterJoined"
	conditionAvailable = "ManagedClusterConditionAvailable"

	clusterNameLabel = "open-cluster-management.io/cluster-name"
	nameLabel        = "name"

	// joinTimeout is far more than joining takes on any machine that can run a fleet.
	joinTimeout  = 3 * time.Minute
	joinInterval = 100 * time.Millisecond
)

// hubClients are the user's clients of the hub.
type hubClients struct {
	kube    kubernetes.Interface
	dynamic dynamic.Interface
}

func (f *Fleet) hubClients() (*hubClients, error) {
	cfg := f.adminConfig(f.state.hub())
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	dyn, err := dynamic.NewForConfig(cfg)
	return &hubClients{kube: kube, dynamic: dyn}, err
}

// approve is the hub's half of the double opt-in, which the administrator gives: accept the
// cluster, and approve its certificate. It labels the cluster too.
func (f *Fleet) approve(ctx context.Context, wec *WEC) error {
	hub, err := f.hubClients()
	if err != nil {
		return err
	}
	cluster, err := f.waitCluster(ctx, hub, wec.Name, "registered", func(*unstructured.Unstructured) bool { return true })
	if err != nil {
		return err
	}
	if err := hub.patch(ctx, cluster, wec, true); err != nil {
		return fmt.Errorf("accept cluster %s: %w", wec.Name, err)
	}
	return wait.PollUntilContextTimeout(ctx, joinInterval, joinTimeout, true, func(ctx context.Context) (bool, error) {
		if err := hub.approveCertificates(ctx, wec.Name); err != nil {
			return false, fmt.Errorf("approve the certificate of cluster %s: %w", wec.Name, err)
		}
		cluster, err := hub.dynamic.Resource(managedClusters).Get(ctx, wec.Name, metav1.GetOptions{})
		return err == nil && conditionTrue(cluster, conditionJoined), err
	})
}

// waitRegistered waits until the agent has asked to join: there is a cluster to accept and a
// certificate to approve.
func (f *Fleet) waitRegistered(ctx context.Context, wec *WEC) error {
	hub, err := f.hubClients()
	if err != nil {
		return err
	}
	cluster, err := f.waitCluster(ctx, hub, wec.Name, "registered", func(*unstructured.Unstructured) bool { return true })
	if err != nil {
		return err
	}
	if err := hub.patch(ctx, cluster, wec, false); err != nil {
		return fmt.Errorf("label cluster %s: %w", wec.Name, err)
	}
	if accepted(cluster) {
		return nil
	}
	return wait.PollUntilContextTimeout(ctx, joinInterval, joinTimeout, true, func(ctx context.Context) (bool, error) {
		list, err := hub.kube.CertificatesV1().CertificateSigningRequests().List(ctx,
			metav1.ListOptions{LabelSelector: clusterNameLabel + "=" + wec.Name})
		if err != nil {
			return false, err
		}
		return len(list.Items) > 0, nil
	})
}

// waitAvailable waits until OCM says that the cluster is available.
func (f *Fleet) waitAvailable(ctx context.Context, wec string) error {
	hub, err := f.hubClients()
	if err != nil {
		return err
	}
	_, err = f.waitCluster(ctx, hub, wec, "available", func(c *unstructured.Unstructured) bool {
		return conditionTrue(c, conditionAvailable)
	})
	return err
}

// waitCluster waits until the ManagedCluster exists and is as asked for.
func (f *Fleet) waitCluster(
	ctx context.Context, hub *hubClients, name, what string, is func(*unstructured.Unstructured) bool,
) (*unstructured.Unstructured, error) {
	var cluster *unstructured.Unstructured
	err := wait.PollUntilContextTimeout(ctx, joinInterval, joinTimeout, true, func(ctx context.Context) (bool, error) {
		var err error
		cluster, err = hub.dynamic.Resource(managedClusters).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil && is(cluster), err
	})
	if err == nil {
		return cluster, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, f.withLog(fmt.Errorf("wait until cluster %s is %s: %w", name, what, err), componentName(name, programKlusterlet))
}

// patch labels a cluster that is not accepted yet and, if asked to, accepts it. Later its labels are
// the user's.
func (h *hubClients) patch(ctx context.Context, cluster *unstructured.Unstructured, wec *WEC, accept bool) error {
	if accepted(cluster) {
		return nil
	}
	change := map[string]any{"metadata": map[string]any{"labels": wec.allLabels()}}
	if accept {
		change["spec"] = map[string]any{"hubAcceptsClient": true}
	}
	patch, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = h.dynamic.Resource(managedClusters).Patch(ctx, wec.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}

func accepted(cluster *unstructured.Unstructured) bool {
	accepts, _, _ := unstructured.NestedBool(cluster.Object, "spec", "hubAcceptsClient")
	return accepts
}

// allLabels are the labels of the ManagedCluster: its name, and what the user asked for.
func (w *WEC) allLabels() map[string]string {
	labels := map[string]string{nameLabel: w.Name}
	maps.Copy(labels, w.Labels)
	return labels
}

// approveCertificates approves the requests that the agent of this cluster has made with the
// bootstrap token, and no others.
func (h *hubClients) approveCertificates(ctx context.Context, cluster string) error {
	requests := h.kube.CertificatesV1().CertificateSigningRequests()
	list, err := requests.List(ctx, metav1.ListOptions{LabelSelector: clusterNameLabel + "=" + cluster})
	if err != nil {
		return err
	}
	for i := range list.Items {
		csr := &list.Items[i]
		if decided(csr) || !isJoinRequest(csr, cluster) {
			continue
		}
		csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue,
			Reason: "StarlingUp", Message: "approved by the administrator of this fleet, who added the cluster",
		})
		if _, err := requests.UpdateApproval(ctx, csr.Name, csr, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}

func decided(csr *certificatesv1.CertificateSigningRequest) bool {
	return len(csr.Status.Conditions) > 0
}

// isJoinRequest says whether a request is what the agent of this cluster asks for when it joins:
// made with the bootstrap identity, for the agent's own name and nothing else.
func isJoinRequest(csr *certificatesv1.CertificateSigningRequest, cluster string) bool {
	const prefix = "system:open-cluster-management:"
	requester := fmt.Sprintf("system:serviceaccount:%s:%s", bootstrapAccount.namespace, bootstrapAccount.name)
	if csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName || csr.Spec.Username != requester {
		return false
	}
	block, _ := pem.Decode(csr.Spec.Request)
	if block == nil {
		return false
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return false
	}
	for _, organization := range request.Subject.Organization {
		if organization != prefix+cluster && organization != prefix+"managed-clusters" {
			return false
		}
	}
	agent, found := strings.CutPrefix(request.Subject.CommonName, prefix+cluster+":")
	return found && agent != "" && !strings.Contains(agent, ":")
}

// Commands with which a user approves a pending cluster.
func (f *Fleet) approvalCommands(wec string) []string {
	hub := f.state.hub()
	return []string{
		fmt.Sprintf("kubectl --context %s certificate approve $(kubectl --context %s get csr -l %s=%s -o name)", hub, hub, clusterNameLabel, wec),
		fmt.Sprintf(`kubectl --context %s patch managedcluster %s --type merge -p '{"spec":{"hubAcceptsClient":true}}'`, hub, wec),
	}
}

// forget removes a cluster from the hub: first its works leave the WEC, then the hub forgets it.
func (f *Fleet) forget(ctx context.Context, wec string) error {
	hub, err := f.hubClients()
	if err != nil {
		return err
	}
	clusters := hub.dynamic.Resource(managedClusters)
	if err := ignoreNotFound(clusters.Delete(ctx, wec, metav1.DeleteOptions{})); err != nil {
		return fmt.Errorf("delete ManagedCluster %s: %w", wec, err)
	}
	gone := func(get func() error) error {
		return wait.PollUntilContextTimeout(ctx, joinInterval, joinTimeout, true, func(context.Context) (bool, error) {
			err := get()
			if apierrors.IsNotFound(err) {
				return true, nil
			}
			return false, err
		})
	}
	err = gone(func() error {
		_, err := clusters.Get(ctx, wec, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("wait until cluster %s has left the hub (its works are removed from it first): %w", wec, err)
	}
	// A namespace that stays would make the next cluster of this name inherit what is in it.
	namespaces := hub.kube.CoreV1().Namespaces()
	if err := ignoreNotFound(namespaces.Delete(ctx, wec, metav1.DeleteOptions{})); err != nil {
		return fmt.Errorf("delete namespace %s of the hub: %w", wec, err)
	}
	err = gone(func() error {
		_, err := namespaces.Get(ctx, wec, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("wait until namespace %s of the hub is gone: %w", wec, err)
	}
	return nil
}

// wecStatus asks the hub about all WECs.
func (f *Fleet) wecStatus(ctx context.Context) []WECStatus {
	all := make([]WECStatus, 0, len(f.state.WECs))
	var problem error
	byName := map[string]*unstructured.Unstructured{}
	if f.state.OCM && len(f.state.WECs) > 0 {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		problem = f.listClusters(ctx, byName)
	} else if !f.state.OCM {
		problem = errors.New("OCM does not run")
	}
	for i := range f.state.WECs {
		w := &f.state.WECs[i]
		st := WECStatus{Name: w.Name, Labels: w.allLabels(), Pending: w.Pending}
		if problem != nil {
			st.Problem = problem.Error()
		}
		if c := byName[w.Name]; c != nil {
			st.Labels = c.GetLabels()
			st.Accepted = accepted(c)
			st.Joined = conditionTrue(c, conditionJoined)
			st.Available = conditionTrue(c, conditionAvailable)
		}
		all = append(all, st)
	}
	return all
}

func (f *Fleet) listClusters(ctx context.Context, into map[string]*unstructured.Unstructured) error {
	hub, err := f.hubClients()
	if err != nil {
		return err
	}
	list, err := hub.dynamic.Resource(managedClusters).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("ask the hub: %w", err)
	}
	for i := range list.Items {
		into[list.Items[i].GetName()] = &list.Items[i]
	}
	return nil
}
