package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned/typed/cluster/v1"
	operatorv1 "open-cluster-management.io/api/operator/v1"

	"github.com/starlinghq/starling/pkg/install/apply"
	"github.com/starlinghq/starling/pkg/install/ocm"
	"github.com/starlinghq/starling/pkg/install/token"
)

// bootstrapLife is how long a cluster has to be accepted. Then this command must run again.
const bootstrapLife = 24 * time.Hour

// joiner lets a cluster ask to join a hub.
type joiner struct {
	hub, cluster *rest.Config
	manifests    fs.FS
	timeout      time.Duration
	out          io.Writer
}

// join installs OCM's agent in the cluster, and blocks until the cluster has asked to join. It
// changes nothing if another agent is there.
func (j *joiner) join(ctx context.Context, r *request) error {
	ctx, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	hub, err := kubernetes.NewForConfig(j.hub)
	if err != nil {
		return err
	}
	cluster, err := kubernetes.NewForConfig(j.cluster)
	if err != nil {
		return err
	}
	where, err := j.address(ctx, hub, r)
	if err != nil {
		return err
	}
	o, err := observe(ctx, cluster)
	if err != nil {
		return fmt.Errorf("read what runs in the cluster: %w", err)
	}
	if err := check(r, where, o); err != nil {
		return err
	}
	bearer, _, err := token.Request(ctx, hub, ocm.BootstrapAccount, bootstrapLife)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the hub has no ServiceAccount %q: it is not an ITS, or OCM is not installed in it: %w", ocm.BootstrapAccount, err)
	}
	if err != nil {
		return err
	}
	bootstrap, err := where.kubeconfig(bearer)
	if err != nil {
		return err
	}
	rights := workRights(r.rights, o.rights)
	objs, obsolete, err := ocm.Klusterlet(j.manifests, rights)
	if err != nil {
		return err
	}
	agent := ocm.Agent{Cluster: r.name, ID: "starling", Image: r.image, Bootstrap: bootstrap}
	if err := apply.Objects(ctx, j.cluster, append(objs, agent.Objects()...)); err != nil {
		return fmt.Errorf("install OCM's agent: %w", err)
	}
	if err := apply.Delete(ctx, j.cluster, obsolete); err != nil {
		return fmt.Errorf("remove other rights of OCM's agent: %w", err)
	}
	fmt.Fprintf(j.out, "Installed OCM's agent in Namespace %s, with the rights %q\n", ocm.NamespaceAgent, rights)
	return j.waitAsked(ctx, cluster, r.name)
}

// address returns where the cluster finds the hub.
func (j *joiner) address(ctx context.Context, hub kubernetes.Interface, r *request) (address, error) {
	info, err := hub.CoreV1().ConfigMaps(metav1.NamespacePublic).Get(ctx, "cluster-info", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return address{}, fmt.Errorf("read the address of the hub: %w", err)
	}
	own := rest.CopyConfig(j.hub)
	if err := rest.LoadTLSFiles(own); err != nil {
		return address{}, fmt.Errorf("read the kubeconfig of the hub: %w", err)
	}
	published := ""
	if err == nil {
		published = info.Data["kubeconfig"]
	}
	return hubAddress(r, published, own)
}

// observe returns what runs in the cluster.
func observe(ctx context.Context, cluster kubernetes.Interface) (observed, error) {
	var o observed
	_, err := cluster.Discovery().ServerResourcesForGroupVersion(operatorv1.GroupVersion.String())
	if err != nil && !apierrors.IsNotFound(err) {
		return o, err
	}
	o.operator = err == nil
	if o.rights, err = observeRights(ctx, cluster); err != nil {
		return o, err
	}
	secret, err := cluster.CoreV1().Secrets(ocm.NamespaceAgent).Get(ctx, ocm.HubSecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return o, nil
	}
	if err != nil {
		return o, err
	}
	o.agentName = string(secret.Data["cluster-name"])
	o.hub = serverOf(secret)
	return o, nil
}

// observeRights returns which rights OCM's agent has in the cluster, or "" if it is not installed.
func observeRights(ctx context.Context, cluster kubernetes.Interface) (ocm.WorkRights, error) {
	_, err := cluster.RbacV1().ClusterRoles().Get(ctx, ocm.ListedRole, metav1.GetOptions{})
	if err == nil {
		return ocm.WorkRightsListed, nil
	}
	if !apierrors.IsNotFound(err) {
		return "", err
	}
	_, err = cluster.CoreV1().Namespaces().Get(ctx, ocm.NamespaceAgent, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	return ocm.WorkRightsAll, err
}

// serverOf returns the URL in the kubeconfig with which an agent connects to its hub, or "".
func serverOf(secret *corev1.Secret) string {
	config, err := clientcmd.Load(secret.Data["kubeconfig"])
	if err != nil {
		return ""
	}
	for _, cluster := range config.Clusters {
		return cluster.Server
	}
	return ""
}

// waitAsked blocks until the hub has the ManagedCluster that the agent creates.
func (j *joiner) waitAsked(ctx context.Context, cluster kubernetes.Interface, name string) error {
	clusters, err := clusterclient.NewForConfig(j.hub)
	if err != nil {
		return err
	}
	fmt.Fprintf(j.out, "Waiting until the agent asks the hub to join as %q\n", name)
	err = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		_, err := clusters.ManagedClusters().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the agent has not asked the hub within %s, and goes on: %s", j.timeout,
			strings.Join(append(podProblems(context.WithoutCancel(ctx), cluster),
				"see `kubectl logs --namespace "+ocm.NamespaceAgent+" deployment/"+ocm.AgentDeployment+"`"), "; "))
	}
	return err
}

// podProblems returns why the pods of the agent do not run.
func podProblems(ctx context.Context, cluster kubernetes.Interface) []string {
	pods, err := cluster.CoreV1().Pods(ocm.NamespaceAgent).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	var out []string
	for _, pod := range pods.Items {
		for _, container := range pod.Status.ContainerStatuses {
			if w := container.State.Waiting; w != nil {
				out = append(out, fmt.Sprintf("pod %q: %s %s", pod.Name, w.Reason, w.Message))
			}
		}
	}
	slices.Sort(out)
	return out
}
