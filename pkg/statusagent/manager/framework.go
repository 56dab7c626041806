package manager

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"open-cluster-management.io/addon-framework/pkg/addonmanager"
	"open-cluster-management.io/addon-framework/pkg/index"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
	addoninformers "open-cluster-management.io/api/client/addon/informers/externalversions"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/starlinghq/starling/pkg/statusagent"
)

// resync is how often the framework checks each add-on, changed or not: it does not watch the
// rights that it gives.
const resync = 10 * time.Minute

// startFramework starts the controllers of OCM's framework, and returns at once. They end with the
// context; there is no way to wait for them.
//
// They do nothing for an add-on whose cluster they do not know, and nothing queues it when the
// cluster appears (v1.2.0). So they read the clusters that the installer reads, which creates no
// add-on for a cluster that it does not know, and each cluster queues its add-on: a user may have
// created that one.
func (m *Manager) startFramework(ctx context.Context) error {
	framework, err := addonmanager.New(m.config.ITS)
	if err != nil {
		return fmt.Errorf("build add-on manager: %w", err)
	}
	if err := framework.AddAgent(m.addon(ctx)); err != nil {
		return fmt.Errorf("add agent: %w", err)
	}
	objects, err := dynamic.NewForConfig(m.config.ITS)
	if err != nil {
		return fmt.Errorf("build client: %w", err)
	}
	addonClient, err := addonclient.NewForConfig(m.config.ITS)
	if err != nil {
		return fmt.Errorf("build client for add-ons: %w", err)
	}
	clusterClient, err := clusterclient.NewForConfig(m.config.ITS)
	if err != nil {
		return fmt.Errorf("build client for ManagedClusters: %w", err)
	}
	workClient, err := workclient.NewForConfig(m.config.ITS)
	if err != nil {
		return fmt.Errorf("build client for ManifestWorks: %w", err)
	}

	ours := func(o *metav1.ListOptions) {
		o.LabelSelector = addonv1alpha1.AddonLabelKey + "=" + statusagent.AddonName
	}
	requests := informers.NewSharedInformerFactoryWithOptions(m.hub, resync, informers.WithTweakListOptions(ours))
	works := workinformers.NewSharedInformerFactoryWithOptions(workClient, resync, workinformers.WithTweakListOptions(ours))
	configs := dynamicinformer.NewDynamicSharedInformerFactory(objects, resync)
	addons := addoninformers.NewSharedInformerFactory(addonClient, resync)
	clusters := clusterinformers.NewSharedInformerFactory(clusterClient, resync)
	clusters.InformerFor(&clusterv1.ManagedCluster{}, func(clusterclient.Interface, time.Duration) cache.SharedIndexInformer {
		return m.inventory.clusterInformer
	})
	if err := addIndexes(addons, works); err != nil {
		return fmt.Errorf("add indexes for the add-on manager: %w", err)
	}
	err = framework.StartWithInformers(ctx, workClient, works.Work().V1().ManifestWorks(), requests, addons, clusters, configs)
	if err != nil {
		return fmt.Errorf("start add-on manager: %w", err)
	}
	requests.Start(ctx.Done())
	works.Start(ctx.Done())
	configs.Start(ctx.Done())
	addons.Start(ctx.Done())
	m.inventory.clusters.OnMembers(func(cluster string) {
		if cluster != everywhere {
			framework.Trigger(cluster, statusagent.AddonName)
		}
	})
	return nil
}

// addIndexes adds the indexes that the framework reads its informers by.
func addIndexes(addons addoninformers.SharedInformerFactory, works workinformers.SharedInformerFactory) error {
	if err := works.Work().V1().ManifestWorks().Informer().AddIndexers(cache.Indexers{
		index.ManifestWorkByAddon:           index.IndexManifestWorkByAddon,
		index.ManifestWorkByHostedAddon:     index.IndexManifestWorkByHostedAddon,
		index.ManifestWorkHookByHostedAddon: index.IndexManifestWorkHookByHostedAddon,
	}); err != nil {
		return err
	}
	if err := addons.Addon().V1alpha1().ManagedClusterAddOns().Informer().AddIndexers(cache.Indexers{
		index.ManagedClusterAddonByNamespace: index.IndexManagedClusterAddonByNamespace,
		index.AddonByConfig:                  index.IndexAddonByConfig,
	}); err != nil {
		return err
	}
	return addons.Addon().V1alpha1().ClusterManagementAddOns().Informer().AddIndexers(cache.Indexers{
		index.ClusterManagementAddonByConfig: index.IndexClusterManagementAddonByConfig,
	})
}
