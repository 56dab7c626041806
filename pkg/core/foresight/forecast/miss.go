package forecast

import (
	"maps"
	"slices"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/foresight/near"
)

// Misses says of each policy that the change creates or edits what its selectors lack, if they
// match no cluster or no object.
func (c *Comparison) Misses() []string {
	var misses []string
	for _, name := range slices.Sorted(maps.Keys(c.after.world.Policies)) {
		policy := c.after.world.Policies[name]
		if c.before.world.Policies[name] == policy || len(c.after.invalid[name]) > 0 {
			continue
		}
		listed := c.after.listed(name)
		var of []string
		if len(listed.clusters) == 0 && !c.after.world.ClustersUnread {
			of = c.after.world.missesClusters(policy)
		}
		if len(listed.objects) == 0 && len(c.after.world.Unread)+len(c.after.world.UnreadGroups) == 0 {
			of = append(of, c.after.world.missesObjects(policy)...)
		}
		for _, one := range of {
			misses = append(misses, "BindingPolicy "+name+": "+one)
		}
	}
	return misses
}

func (w *World) missesClusters(policy *controlv1alpha1.BindingPolicy) []string {
	var labels []map[string]string
	for _, cluster := range w.Clusters {
		labels = append(labels, cluster.Labels)
	}
	var misses []string
	for i := range policy.Spec.ClusterSelectors {
		if miss := near.Selector("cluster", &policy.Spec.ClusterSelectors[i], labels); miss != "" {
			misses = append(misses, miss)
		}
	}
	return misses
}

func (w *World) missesObjects(policy *controlv1alpha1.BindingPolicy) []string {
	var objects, inNamespaces []map[string]string
	var names []string
	for ref, o := range w.Objects {
		if ref.GroupResource() == namespaces {
			names, inNamespaces = append(names, ref.Name), append(inNamespaces, o.Meta.GetLabels())
		}
		if w.Settings.Bindings.Selectable(ref.GroupResource()) {
			objects = append(objects, o.Meta.GetLabels())
		}
	}
	var misses []string
	add := func(miss string) {
		if miss != "" && !slices.Contains(misses, miss) {
			misses = append(misses, miss)
		}
	}
	for i := range policy.Spec.Downsync {
		clause := &policy.Spec.Downsync[i]
		for j := range clause.ObjectSelectors {
			add(near.Selector("object", &clause.ObjectSelectors[j], objects))
		}
		for j := range clause.NamespaceSelectors {
			add(near.Selector("Namespace", &clause.NamespaceSelectors[j], inNamespaces))
		}
		for _, name := range clause.Namespaces {
			if name != "*" {
				add(near.Name("Namespace", name, names))
			}
		}
	}
	return misses
}
