package manager

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/statusagent"
	"github.com/starlinghq/starling/pkg/write"
)

const (
	// lastWrites is how long after its rights were taken from it an agent may still have a write under way.
	lastWrites = 5 * time.Second
	// passes is how often a mailbox is cleaned at most. Who writes there after that has other rights than those of the add-on.
	passes   = 3
	pageSize = 500
)

// cleaner removes what the add-on leaves in a mailbox where it is not installed any more: what a cluster reported last would be
// taken for what is. The agent's rights and the work with its manifests have an owner and go with it; the rights are taken away
// here first, since the garbage collector may be slow.
//
// A mailbox is looked at when the add-on or its cluster is gone, and each that holds reports at the start of the manager.
type cleaner struct {
	installer *installer
	inventory *inventory
	hub       kubernetes.Interface
	reports   metadata.Interface
	writer    *write.Writer
	queue     workqueue.TypedRateLimitingInterface[clusterKey]

	mu sync.Mutex
	// cleaned counts how often a mailbox was found to hold reports.
	cleaned map[clusterKey]int
}

func newCleaner(installer *installer, inventory *inventory, hub kubernetes.Interface, reports metadata.Interface, writer *write.Writer) (*cleaner, error) {
	c := &cleaner{
		installer: installer, inventory: inventory, hub: hub, reports: reports, writer: writer,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[clusterKey](20*time.Millisecond, 30*time.Second),
			workqueue.TypedRateLimitingQueueConfig[clusterKey]{Name: Name + "-clean"}),
		cleaned: map[clusterKey]int{},
	}
	return c, errors.Join(
		onDeletion(inventory.clustersInformer, func(o metav1.Object) { c.queue.Add(clusterKey{o.GetName()}) }),
		onDeletion(inventory.addonsInformer, func(o metav1.Object) {
			if o.GetName() == statusagent.AddonName {
				c.queue.Add(clusterKey{o.GetNamespace()})
			}
		}),
	)
}

func (c *cleaner) run(ctx context.Context) {
	var working sync.WaitGroup
	if c.inventory.waitSynced(ctx) {
		working.Go(func() { c.findReports(ctx) })
		working.Go(func() {
			for c.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	c.queue.ShutDown()
	working.Wait()
}

// findReports looks at all mailboxes that hold reports: the add-on may have gone while the manager was not running.
func (c *cleaner) findReports(ctx context.Context) {
	for delay := time.Second; ; delay = min(2*delay, time.Minute) {
		mailboxes, err := c.mailboxes(ctx)
		if err == nil {
			for k := range mailboxes {
				c.queue.Add(k)
			}
			return
		}
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Cannot look for reports that nobody keeps; trying again")
		}
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

func (c *cleaner) mailboxes(ctx context.Context) (map[clusterKey]struct{}, error) {
	found := map[clusterKey]struct{}{}
	return found, c.eachReport(ctx, metav1.NamespaceAll, func(report *metav1.PartialObjectMetadata) error {
		found[clusterKey{report.Namespace}] = struct{}{}
		return nil
	})
}

// eachReport calls do with every WorkStatus of ours in the namespace.
func (c *cleaner) eachReport(ctx context.Context, namespace string, do func(*metav1.PartialObjectMetadata) error) error {
	options := metav1.ListOptions{LabelSelector: controlv1alpha1.LabelWDSUID, Limit: pageSize}
	for {
		page, err := c.reports.Resource(controlv1alpha1.WorkStatuses).Namespace(namespace).List(ctx, options)
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

func (c *cleaner) next(ctx context.Context) bool {
	k, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(k)
	again, err := c.sync(ctx, k)
	switch {
	case err == nil:
		c.queue.Forget(k)
		if again {
			c.queue.AddAfter(k, lastWrites)
		}
	case ctx.Err() != nil:
		return false
	default:
		klog.FromContext(ctx).Error(err, "Cannot clean up after the add-on", logging.Cluster, k.name)
		c.queue.AddRateLimited(k)
	}
	return true
}

// sync cleans a mailbox, and tells whether to look again.
func (c *cleaner) sync(ctx context.Context, k clusterKey) (again bool, err error) {
	if _, err := c.inventory.addons.ManagedClusterAddOns(k.name).Get(statusagent.AddonName); !apierrors.IsNotFound(err) || c.installer.wants(k.name) {
		c.forget(k)
		return false, nil
	}
	binding := write.Target{Resource: rbacv1.SchemeGroupVersion.WithResource("rolebindings"), Namespace: k.name, Name: statusagent.HubRole}
	have, err := c.hub.RbacV1().RoleBindings(k.name).Get(ctx, binding.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		if err := c.writer.Delete(ctx, binding, have.UID, "clean"); err != nil && !apierrors.IsNotFound(err) {
			return false, err
		}
	case !apierrors.IsNotFound(err):
		return false, fmt.Errorf("read %s: %w", binding, err)
	}
	removed := 0
	if err := c.eachReport(ctx, k.name, func(report *metav1.PartialObjectMetadata) error {
		target := write.Target{Resource: controlv1alpha1.WorkStatuses, Namespace: k.name, Name: report.Name}
		if err := c.writer.Delete(ctx, target, report.UID, "clean"); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		removed++
		return nil
	}); err != nil {
		return false, err
	}
	if removed == 0 {
		c.forget(k)
		return false, nil
	}
	klog.FromContext(ctx).V(2).Info("Removed the reports of a cluster where the add-on is not installed", logging.Cluster, k.name, "reports", removed)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cleaned[k]++
	if c.cleaned[k] < passes {
		return true, nil
	}
	delete(c.cleaned, k)
	klog.FromContext(ctx).Info("Somebody reports from a cluster where the add-on is not installed; leaving it alone", logging.Cluster, k.name)
	return false, nil
}

func (c *cleaner) forget(k clusterKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.cleaned, k)
}

// onDeletion calls do with each object that was deleted.
func onDeletion(informer cache.SharedIndexInformer, do func(metav1.Object)) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) {
		if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		if o, ok := obj.(metav1.Object); ok {
			do(o)
		}
	}})
	if err != nil {
		return fmt.Errorf("add event handler: %w", err)
	}
	return nil
}
