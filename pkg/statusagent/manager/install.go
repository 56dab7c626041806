package manager

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"

	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/statusagent"
	"github.com/starlinghq/starling/pkg/write"
)

// installer keeps the ClusterManagementAddOn and, if it is to install in all clusters, a ManagedClusterAddOn in the mailbox
// of each cluster that the hub has accepted. One that a user creates it makes the add-on's own. It never removes the add-on: OCM
// does, with the cluster.
//
// OCM's own way to install by Placement would need its placement controller, and a Placement that the user must not touch.
type installer struct {
	strategy  InstallStrategy
	inventory *inventory
	writer    *write.Writer
	queue     workqueue.TypedRateLimitingInterface[clusterKey]
}

// clusterKey names a cluster; the one without a name stands for the ClusterManagementAddOn.
type clusterKey struct{ name string }

func newInstaller(inventory *inventory, writer *write.Writer, strategy InstallStrategy) (*installer, error) {
	i := &installer{
		strategy:  strategy,
		inventory: inventory,
		writer:    writer,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			// A mailbox follows the acceptance of its cluster within milliseconds.
			workqueue.NewTypedItemExponentialFailureRateLimiter[clusterKey](20*time.Millisecond, 30*time.Second),
			workqueue.TypedRateLimitingQueueConfig[clusterKey]{Name: Name + "-install"}),
	}
	return i, errors.Join(
		onChange(inventory.clustersInformer, func(o metav1.Object) { i.queue.Add(clusterKey{o.GetName()}) }),
		onChange(inventory.addonsInformer, func(o metav1.Object) {
			if o.GetName() == statusagent.AddonName {
				i.queue.Add(clusterKey{o.GetNamespace()})
			}
		}),
		onChange(inventory.managementAddonsInformer, func(o metav1.Object) {
			if o.GetName() == statusagent.AddonName {
				i.queue.Add(clusterKey{})
			}
		}),
	)
}

func (i *installer) run(ctx context.Context) {
	var working sync.WaitGroup
	if i.inventory.waitSynced(ctx) {
		i.queue.Add(clusterKey{})
		working.Go(func() {
			for i.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	i.queue.ShutDown()
	working.Wait()
}

func (i *installer) next(ctx context.Context) bool {
	k, shutdown := i.queue.Get()
	if shutdown {
		return false
	}
	defer i.queue.Done(k)
	err := i.sync(ctx, k)
	switch {
	case err == nil || apierrors.IsAlreadyExists(err): // the watch shows it soon
		i.queue.Forget(k)
	case ctx.Err() != nil:
		return false
	case apierrors.IsNotFound(err):
		// The mailbox, or the ClusterManagementAddOn, is not there yet.
		klog.FromContext(ctx).V(4).Info("Trying again", logging.Cluster, k.name, logging.Reason, err.Error())
		i.queue.AddRateLimited(k)
	default:
		klog.FromContext(ctx).Error(err, "Cannot install the add-on", logging.Cluster, k.name)
		i.queue.AddRateLimited(k)
	}
	return true
}

func (i *installer) sync(ctx context.Context, k clusterKey) error {
	management, err := i.inventory.managementAddons.Get(statusagent.AddonName)
	if k.name == "" {
		if !apierrors.IsNotFound(err) {
			return err
		}
		obj := clusterManagementAddOn()
		_, err = i.writer.Create(ctx, write.Target{Resource: clusterManagementAddOns, Name: obj.Name}, obj, "install")
		return err
	}
	have, addonErr := i.inventory.addons.ManagedClusterAddOns(k.name).Get(statusagent.AddonName)
	switch {
	case addonErr == nil && err == nil:
		return i.own(ctx, have, management)
	case addonErr == nil:
		return err
	case !apierrors.IsNotFound(addonErr):
		return addonErr
	case !i.wants(k.name):
		return nil
	case err != nil:
		return err
	}
	obj := managedClusterAddOn(k.name, management)
	if _, err := i.writer.Create(ctx, write.Target{Resource: managedClusterAddOns, Namespace: k.name, Name: obj.Name}, obj, "install"); err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Installed the add-on", logging.Cluster, k.name)
	return nil
}

// own makes the ClusterManagementAddOn the owner of an add-on that a user created: the framework does nothing for one without, and
// OCM's own controller that would do it need not run.
func (i *installer) own(ctx context.Context, have *addonv1alpha1.ManagedClusterAddOn, management *addonv1alpha1.ClusterManagementAddOn) error {
	wanted := managedClusterAddOn(have.Namespace, management)
	owned := slices.ContainsFunc(have.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == wanted.OwnerReferences[0].Kind && o.Name == management.Name
	})
	if owned || !have.DeletionTimestamp.IsZero() {
		return nil
	}
	adopted := have.DeepCopy()
	adopted.TypeMeta = wanted.TypeMeta
	adopted.OwnerReferences = append(adopted.OwnerReferences, wanted.OwnerReferences...)
	target := write.Target{Resource: managedClusterAddOns, Namespace: have.Namespace, Name: have.Name}
	_, err := i.writer.Update(ctx, target, adopted, "own")
	if apierrors.IsConflict(err) {
		return nil // the watch shows what changed
	}
	return err
}

// wants tells whether the add-on is to be installed in the cluster without anybody asking for it.
func (i *installer) wants(cluster string) bool {
	if i.strategy != InstallAll {
		return false
	}
	have, err := i.inventory.clusters.Get(cluster)
	return err == nil && have.Spec.HubAcceptsClient && have.DeletionTimestamp.IsZero()
}

func clusterManagementAddOn() *addonv1alpha1.ClusterManagementAddOn {
	return &addonv1alpha1.ClusterManagementAddOn{
		TypeMeta:   metav1.TypeMeta{APIVersion: addonv1alpha1.GroupVersion.String(), Kind: "ClusterManagementAddOn"},
		ObjectMeta: metav1.ObjectMeta{Name: statusagent.AddonName},
		Spec: addonv1alpha1.ClusterManagementAddOnSpec{
			AddOnMeta: addonv1alpha1.AddOnMeta{
				DisplayName: "Starling status",
				Description: "Reports the state of the objects that Starling delivers to the cluster.",
			},
			// To OCM's own controllers; the installer does what its flag says.
			InstallStrategy: addonv1alpha1.InstallStrategy{Type: addonv1alpha1.AddonInstallStrategyManual},
		},
	}
}

func managedClusterAddOn(cluster string, management *addonv1alpha1.ClusterManagementAddOn) *addonv1alpha1.ManagedClusterAddOn {
	owner := metav1.NewControllerRef(management, schema.GroupVersionKind{
		Group: addonv1alpha1.GroupName, Version: "v1alpha1", Kind: "ClusterManagementAddOn",
	})
	// To set it would need a right over the finalizers of the owner, and nothing waits for it.
	owner.BlockOwnerDeletion = nil
	return &addonv1alpha1.ManagedClusterAddOn{
		TypeMeta: metav1.TypeMeta{APIVersion: addonv1alpha1.GroupVersion.String(), Kind: "ManagedClusterAddOn"},
		ObjectMeta: metav1.ObjectMeta{
			Name: statusagent.AddonName, Namespace: cluster, OwnerReferences: []metav1.OwnerReference{*owner},
		},
	}
}
