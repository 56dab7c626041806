package binding

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	coreinventory "github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
)

// Handlers update the index and enqueue the policies that it returns. They block on nothing but the
// index's own lock.

func (c *Controller) onPolicy(obj any) {
	policy, ok := obj.(*controlv1alpha1.BindingPolicy)
	if !ok {
		return
	}
	c.writes.seen(policyWrite(policy.Name), policy.ResourceVersion)
	c.setPolicy(policy)
	c.queue.Add(policy.Name)
	c.enqueueWaiters(policy.Name)
}

// setPolicy updates the index, unless it has that state of the policy.
func (c *Controller) setPolicy(policy *controlv1alpha1.BindingPolicy) {
	c.indexing.Lock()
	defer c.indexing.Unlock()
	name := policy.Name
	now := spec{version: versionOfPolicy(policy)}
	if before, known := c.memory.spec(name); known && before.version == now.version {
		return
	}
	if !now.version.deleting {
		now.compiled, now.invalid = match.Compile(&policy.Spec)
	}
	if now.version.deleting {
		c.changed(c.config.Index.DeletePolicy(name))
	} else {
		c.changed(c.config.Index.SetPolicyUID(name, policy.UID))
		if now.compiled == nil {
			c.changed(c.config.Index.FreezePolicy(name, c.frozen(name, now)))
		} else {
			c.changed(c.config.Index.SetPolicy(name, now.compiled))
		}
	}
	// Only now: a sync that finds this state here must find it in the index.
	c.memory.setSpec(name, now)
}

func (c *Controller) onPolicyDeleted(obj any) {
	name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return
	}
	c.indexing.Lock()
	defer c.indexing.Unlock()
	c.changed(c.config.Index.DeletePolicy(name))
	c.enqueueWaiters(name)
	c.memory.forget(name)
	c.writes.forget(policyWrite(name))
	c.writes.forget(bindingWrite(name))
}

// freeze has the index select for the policy, if it is invalid, just what its Bindings list now.
func (c *Controller) freeze(name string) {
	c.indexing.Lock()
	defer c.indexing.Unlock()
	if known, _ := c.memory.spec(name); len(known.invalid) > 0 {
		c.changed(c.config.Index.FreezePolicy(name, c.frozen(name, known)))
	}
}

func (c *Controller) frozen(name string, of spec) *controlv1alpha1.BindingSpec {
	policy := c.policy(name)
	if policy == nil || string(policy.UID) != of.version.uid {
		return nil
	}
	return c.storedOf(policy)
}

func (c *Controller) onBinding(obj any) {
	if binding, ok := obj.(*controlv1alpha1.Binding); ok {
		c.writes.seen(bindingWrite(binding.Name), binding.ResourceVersion)
		c.enqueueOwners(binding)
	}
}

func (c *Controller) onBindingDeleted(obj any) {
	name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return
	}
	c.writes.forget(bindingWrite(name))
	c.memory.setDeleted(name, "")
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	if binding, ok := obj.(*controlv1alpha1.Binding); ok {
		c.enqueueOwners(binding)
	}
}

// enqueueOwners enqueues the policies that a Binding concerns: that of its name, the one that it
// belongs to, and those that wait for either.
func (c *Controller) enqueueOwners(binding *controlv1alpha1.Binding) {
	names := []string{binding.Name}
	if owner := metav1.GetControllerOfNoCopy(binding); owner != nil && owner.Name != binding.Name {
		names = append(names, owner.Name)
	}
	for _, name := range names {
		c.freeze(name)
		c.queue.Add(name)
		c.enqueueWaiters(name)
	}
}

// enqueueWaiters enqueues the policies that wait for the Bindings of another one.
func (c *Controller) enqueueWaiters(name string) {
	for _, waiter := range c.memory.touch(name) {
		c.queue.AddAfter(waiter, c.memory.until(waiter, betweenSets))
	}
}

// enqueueSoon enqueues a policy that found a sync of another one running, which has ended.
func (c *Controller) enqueueSoon(name string) {
	const soon = 10 * time.Millisecond
	c.queue.AddAfter(name, max(soon, c.memory.until(name, betweenSets)))
}

