package localfleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned/typed/cluster/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/starlinghq/starling/pkg/install/apply"
	"github.com/starlinghq/starling/pkg/install/ocm"
)

const (
	nameLabel = "name"

	// joinTimeout is much longer than a cluster needs to join on any machine that can run a fleet.
	joinTimeout  = 3 * time.Minute
	joinInterval = 100 * time.Millisecond
)

// hubClients are the user's clients of the hub.
type hubClients struct {
	kube     kubernetes.Interface
	clusters clusterclient.ManagedClusterInterface
}

func (f *Fleet) hubClients() (*hubClients, error) {
	cfg := f.adminConfig(f.state.hub())
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	clusters, err := clusterclient.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &hubClients{kube: kube, clusters: clusters.ManagedClusters()}, nil
}

// register blocks until the agent of a cluster has requested to join, and labels the cluster. If
// the cluster is pending, register returns when there is a certificate to approve. Otherwise it
// does what a hub's administrator does: it accepts the cluster, approves its certificate, and
// blocks until the cluster is available.
func (f *Fleet) register(ctx context.Context, wec *WEC) error {
	hub, err := f.hubClients()
	if err != nil {
		return err
	}
	cluster, err := f.waitCluster(ctx, hub, wec.Name, "registered", func(*clusterv1.ManagedCluster) bool { return true })
	if err != nil {
		return err
	}
	if !cluster.Spec.HubAcceptsClient {
		if err := hub.patch(ctx, wec); err != nil {
			return fmt.Errorf("update ManagedCluster %q: %w", wec.Name, err)
		}
	}
	if wec.Pending {
		if cluster.Spec.HubAcceptsClient {
			return nil
		}
		return wait.PollUntilContextTimeout(ctx, joinInterval, joinTimeout, true, func(ctx context.Context) (bool, error) {
			requests, err := hub.requests(ctx, wec.Name)
			return len(requests) > 0, err
		})
	}
	err = wait.PollUntilContextTimeout(ctx, joinInterval, joinTimeout, true, func(ctx context.Context) (bool, error) {
		if err := hub.approveCertificates(ctx, wec.Name); err != nil {
			return false, fmt.Errorf("approve the certificate of cluster %q: %w", wec.Name, err)
		}
		cluster, err := hub.clusters.Get(ctx, wec.Name, metav1.GetOptions{})
		return err == nil && has(cluster, clusterv1.ManagedClusterConditionJoined), err
	})
	if err != nil {
		return err
	}
	_, err = f.waitCluster(ctx, hub, wec.Name, "available", func(c *clusterv1.ManagedCluster) bool {
		return has(c, clusterv1.ManagedClusterConditionAvailable)
	})
	return err
}

// waitCluster blocks until the ManagedCluster exists and done returns true for it. The state is its
// name in the error.
func (f *Fleet) waitCluster(
	ctx context.Context, hub *hubClients, name, state string, done func(*clusterv1.ManagedCluster) bool,
) (*clusterv1.ManagedCluster, error) {
	var cluster *clusterv1.ManagedCluster
	err := wait.PollUntilContextTimeout(ctx, joinInterval, joinTimeout, true, func(ctx context.Context) (bool, error) {
		var err error
		cluster, err = hub.clusters.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil && done(cluster), err
	})
	if err == nil {
		return cluster, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, f.withLog(fmt.Errorf("wait until cluster %q is %s: %w", name, state, err), componentName(name, programKlusterlet))
}

// has reports whether the condition of that type is True.
func has(cluster *clusterv1.ManagedCluster, condition string) bool {
	return meta.IsStatusConditionTrue(cluster.Status.Conditions, condition)
}

// patch labels a cluster and, unless it is pending, accepts it. It must not be called for a cluster
// that is accepted already, because then the user owns its labels.
func (h *hubClients) patch(ctx context.Context, wec *WEC) error {
	change := map[string]any{"metadata": map[string]any{"labels": wec.allLabels()}}
	if !wec.Pending {
		change["spec"] = map[string]any{"hubAcceptsClient": true}
	}
	patch, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = h.clusters.Patch(ctx, wec.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: apply.FieldManager})
	return err
}

