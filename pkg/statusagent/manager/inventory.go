package manager

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	certificateinformers "k8s.io/client-go/informers/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
	addontyped "open-cluster-management.io/api/client/addon/clientset/versioned/typed/addon/v1alpha1"
	addonfactory "open-cluster-management.io/api/client/addon/informers/externalversions"
	addoninformers "open-cluster-management.io/api/client/addon/informers/externalversions/addon/v1alpha1"

	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/statusagent"
)

// inventory is what our own controllers read of the ITS: its clusters, our add-on, and the requests
// for certificates of its agents.
type inventory struct {
	clusters *clusters.Reader
	// clusterInformer is what clusters reads.
	clusterInformer  cache.SharedIndexInformer
	addons           addoninformers.ManagedClusterAddOnInformer
	managementAddons addoninformers.ClusterManagementAddOnInformer
	requests         certificateinformers.CertificateSigningRequestInformer
	// configs are read from the hub, without a cache.
	configs addontyped.AddOnDeploymentConfigsGetter
}

func newInventory(config *rest.Config, kube kubernetes.Interface) (*inventory, error) {
	addonClient, err := addonclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build client for add-ons: %w", err)
	}
	source, err := clusters.NewSource(config)
	if err != nil {
		return nil, err
	}
	const never = 0
	addons := addonfactory.NewSharedInformerFactoryWithOptions(addonClient, never, addonfactory.WithTransform(client.StripManagedFields),
		addonfactory.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = metav1.ObjectNameField + "=" + statusagent.AddonName
		})).Addon().V1alpha1()
	return &inventory{
		clusters: clusters.New(clusters.ITS{Name: "its", Connect: func(context.Context) (clusters.Source, error) {
			return source, nil
		}}),
		clusterInformer:  source.Informer,
		addons:           addons.ManagedClusterAddOns(),
		managementAddons: addons.ClusterManagementAddOns(),
		configs:          addonClient.AddonV1alpha1(),
		requests: informers.NewSharedInformerFactoryWithOptions(kube, never, informers.WithTransform(client.StripManagedFields),
			informers.WithTweakListOptions(func(o *metav1.ListOptions) {
				o.LabelSelector = addonv1alpha1.AddonLabelKey + "=" + statusagent.AddonName
			})).Certificates().V1().CertificateSigningRequests(),
	}, nil
}

func (i *inventory) run(ctx context.Context) {
	var running sync.WaitGroup
	for _, informer := range []cache.SharedIndexInformer{i.addons.Informer(), i.managementAddons.Informer(), i.requests.Informer()} {
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	_ = i.clusters.Run(ctx) // never fails
	running.Wait()
}

// accepts reports whether the hub accepts a cluster. A cluster that is being deleted does not
// count.
func (i *inventory) accepts(cluster string) bool { return len(i.clusters.Members(cluster)) > 0 }

// denied reports whether the hub has the cluster and does not accept it: not yet, or no longer. A
// cluster that is not read yet, or that is being deleted, is not denied.
func (i *inventory) denied(cluster string) bool { return i.clusters.Denied(cluster) }

// newQueue returns a queue that syncs keys after all informers have synced.
func newQueue(i *inventory, name string, quiet func(error) bool, sync func(context.Context, string) (worker.Result, error)) *worker.Queue[string] {
	queue := worker.New(worker.Config{
		Name: Name + "-" + name, MinBackOff: 20 * time.Millisecond, MaxBackOff: 30 * time.Second, Quiet: quiet,
	}, sync)
	queue.WaitFor("ManagedClusters", func() bool { return i.clusters.Ready() == nil })
	queue.WaitFor("ManagedClusterAddOns", i.addons.Informer().HasSynced)
	queue.WaitFor("ClusterManagementAddOns", i.managementAddons.Informer().HasSynced)
	queue.WaitFor("CertificateSigningRequests", i.requests.Informer().HasSynced)
	return queue
}

// onChange calls do with the name of each object that was added, changed or deleted.
func onChange(informer cache.SharedIndexInformer, do func(cache.ObjectName)) error {
	notify := func(obj any) {
		if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
			do(name)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: notify, UpdateFunc: func(_, obj any) { notify(obj) }, DeleteFunc: notify,
	})
	if err != nil {
		return fmt.Errorf("add event handler: %w", err)
	}
	return nil
}
