package forecast

import (
	"fmt"
	"maps"
	"slices"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/options"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/text"
)

// lacking returns what a cluster lacks for the objects that it gets: Namespaces and kinds.
func (c *Comparison) lacking(has map[objref.Ref]bool, items []Item) []string {
	found := map[string]int{}
	for i := range items {
		item := &items[i]
		if item.Verb != Create {
			continue
		}
		if in := item.Ref.Namespace; in != "" && !options.NeverDeleted(objref.New(namespaces, "", in)) && !has[objref.New(namespaces, "", in)] {
			found[fmt.Sprintf("no policy delivers Namespace %q: the clusters need one", in)]++
		}
		definition := plan.DefinitionOf(item.Ref.GroupResource())
		if c.after.world.Objects[definition] == nil {
			continue
		}
		gr := item.Ref.GroupResource()
		if !has[definition] {
			found[fmt.Sprintf("no policy delivers the CustomResourceDefinition %s: the clusters need it", gr)]++
		}
		if !c.kinds[gr] {
			found[fmt.Sprintf("the first objects of %s: OCM's agent needs a grant for them in each cluster", gr)]++
		}
	}
	var warnings []string
	for _, warning := range slices.Sorted(maps.Keys(found)) {
		warnings = append(warnings, fmt.Sprintf("%s (%s)", warning, text.Count(found[warning], "object")))
	}
	return warnings
}

// refused returns the clusters that match a policy and are no destinations. Of clusters that may be
// in an ITS that was not read, the labels are not known.
func refused(policy *controlv1alpha1.BindingPolicy, w *World) []string {
	compiled, mistakes := match.Compile(&policy.Spec)
	if len(mistakes) > 0 {
		return nil
	}
	var found []string
	for _, name := range slices.Sorted(maps.Keys(w.Clusters)) {
		switch c := w.Clusters[name]; {
		case c.State == inventory.Unknown || !compiled.MatchesCluster(c.Labels):
		case c.Refused != "":
			found = append(found, name+" "+c.Refused)
		case inventory.Drained(c.Labels):
			found = append(found, name+" is drained: kubectl starling cluster undrain "+name)
		}
	}
	return found
}
