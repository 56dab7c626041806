package manager

import (
	"context"
	"errors"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	certificatelisters "k8s.io/client-go/listers/certificates/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
	addoninformers "open-cluster-management.io/api/client/addon/informers/externalversions"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1alpha1"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"

	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/statusagent"
)

// inventory is what our own controllers read of the ITS.
type inventory struct {
	clusters         clusterlisters.ManagedClusterLister
	addons           addonlisters.ManagedClusterAddOnLister
	managementAddons addonlisters.ClusterManagementAddOnLister
	requests         certificatelisters.CertificateSigningRequestLister

	// The informers of these.
	clustersInformer, addonsInformer, managementAddonsInformer, requestsInformer cache.SharedIndexInformer
}

func newInventory(config *rest.Config, kube kubernetes.Interface) (*inventory, error) {
	clusterClient, err := clusterclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build client for clusters: %w", err)
	}
	addonClient, err := addonclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build client for add-ons: %w", err)
	}
	const never = 0
	clusters := clusterinformers.NewSharedInformerFactory(clusterClient, never).Cluster().V1().ManagedClusters()
	addons := addoninformers.NewSharedInformerFactory(addonClient, never).Addon().V1alpha1()
	requests := informers.NewSharedInformerFactoryWithOptions(kube, never, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = addonv1alpha1.AddonLabelKey + "=" + statusagent.AddonName
	})).Certificates().V1().CertificateSigningRequests()
	i := &inventory{
		clusters:                 clusters.Lister(),
		addons:                   addons.ManagedClusterAddOns().Lister(),
		managementAddons:         addons.ClusterManagementAddOns().Lister(),
		requests:                 requests.Lister(),
		clustersInformer:         clusters.Informer(),
		addonsInformer:           addons.ManagedClusterAddOns().Informer(),
		managementAddonsInformer: addons.ClusterManagementAddOns().Informer(),
		requestsInformer:         requests.Informer(),
	}
	for _, informer := range i.informers() {
		if err := informer.SetTransform(client.StripManagedFields); err != nil {
			return nil, fmt.Errorf("set transform: %w", err)
		}
	}
	return i, nil
}

func (i *inventory) informers() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{i.clustersInformer, i.addonsInformer, i.managementAddonsInformer, i.requestsInformer}
}

func (i *inventory) run(ctx context.Context) {
	var running sync.WaitGroup
	for _, informer := range i.informers() {
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	running.Wait()
}

// waitSynced waits until everything was read; false if the context ended before.
func (i *inventory) waitSynced(ctx context.Context) bool {
	var synced []cache.InformerSynced
	for _, informer := range i.informers() {
		synced = append(synced, informer.HasSynced)
	}
	return cache.WaitForCacheSync(ctx.Done(), synced...)
}

func (i *inventory) ready() error {
	for _, informer := range i.informers() {
		if !informer.HasSynced() {
			return errors.New("clusters, add-ons and requests for certificates not read yet")
		}
	}
	return nil
}

// onChange calls do with each object that was added, changed or deleted.
func onChange(informer cache.SharedIndexInformer, do func(metav1.Object)) error {
	tell := func(obj any) {
		if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		if o, ok := obj.(metav1.Object); ok {
			do(o)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: tell, UpdateFunc: func(_, obj any) { tell(obj) }, DeleteFunc: tell,
	})
	if err != nil {
		return fmt.Errorf("add event handler: %w", err)
	}
	return nil
}
