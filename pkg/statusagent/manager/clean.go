package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/statusagent"
	"github.com/starlinghq/starling/pkg/writer"
)

const (
	// lastWrites is how long an agent may still have a write under way after its rights were
	// removed.
	lastWrites = 5 * time.Second
	// passes is how often a mailbox is cleaned at most. A client that writes there after that has
	// other rights than those of the add-on.
	passes   = 3
	pageSize = 500
)

// cleaner deletes the WorkStatuses in a mailbox where the add-on is no longer installed, or whose
// cluster the hub denies: the last reports of the cluster would look current. The garbage collector
// deletes the agent's rights and the work with its manifests with their owner. The cleaner deletes
// the rights first, because the garbage collector may be slow.
//
// The add-on of a denied cluster stays, with a condition that says so: it is used again when the
// hub accepts the cluster. Its works are deleted, since OCM keeps rights of the cluster as long
// as there is a work.
//
// A mailbox is checked when the add-on or its cluster is deleted, and each that holds WorkStatuses
// when the manager starts.
type cleaner struct {
	installer *installer
	inventory *inventory
	hub       kubernetes.Interface
	metadata  metadata.Interface
	writer    *writer.Writer
	queue     *worker.Queue[string]

	// cleaned counts how often a mailbox held WorkStatuses. Only the one worker uses it.
	cleaned map[string]int
}

func newCleaner(installer *installer, inventory *inventory, hub kubernetes.Interface, metadata metadata.Interface, writer *writer.Writer) (*cleaner, error) {
	c := &cleaner{
		installer: installer, inventory: inventory, hub: hub, metadata: metadata, writer: writer,
		cleaned: map[string]int{},
	}
	c.queue = newQueue(inventory, "clean", nil, c.sync)
	// The add-on may have been deleted while the manager was not running.
	c.queue.Add(everywhere)
	inventory.clusters.OnMembers(func(cluster string) {
		// That a cluster is accepted again may be no event of its add-on, which says the contrary
		// until then.
		if cluster != everywhere && (!inventory.accepts(cluster) || c.saysDenied(cluster)) {
			c.queue.Add(cluster)
		}
	})
	return c, onChange(inventory.addons.Informer(), func(o cache.ObjectName) { c.queue.Add(o.Namespace) })
}