// OnChange implements dynamicinformer.Handler.
func (c *Controller) OnChange(r dynamicinformer.Resource, before, after metav1.Object) {
	c.deletions.observe(r, before, after) // before the index returns policies
	isNamespace := r.GroupResource() == namespaces
	if after == nil {
		if isNamespace {
			c.changed(c.config.Index.DeleteNamespace(before.GetName()))
		}
		c.changed(c.config.Index.DeleteObject(objref.New(r.GroupResource(), before.GetNamespace(), before.GetName())))
		return
	}
	switch {
	case isNamespace && after.GetDeletionTimestamp() != nil:
		c.changed(c.config.Index.EndNamespace(after.GetName()))
	case isNamespace:
		c.changed(c.config.Index.SetNamespace(after.GetName(), after.GetLabels()))
	}
	if gr := r.GroupResource(); c.config.Selectable(gr) || match.Unsent(gr) {
		c.changed(c.config.Index.SetObject(resourceOf(r), after))
	}
}

// OnSynced implements dynamicinformer.Handler.
func (c *Controller) OnSynced(r dynamicinformer.Resource) {
	c.onRecovered(r)
	c.config.Index.SetKnown(resourceOf(r))
	of := r.GroupResource()
	if of == namespaces {
		of = schema.GroupResource{} // their labels select objects of all resources
	}
	c.notifyKnown(of)
	c.enqueueAll()
}

// OnStopped implements dynamicinformer.Handler.
func (c *Controller) OnStopped(r dynamicinformer.Resource) {
	c.failures.forget(r.GroupResource())
	c.changed(c.config.Index.DeleteResource(r.GroupResource()))
	c.enqueueAll()
}

func resourceOf(r dynamicinformer.Resource) match.Resource {
	return match.Resource{GroupVersionResource: r.GroupVersionResource, Kind: r.Kind, TracksContent: r.TracksContent}
}

// onCluster updates the index with what is known of a cluster; with "", an ITS has synced.
func (c *Controller) onCluster(name string) {
	if name != "" {
		c.setCluster(name)
		return
	}
	list, complete := c.config.Clusters.List()
	for _, cluster := range list { // with all ITSes, names may stand for other clusters
		c.setCluster(cluster.Name)
	}
	for _, policy := range c.config.Policies.GetStore().ListKeys() {
		c.retainClusters(policy)
	}
	if complete {
		c.config.Index.SetClustersKnown()
		c.notifyKnown(schema.GroupResource{})
	}
	c.enqueueAll()
}

func (c *Controller) setCluster(name string) {
	c.clustering.Lock()
	defer c.clustering.Unlock()
	if cluster, state := c.config.Clusters.Get(name); state == coreinventory.Accepted {
		c.changed(c.config.Index.SetCluster(name, cluster.Labels))
	} else {
		c.changed(c.config.Index.DeleteCluster(name))
	}
}

// onCollector enqueues the policies that name a StatusCollector. It visits all policies.
func (c *Controller) onCollector(name string) {
	for _, item := range c.config.Policies.GetStore().List() {
		if policy, ok := item.(*controlv1alpha1.BindingPolicy); ok && slices.Contains(corebinding.CollectorsIn(&policy.Spec), name) {
			c.queue.Add(policy.Name)
		}
	}
}

// retainClusters has the index count as destinations what the policy's Bindings list and could be
// in an ITS that has not synced. So an ITS that does not answer removes no destinations.
func (c *Controller) retainClusters(name string) {
	policy := c.policy(name)
	if policy == nil {
		return
	}
	stored := c.storedOf(policy)
	if stored == nil {
		return
	}
	var retained []string
	for _, d := range stored.Destinations {
		if c.isUnknownCluster(d.ClusterID) {
			retained = append(retained, d.ClusterID)
		}
	}
	c.indexing.Lock()
	defer c.indexing.Unlock()
	if _, known := c.memory.spec(name); known {
		c.changed(c.config.Index.RetainClusters(name, retained))
	}
}

// changed enqueues policies, debounced, and those that wait for them, and notifies the Observers.
func (c *Controller) changed(changes match.Changes) {
	for _, observer := range c.observers {
		observer.OnChanges(changes)
	}
	for name, change := range changes.Policies {
		switch {
		case change.Set():
			c.queue.AddAfter(name, c.memory.until(name, betweenSets))
			c.enqueueWaiters(name)
		case change&match.ChangedVersions != 0:
			c.queue.AddAfter(name, c.memory.until(name, betweenVersions))
		default: // counts in status.errors
			c.queue.AddAfter(name, betweenSets)
		}
	}
}

func (c *Controller) notifyKnown(of schema.GroupResource) {
	for _, observer := range c.observers {
		observer.OnKnown(of)
	}
}

// together is how long events that come in numbers are collected.
const together = 20 * time.Millisecond

// enqueueAll enqueues all policies: more has synced, or the WDS serves other resources.
func (c *Controller) enqueueAll() {
	for _, name := range c.config.Policies.GetStore().ListKeys() {
		c.queue.AddAfter(name, together)
	}
}
