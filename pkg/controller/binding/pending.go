package binding

import (
	"slices"
	"sync"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	coreinventory "github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/match"
)

// pendingClusters caches the clusters that are not accepted. Every sync of a policy reads them, and
// to find them costs a visit of all clusters. It is safe for concurrent use.
type pendingClusters struct {
	mu    sync.Mutex
	list  []*clusters.Cluster
	valid bool
}

// get returns the clusters. They are shared: do not change them.
func (p *pendingClusters) get(reader *clusters.Reader) []*clusters.Cluster {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.valid {
		p.list, p.valid = reader.ListPending(), true
	}
	return p.list
}

// changed notes that a cluster changed, and reports whether it is one that is not accepted, or was.
func (p *pendingClusters) changed(name string, accepted bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if accepted && !slices.ContainsFunc(p.list, func(c *clusters.Cluster) bool { return c.Name == name }) {
		return false
	}
	p.valid = false
	return true
}

// pending returns the names of the clusters that would be destinations if they were accepted.
func (c *Controller) pending(policy *controlv1alpha1.BindingPolicy, compiled *match.Policy) []string {
	if len(policy.Spec.ClusterSelectors) == 0 {
		return nil
	}
	var names []string
	for _, cluster := range c.pendingClusters.get(c.config.Clusters) {
		if compiled.SelectsCluster(cluster.Labels) {
			names = append(names, cluster.Name)
		}
	}
	return names
}

// onPendingCluster enqueues the policies that select clusters if a cluster that is not accepted
// changed, or was accepted: their status names the clusters that match and are not accepted. With
// "", an ITS has synced; all policies are enqueued then anyway.
func (c *Controller) onPendingCluster(name string) {
	_, state := c.config.Clusters.Get(name)
	if !c.pendingClusters.changed(name, name != "" && state == coreinventory.Accepted) || name == "" {
		return
	}
	for _, item := range c.config.Policies.GetStore().List() {
		if policy, ok := item.(*controlv1alpha1.BindingPolicy); ok && len(policy.Spec.ClusterSelectors) > 0 {
			c.queue.AddAfter(policy.Name, together)
		}
	}
}
