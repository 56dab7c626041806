package binding

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/dynwatch"
)

// Handlers tell the index and enqueue what it answers. Nothing here blocks but for the index's own lock.

func (c *Controller) onPolicy(obj any) {
	policy, ok := obj.(*controlv1alpha1.BindingPolicy)
	if !ok {
		return
	}
	c.writes.seen(policyWrite(policy.Name), policy.ResourceVersion)
	c.tell(policy)
	c.queue.Add(policy.Name)
}

// tell tells the index of a policy, unless it knows that state.
func (c *Controller) tell(policy *controlv1alpha1.BindingPolicy) {
	c.telling.Lock()
	defer c.telling.Unlock()
	name := policy.Name
	now := spec{version: versionOfPolicy(policy)}
	if before, known := c.spec(name); known && before.version == now.version {
		return
	}
	if !now.version.deleting {
		now.compiled, now.invalid = match.Compile(&policy.Spec)
	}
	switch {
	case now.version.deleting:
		c.changed(c.config.Index.DeletePolicy(name))
	case now.compiled == nil:
		c.changed(c.config.Index.HoldPolicy(name, c.held(name, now)))
	default:
		c.changed(c.config.Index.SetPolicy(name, now.compiled))
	}
	// Only now: a sync that finds this state here must find it in the index.
	c.mu.Lock()
	defer c.mu.Unlock()
	c.specs[name] = now
}

func (c *Controller) spec(name string) (spec, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.specs[name]
	return known, ok
}

func (c *Controller) onPolicyDeleted(obj any) {
	name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return
	}
	c.telling.Lock()
	defer c.telling.Unlock()
	c.changed(c.config.Index.DeletePolicy(name))
	c.mu.Lock()
	delete(c.specs, name)
	delete(c.settled, name)
	delete(c.unreadSince, name)
	delete(c.letsGoSince, name)
	delete(c.begun, name)
	c.mu.Unlock()
	c.pace.forget(name)
	c.writes.forget(policyWrite(name))
	c.writes.forget(bindingWrite(name))
}

// hold tells the index what the policy selects if it is invalid: what its Binding says now.
func (c *Controller) hold(name string) {
	c.telling.Lock()
	defer c.telling.Unlock()
	if known, _ := c.spec(name); len(known.invalid) > 0 {
		c.changed(c.config.Index.HoldPolicy(name, c.held(name, known)))
	}
}

func (c *Controller) held(name string, of spec) *controlv1alpha1.BindingSpec {
	policy := c.policy(name)
	if policy == nil || string(policy.UID) != of.version.uid {
		return nil
	}
	return corebinding.Unite(specsOf(c.bindingsOf(policy)))
}

func (c *Controller) onBinding(obj any) {
	if binding, ok := obj.(*controlv1alpha1.Binding); ok {
		c.writes.seen(bindingWrite(binding.Name), binding.ResourceVersion)
		c.lookAt(binding)
	}
}

func (c *Controller) onBindingDeleted(obj any) {
	name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return
	}
	c.writes.forget(bindingWrite(name))
	c.mu.Lock()
	delete(c.deleted, name)
	c.mu.Unlock()
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	if binding, ok := obj.(*controlv1alpha1.Binding); ok {
		c.lookAt(binding)
	}
}

// lookAt enqueues the policies that a Binding concerns: that of its name, and the one that it belongs to.
func (c *Controller) lookAt(binding *controlv1alpha1.Binding) {
	c.hold(binding.Name)
	c.queue.Add(binding.Name)
	if owner := metav1.GetControllerOfNoCopy(binding); owner != nil && owner.Name != binding.Name {
		c.hold(owner.Name)
		c.queue.Add(owner.Name)
	}
}

// OnChange implements dynwatch.Handler.
func (c *Controller) OnChange(r dynwatch.Resource, before, after metav1.Object) {
	c.departures.note(r, before, after) // before the index tells of it
	isNamespace := r.Group == "" && r.Resource == "namespaces"
	if after == nil {
		if isNamespace {
			c.changed(c.config.Index.DeleteNamespace(before.GetName()))
		}
		c.changed(c.config.Index.DeleteObject(objref.New(r.GroupResource(), before.GetNamespace(), before.GetName())))
		return
	}
	if isNamespace {
		c.changed(c.config.Index.SetNamespace(after.GetName(), after.GetLabels()))
	}
	if c.config.Selectable(r.GroupResource()) {
		c.changed(c.config.Index.SetObject(resourceOf(r), after))
	}
}

// OnSynced implements dynwatch.Handler.
func (c *Controller) OnSynced(r dynwatch.Resource) {
	c.config.Index.SetKnown(resourceOf(r))
	c.enqueueAll()
}

// OnStopped implements dynwatch.Handler.
func (c *Controller) OnStopped(r dynwatch.Resource) {
	c.changed(c.config.Index.DeleteResource(r.GroupResource()))
	c.enqueueAll()
}

func resourceOf(r dynwatch.Resource) match.Resource {
	return match.Resource{GroupVersionResource: r.GroupVersionResource, Kind: r.Kind}
}

func (c *Controller) onCluster(name string, labels map[string]string, accepted bool) {
	if accepted {
		c.changed(c.config.Index.SetCluster(name, labels))
		return
	}
	c.changed(c.config.Index.DeleteCluster(name))
}

// onInventories is told when one more inventory was read.
func (c *Controller) onInventories(all bool) {
	for _, name := range c.config.Policies.GetStore().ListKeys() {
		c.keep(name)
	}
	if all {
		c.config.Index.SetClustersKnown()
	}
	c.enqueueAll()
}

// keep tells the index of the destinations of a policy that are in an inventory which was not read, if they are anywhere. So an
// ITS that does not answer makes nobody believe that its clusters are none.
func (c *Controller) keep(name string) {
	policy := c.policy(name)
	if policy == nil {
		return
	}
	united := corebinding.Unite(specsOf(c.bindingsOf(policy)))
	if united == nil {
		return
	}
	var kept []string
	for _, d := range united.Destinations {
		if c.inventory.unread(d.ClusterID) {
			kept = append(kept, d.ClusterID)
		}
	}
	c.telling.Lock()
	defer c.telling.Unlock()
	if _, known := c.spec(name); known {
		c.changed(c.config.Index.KeepClusters(name, kept))
	}
}

// changed enqueues the policies when it is their time.
func (c *Controller) changed(changes match.Changes) {
	for name, change := range changes {
		switch {
		case change.Set():
			c.queue.AddAfter(name, c.pace.untilSet(name))
		case change&match.ChangedVersions != 0:
			c.queue.AddAfter(name, c.pace.untilVersions(name))
		default: // counts in status.errors
			c.queue.AddAfter(name, betweenSets)
		}
	}
}

// enqueueAll has all policies looked at: more was read, or the WDS serves other resources. A short while lets the many that
// come together at a start be one.
func (c *Controller) enqueueAll() {
	const together = 20 * time.Millisecond
	for _, name := range c.config.Policies.GetStore().ListKeys() {
		c.queue.AddAfter(name, together)
	}
}
