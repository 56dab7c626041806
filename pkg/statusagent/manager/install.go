package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"

	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/statusagent"
	"github.com/starlinghq/starling/pkg/writer"
)

// installer creates the ClusterManagementAddOn and, with InstallAll, a ManagedClusterAddOn in the
// mailbox of each cluster that the hub has accepted. It adds the owner to one that a user creates.
// It never deletes the add-on: OCM does, with the cluster.
//
// Installing by a Placement, as OCM can, would need its placement controller, and a Placement that
// users must not change.
type installer struct {
	strategy  InstallStrategy
	inventory *inventory
	metadata  metadata.Interface
	writer    *writer.Writer
	queue     *worker.Queue[string]
}

// everywhere is the key of the ClusterManagementAddOn, and of all mailboxes. The others are names
// of clusters.
const everywhere = ""

func newInstaller(inventory *inventory, metadata metadata.Interface, writer *writer.Writer, strategy InstallStrategy) (*installer, error) {
	i := &installer{strategy: strategy, inventory: inventory, metadata: metadata, writer: writer}
	// Not found is a mailbox, which follows the acceptance of its cluster within milliseconds, or
	// the ClusterManagementAddOn.
	i.queue = newQueue(inventory, "install", apierrors.IsNotFound, i.sync)
	i.queue.Add(everywhere)
	inventory.clusters.OnMembers(func(cluster string) { i.queue.Add(cluster) })
	return i, errors.Join(
		onChange(inventory.addons.Informer(), func(o cache.ObjectName) { i.queue.Add(o.Namespace) }),
		onChange(inventory.managementAddons.Informer(), func(cache.ObjectName) { i.queue.Add(everywhere) }),
	)
}

func (i *installer) sync(ctx context.Context, cluster string) (worker.Result, error) {
	err := i.install(ctx, cluster)
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		err = nil // the watch shows it soon
	}
	return worker.Result{}, err
}

func (i *installer) install(ctx context.Context, cluster string) error {
	management, err := i.inventory.managementAddons.Lister().Get(statusagent.AddonName)
	if cluster == everywhere {
		if err == nil {
			return i.support(ctx, management)
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
		obj := clusterManagementAddOn()
		_, err = i.writer.Create(ctx, writer.Target{Resource: clusterManagementAddOns, Name: obj.Name}, obj, "install")
		return err
	}
	have, addonErr := i.inventory.addons.Lister().ManagedClusterAddOns(cluster).Get(statusagent.AddonName)
	switch {
	case addonErr == nil && err == nil:
		return i.own(ctx, have, management)
	case addonErr == nil:
		return err
	case !apierrors.IsNotFound(addonErr):
		return addonErr
	case !i.wants(cluster):
		return nil
	case err != nil:
		return err
	}
	if stays, err := i.stays(ctx, cluster); err != nil || !stays {
		return err
	}
	obj := managedClusterAddOn(cluster, management)
	if _, err := i.writer.Create(ctx, writer.Target{Resource: managedClusterAddOns, Namespace: cluster, Name: obj.Name}, obj, "install"); err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Installed add-on", logging.Cluster, cluster)
	return nil
}

// support adds AddOnDeploymentConfigs to a ClusterManagementAddOn that does not support them. It
// may be older than this version, or a user created it. A default config that a user chose stays.
func (i *installer) support(ctx context.Context, management *addonv1alpha1.ClusterManagementAddOn) error {
	supported := management.Spec.SupportedConfigs //nolint:staticcheck // OCM 1.2 resolves this field
	if slices.ContainsFunc(supported, func(c addonv1alpha1.ConfigMeta) bool { return c.ConfigGroupResource == configResource }) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": management.ResourceVersion},
		"spec":     map[string]any{"supportedConfigs": append(slices.Clone(supported), addonv1alpha1.ConfigMeta{ConfigGroupResource: configResource})},
	})
	if err != nil {
		return err
	}
	target := writer.Target{Resource: clusterManagementAddOns, Name: management.Name}
	_, err = i.writer.Patch(ctx, target, types.MergePatchType, patch, "install")
	return err
}

// stays reads from the hub whether the cluster exists and is not being deleted. When a cluster
// leaves, the cache may show the deletion of its add-on first: without this read the installer
// would create the add-on again, and nobody would delete it then.
func (i *installer) stays(ctx context.Context, cluster string) (bool, error) {
	have, err := i.metadata.Resource(clusters.ManagedClusters).Get(ctx, cluster, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read ManagedCluster %s: %w", cluster, err)
	}
	return have.DeletionTimestamp.IsZero(), nil
}

// own makes the ClusterManagementAddOn the owner of an add-on that a user created: the framework
// does nothing for one without, and OCM's own controller that would do it need not run.
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
	target := writer.Target{Resource: managedClusterAddOns, Namespace: have.Namespace, Name: have.Name}
	_, err := i.writer.Update(ctx, target, adopted, "own")
	return err
}

// wants reports whether the installer must install the add-on in the cluster.
func (i *installer) wants(cluster string) bool {
	return i.strategy == InstallAll && i.inventory.accepts(cluster)
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
			SupportedConfigs: []addonv1alpha1.ConfigMeta{{ConfigGroupResource: configResource}}, //nolint:staticcheck // OCM 1.2 resolves this field
			// For OCM's own controllers; the installer follows its flag.
			InstallStrategy: addonv1alpha1.InstallStrategy{Type: addonv1alpha1.AddonInstallStrategyManual},
		},
	}
}

func managedClusterAddOn(cluster string, management *addonv1alpha1.ClusterManagementAddOn) *addonv1alpha1.ManagedClusterAddOn {
	owner := metav1.NewControllerRef(management, schema.GroupVersionKind{
		Group: addonv1alpha1.GroupName, Version: "v1alpha1", Kind: "ClusterManagementAddOn",
	})
	// It would need the right to update finalizers of the owner, and nothing waits for it.
	owner.BlockOwnerDeletion = nil
	return &addonv1alpha1.ManagedClusterAddOn{
		TypeMeta: metav1.TypeMeta{APIVersion: addonv1alpha1.GroupVersion.String(), Kind: "ManagedClusterAddOn"},
		ObjectMeta: metav1.ObjectMeta{
			Name: statusagent.AddonName, Namespace: cluster, OwnerReferences: []metav1.OwnerReference{*owner},
		},
	}
}
