package match

import (
	"maps"
	"slices"
)

// SetCluster adds a cluster that the hub has accepted, or updates its labels. The labels are
// retained and must not change. Its cost is that of the policies that mention a label that changed,
// and for a new cluster that of all policies.
func (x *Index) SetCluster(name string, labels map[string]string) Changes {
	return x.change(func(c *changing) {
		before, known := x.clusters[name]
		x.clusters[name] = labels
		if !known {
			for _, p := range x.policies {
				if p.compiled != nil {
					x.selectCluster(c, p, name, p.compiled.SelectsCluster(labels))
				}
			}
			return
		}
		if !maps.Equal(before, labels) {
			c.relabelled = name
		}
		for key := range changedKeys(before, labels) {
			for p := range x.mentions[key] {
				x.selectCluster(c, p, name, p.compiled.SelectsCluster(labels))
			}
		}
	})
}

// DeleteCluster forgets a cluster that is gone or not accepted any more.
func (x *Index) DeleteCluster(name string) Changes {
	return x.change(func(c *changing) {
		if _, known := x.clusters[name]; !known {
			return
		}
		delete(x.clusters, name)
		for _, p := range x.policies {
			if p.compiled != nil { // a frozen policy keeps the clusters of its Binding
				x.selectCluster(c, p, name, false)
			}
		}
	})
}

// changedKeys returns the keys whose values differ, or that only one of the two has.
func changedKeys(a, b map[string]string) map[string]struct{} {
	changed := map[string]struct{}{}
	for _, pair := range [][2]map[string]string{{a, b}, {b, a}} {
		for key, value := range pair[0] {
			if other, ok := pair[1][key]; !ok || other != value {
				changed[key] = struct{}{}
			}
		}
	}
	return changed
}

// selectClusters finds the clusters that the policy, as it is now, selects.
func (x *Index) selectClusters(c *changing, p *policy) {
	for key, policies := range x.mentions {
		delete(policies, p)
		if len(policies) == 0 {
			delete(x.mentions, key)
		}
	}
	if p.compiled == nil {
		for name := range p.clusters {
			x.selectCluster(c, p, name, false)
		}
		return
	}
	for key := range p.compiled.clusterKeys {
		if x.mentions[key] == nil {
			x.mentions[key] = map[*policy]struct{}{}
		}
		x.mentions[key][p] = struct{}{}
	}
	for name := range p.clusters { // those of a frozen policy need not exist
		if _, known := x.clusters[name]; !known {
			x.selectCluster(c, p, name, false)
		}
	}
	for name, labels := range x.clusters {
		x.selectCluster(c, p, name, p.compiled.SelectsCluster(labels))
	}
}

func (x *Index) selectCluster(c *changing, p *policy, name string, selected bool) {
	if _, before := p.clusters[name]; before == selected {
		return
	}
	if selected {
		p.clusters[name] = struct{}{}
	} else {
		delete(p.clusters, name)
	}
	c.destinations(p)
}

// destinations returns the clusters that the policy selects, sorted. Shared: do not change it.
func (p *policy) destinations() []string {
	if p.sorted == nil {
		p.sorted = slices.AppendSeq(slices.Clone(p.retained), maps.Keys(p.clusters))
		slices.Sort(p.sorted)
		p.sorted = slices.Compact(p.sorted)
	}
	return p.sorted
}
