package binding

import (
	"slices"
	"sync"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	coreinventory "github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/match"
)

// leftOut are the clusters that are no destinations, whatever selectors match: those that are not
// accepted, and those that are drained.
type leftOut struct{ pending, drained []*clusters.Cluster }

func (l *leftOut) has(name string) bool {
	is := func(c *clusters.Cluster) bool { return c.Name == name }
	return slices.ContainsFunc(l.pending, is) || slices.ContainsFunc(l.drained, is)
}

// leftOutClusters caches the clusters that are left out. Every sync of a policy reads them, and to
// find them costs a visit of all clusters. It is safe for concurrent use.
type leftOutClusters struct {
	mu    sync.Mutex
	list  leftOut
	valid bool
}

// get returns the clusters. They are shared: do not change them.
func (p *leftOutClusters) get(reader *clusters.Reader) leftOut {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.valid {
		p.list, p.valid = leftOut{pending: reader.ListPending()}, true
		accepted, _ := reader.List()
		for _, cluster := range accepted {
			if coreinventory.Drained(cluster.Labels) {
				p.list.drained = append(p.list.drained, cluster)
			}
		}
	}
	return p.list
}

// changed notes that a cluster changed, and reports whether it is one that is left out, or was.
func (p *leftOutClusters) changed(name string, isIn bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if isIn && !p.list.has(name) {
		return false
	}
	p.valid = false
	return true
}

// leftOut returns the names of the clusters that would be destinations if they were accepted, and
// of those that would be if they were not drained.
func (c *Controller) leftOut(policy *controlv1alpha1.BindingPolicy, compiled *match.Policy) (pending, drained []string) {
	if len(policy.Spec.ClusterSelectors) == 0 {
		return nil, nil
	}
	matching := func(list []*clusters.Cluster) (names []string) {
		for _, cluster := range list {
			if compiled.MatchesCluster(cluster.Labels) {
				names = append(names, cluster.Name)
			}
		}
		return names
	}
	list := c.leftOutClusters.get(c.config.Clusters)
	return matching(list.pending), matching(list.drained)
}

// onMember enqueues the policies that select clusters if a cluster changed that is left out, or
// was: their status names those that match. With "", an ITS has synced; all policies are enqueued
// then anyway.
func (c *Controller) onMember(name string) {
	cluster, state := c.config.Clusters.Get(name)
	isIn := name != "" && state == coreinventory.Accepted && !coreinventory.Drained(cluster.Labels)
	if !c.leftOutClusters.changed(name, isIn) || name == "" {
		return
	}
	for _, item := range c.config.Policies.GetStore().List() {
		if policy, ok := item.(*controlv1alpha1.BindingPolicy); ok && len(policy.Spec.ClusterSelectors) > 0 {
			c.queue.AddAfter(policy.Name, together)
		}
	}
}
