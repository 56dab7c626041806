package foresight

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned/typed/addon/v1alpha1"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned/typed/cluster/v1"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/spaces"
	"github.com/starlinghq/starling/pkg/statusagent"
)

// ITS has the clients of an ITS.
type ITS struct {
	// Name is that of its context.
	Name     string
	Clusters clusterclient.ManagedClusterInterface
	AddOns   addonclient.ManagedClusterAddOnsGetter
	Works    workclient.ManifestWorksGetter
	Core     kubernetes.Interface
	Starling *client.Client
}

// itsTimeout bounds a request of a Reader to an ITS: one that does not answer is unknown.
const itsTimeout = 10 * time.Second

// NewITS returns the clients of an ITS. It sends no request.
func NewITS(of spaces.Connection) (*ITS, error) {
	config := quick(of.Config)
	i := &ITS{Name: of.Name}
	clusters, err := clusterclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build client for ManagedClusters: %w", err)
	}
	i.Clusters = clusters.ManagedClusters()
	if i.AddOns, err = addonclient.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("build client for ManagedClusterAddOns: %w", err)
	}
	if i.Works, err = workclient.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("build client for ManifestWorks: %w", err)
	}
	if i.Core, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("build client for Leases: %w", err)
	}
	i.Starling, err = client.New(config)
	return i, err
}

// oneOrAll calls do with the object of a name, if it exists, or with all of a list if there is no
// name. problem says why they could not be read, "" if they were.
func oneOrAll[T, L runtime.Object](
	ctx context.Context, i *ITS, resource, name string, options metav1.ListOptions,
	get func(context.Context, string, metav1.GetOptions) (T, error), list func(context.Context, metav1.ListOptions) (L, error), do func(T),
) (problem string) {
	if name == "" {
		err := client.EachItem(ctx, list, options, func(one T) error {
			do(one)
			return nil
		})
		if err != nil {
			return unread("list", resource, i.Name, err)
		}
		return ""
	}
	one, err := get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return unread("get", resource, i.Name, err)
	default:
		do(one)
	}
	return ""
}

// named selects the objects of a name in all namespaces.
func named(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: metav1.ObjectNameField + "=" + name}
}

// readClusters reads all clusters, or the one that is named.
func (i *ITS) readClusters(ctx context.Context, name string) (found map[string]*clusterv1.ManagedCluster, problem string) {
	found = map[string]*clusterv1.ManagedCluster{}
	problem = oneOrAll(ctx, i, "managedclusters", name, metav1.ListOptions{}, i.Clusters.Get, i.Clusters.List,
		func(c *clusterv1.ManagedCluster) { found[c.Name] = c })
	return found, problem
}

// Leases reads the Leases of all clusters, or of the one that is named, by cluster.
func (i *ITS) Leases(ctx context.Context, cluster string) foresight.Fact[map[string]*coordinationv1.Lease] {
	found := map[string]*coordinationv1.Lease{}
	api := i.Core.CoordinationV1().Leases(cluster)
	problem := oneOrAll(ctx, i, "leases", nameIf(cluster, ClusterLease), named(ClusterLease), api.Get, api.List,
		func(lease *coordinationv1.Lease) { found[lease.Namespace] = lease })
	return fact(found, problem)
}

// StatusAddOns reads the status add-ons of all clusters, or of the one that is named, by cluster.
func (i *ITS) StatusAddOns(ctx context.Context, cluster string) foresight.Fact[map[string]*addonv1alpha1.ManagedClusterAddOn] {
	found := map[string]*addonv1alpha1.ManagedClusterAddOn{}
	api := i.AddOns.ManagedClusterAddOns(cluster)
	problem := oneOrAll(ctx, i, "managedclusteraddons", nameIf(cluster, statusagent.AddonName), named(statusagent.AddonName), api.Get, api.List,
		func(addOn *addonv1alpha1.ManagedClusterAddOn) { found[addOn.Namespace] = addOn })
	return fact(found, problem)
}

// nameIf returns a name if there is a namespace for it.
func nameIf(namespace, name string) string {
	if namespace == "" {
		return ""
	}
	return name
}

func fact[T any](value T, problem string) foresight.Fact[T] {
	if problem != "" {
		return foresight.Unread[T](problem)
	}
	return foresight.Known(value)
}

func (i *ITS) eachWork(ctx context.Context, mailbox string, options metav1.ListOptions, do func(*workv1.ManifestWork)) (problem string) {
	api := i.Works.ManifestWorks(mailbox)
	return oneOrAll(ctx, i, "manifestworks", "", options, api.Get, api.List, do)
}

// eachReport reads the reports of a name, or all with "", in one mailbox, or in all.
func (i *ITS) eachReport(ctx context.Context, mailbox, name string, do func(*controlv1alpha1.WorkStatus)) (problem string) {
	api := i.Starling.WorkStatuses(mailbox)
	options := metav1.ListOptions{}
	if name != "" {
		options = named(name)
	}
	return oneOrAll(ctx, i, "workstatuses", nameIf(mailbox, name), options, api.Get, api.List, do)
}

// eachProperties reads the ConfigMaps with properties of one cluster, or of all.
func (i *ITS) eachProperties(ctx context.Context, cluster string, do func(*corev1.ConfigMap)) (problem string) {
	api := i.Core.CoreV1().ConfigMaps(controlv1alpha1.PropertiesNamespace)
	return oneOrAll(ctx, i, "configmaps", cluster, metav1.ListOptions{}, api.Get, api.List, do)
}