// eachReport calls do with every WorkStatus of ours in the namespace.
func (c *cleaner) eachReport(ctx context.Context, namespace string, do func(*metav1.PartialObjectMetadata) error) error {
	options := metav1.ListOptions{LabelSelector: controlv1alpha1.LabelWDSUID, Limit: pageSize}
	for {
		page, err := c.metadata.Resource(controlv1alpha1.WorkStatuses).Namespace(namespace).List(ctx, options)
		if err != nil {
			return fmt.Errorf("read WorkStatuses: %w", err)
		}
		for i := range page.Items {
			if err := do(&page.Items[i]); err != nil {
				return err
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
	}
}

// sync cleans a mailbox, or enqueues all mailboxes that hold WorkStatuses.
func (c *cleaner) sync(ctx context.Context, cluster string) (worker.Result, error) {
	if cluster == everywhere {
		return worker.Result{}, c.eachReport(ctx, metav1.NamespaceAll, func(report *metav1.PartialObjectMetadata) error {
			c.queue.Add(report.Namespace)
			return nil
		})
	}
	addon, err := c.inventory.addons.Lister().ManagedClusterAddOns(cluster).Get(statusagent.AddonName)
	denied := c.inventory.denied(cluster)
	if err == nil {
		if err := c.show(ctx, addon, denied); err != nil {
			return worker.Result{}, err
		}
	}
	if !denied && (!apierrors.IsNotFound(err) || c.installer.wants(cluster)) {
		delete(c.cleaned, cluster)
		return worker.Result{}, nil
	}
	if err := c.revoke(ctx, cluster); err != nil {
		return worker.Result{}, err
	}
	if denied {
		if err := c.withdraw(ctx, cluster); err != nil {
			return worker.Result{}, err
		}
	}
	removed := 0
	if err := c.eachReport(ctx, cluster, func(report *metav1.PartialObjectMetadata) error {
		target := writer.Target{Resource: controlv1alpha1.WorkStatuses, Namespace: cluster, Name: report.Name}
		if err := c.writer.Delete(ctx, target, report.UID, "clean"); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		removed++
		return nil
	}); err != nil {
		return worker.Result{}, err
	}
	if removed == 0 {
		delete(c.cleaned, cluster)
		return worker.Result{}, nil
	}
	klog.FromContext(ctx).V(2).Info("Deleted WorkStatuses of a cluster where the add-on is not installed", logging.Cluster, cluster, "reports", removed)
	c.cleaned[cluster]++
	if c.cleaned[cluster] < passes {
		return worker.Result{After: lastWrites}, nil
	}
	delete(c.cleaned, cluster)
	klog.FromContext(ctx).Info("A client other than the add-on writes WorkStatuses of a cluster where the add-on is not installed; they are kept", logging.Cluster, cluster)
	return worker.Result{}, nil
}

// revoke deletes the agent's rights in the mailbox.
func (c *cleaner) revoke(ctx context.Context, cluster string) error {
	binding := writer.Target{Resource: rbacv1.SchemeGroupVersion.WithResource("rolebindings"), Namespace: cluster, Name: statusagent.HubRole}
	have, err := c.hub.RbacV1().RoleBindings(cluster).Get(ctx, binding.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", binding, err)
	}
	return ignoreNotFound(c.writer.Delete(ctx, binding, have.UID, "clean"))
}

// withdraw deletes the works of the add-on. None is created for a denied cluster.
func (c *cleaner) withdraw(ctx context.Context, cluster string) error {
	for _, name := range []string{statusagent.DeployWork, statusagent.KindsWork} {
		target := writer.Target{Resource: manifestWorks, Namespace: cluster, Name: name}
		have, err := c.metadata.Resource(manifestWorks).Namespace(cluster).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && have.DeletionTimestamp != nil {
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", target, err)
		}
		if err := ignoreNotFound(c.writer.Delete(ctx, target, have.UID, "clean")); err != nil {
			return err
		}
	}
	return nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// show writes the condition Permitted of the add-on: False in a cluster that the hub denies, and
// True when it accepts the cluster again. That write also makes the framework install it again.
func (c *cleaner) show(ctx context.Context, addon *addonv1alpha1.ManagedClusterAddOn, denied bool) error {
	conditions := slices.Clone(addon.Status.Conditions)
	if !denied && meta.FindStatusCondition(conditions, statusagent.ConditionPermitted) == nil {
		return nil
	}
	if !meta.SetStatusCondition(&conditions, permitted(addon.Namespace, denied)) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": addon.ResourceVersion}, "status": map[string]any{"conditions": conditions},
	})
	if err != nil {
		return err
	}
	target := writer.Target{Resource: managedClusterAddOns, Namespace: addon.Namespace, Name: addon.Name, Subresource: "status"}
	_, err = c.writer.Patch(ctx, target, types.MergePatchType, patch, "permit")
	return ignoreNotFound(err)
}

// saysDenied reports whether the add-on of a cluster has the condition that the hub denies the
// cluster. If the informer has not seen that yet, it notifies of it later.
func (c *cleaner) saysDenied(cluster string) bool {
	addon, err := c.inventory.addons.Lister().ManagedClusterAddOns(cluster).Get(statusagent.AddonName)
	return err == nil && meta.IsStatusConditionFalse(addon.Status.Conditions, statusagent.ConditionPermitted)
}

// permitted returns the condition of the add-on in a cluster that the hub denies, or accepts again.
func permitted(cluster string, denied bool) metav1.Condition {
	if !denied {
		return metav1.Condition{
			Type: statusagent.ConditionPermitted, Status: metav1.ConditionTrue, Reason: "ClusterAccepted",
			Message: "the hub accepts the cluster; the agent has its rights",
		}
	}
	return metav1.Condition{
		Type: statusagent.ConditionPermitted, Status: metav1.ConditionFalse, Reason: "ClusterDenied",
		Message: "the hub does not accept the cluster: the rights of the agent, its work and its reports were removed. Accept the cluster with: " +
			"kubectl starling cluster accept " + cluster,
	}
}