// allLabels returns the initial labels of the ManagedCluster: its name, and those that the user
// requested.
func (w *WEC) allLabels() map[string]string {
	labels := map[string]string{nameLabel: w.Name}
	maps.Copy(labels, w.Labels)
	return labels
}

// requests returns the CertificateSigningRequests for a cluster.
func (h *hubClients) requests(ctx context.Context, cluster string) ([]certificatesv1.CertificateSigningRequest, error) {
	list, err := h.kube.CertificatesV1().CertificateSigningRequests().List(ctx,
		metav1.ListOptions{LabelSelector: clusterv1.ClusterNameLabelKey + "=" + cluster})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// approveCertificates approves the CertificateSigningRequests with which the agent of this cluster
// asks to join. It approves no others.
func (h *hubClients) approveCertificates(ctx context.Context, cluster string) error {
	requests, err := h.requests(ctx, cluster)
	if err != nil {
		return err
	}
	for i := range requests {
		csr := &requests[i]
		if _, err := ocm.CheckJoinRequest(csr, cluster); err != nil || len(csr.Status.Conditions) > 0 {
			continue
		}
		csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue,
			Reason: "StarlingUp", Message: "approved by the administrator of this fleet, who added the cluster",
		})
		_, err := h.kube.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, csr.Name, csr, metav1.UpdateOptions{})
		if err != nil && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}

// acceptCommand returns the command with which a user accepts a pending cluster.
func (f *Fleet) acceptCommand(wec string) string {
	return fmt.Sprintf("kubectl starling cluster accept %s --its-context %s", wec, f.state.hub())
}

// detach deletes a cluster from the hub. OCM deletes the delivered objects from the WEC first. It
// blocks until the cluster and its mailbox are deleted.
func (f *Fleet) detach(ctx context.Context, wec string) error {
	hub, err := f.hubClients()
	if err != nil {
		return err
	}
	if err := remove(ctx, wec, hub.clusters); err != nil {
		return fmt.Errorf("delete ManagedCluster %q, which OCM does after its works: %w", wec, err)
	}
	// Otherwise the next cluster with this name would receive what is in the namespace.
	if err := remove(ctx, wec, hub.kube.CoreV1().Namespaces()); err != nil {
		return fmt.Errorf("delete Namespace %q of the hub: %w", wec, err)
	}
	return nil
}

// remove deletes an object, and blocks until it is deleted.
func remove[T any](ctx context.Context, name string, client interface {
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
},
) error {
	if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return ignoreNotFound(err)
	}
	err := wait.PollUntilContextTimeout(ctx, joinInterval, joinTimeout, true, func(ctx context.Context) (bool, error) {
		_, err := client.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), ignoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("wait until it is deleted: %w", err)
	}
	return nil
}

// wecStatus returns the status of all WECs as the hub has it.
func (f *Fleet) wecStatus(ctx context.Context) []WECStatus {
	all := make([]WECStatus, 0, len(f.state.WECs))
	if len(f.state.WECs) == 0 {
		return all
	}
	clusters, err := f.listClusters(ctx)
	for i := range f.state.WECs {
		w := &f.state.WECs[i]
		st := WECStatus{Name: w.Name, Labels: w.allLabels(), Pending: w.Pending}
		if err != nil {
			st.Problem = err.Error()
		}
		if c := clusters[w.Name]; c != nil {
			st.Labels = c.Labels
			st.Accepted = c.Spec.HubAcceptsClient
			st.Joined = has(c, clusterv1.ManagedClusterConditionJoined)
			st.Available = has(c, clusterv1.ManagedClusterConditionAvailable)
		}
		all = append(all, st)
	}
	return all
}

// listClusters returns the ManagedClusters of the hub by name.
func (f *Fleet) listClusters(ctx context.Context) (map[string]*clusterv1.ManagedCluster, error) {
	if !f.state.OCM {
		return nil, errors.New("OCM is not running in this fleet")
	}
	hub, err := f.hubClients()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	list, err := hub.clusters.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list ManagedClusters: %w", err)
	}
	clusters := map[string]*clusterv1.ManagedCluster{}
	for i := range list.Items {
		clusters[list.Items[i].Name] = &list.Items[i]
	}
	return clusters, nil
}
