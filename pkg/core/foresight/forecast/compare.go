package forecast

import (
	"maps"
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// Comparison compares two Worlds: what is delivered to which cluster before and after a change.
type Comparison struct {
	before, after *settled
	// edited are the objects whose content may differ for all clusters, or that only one World has;
	// templated those whose content may differ where the properties of the cluster do.
	edited    map[objref.Ref]bool
	templated map[objref.Ref]bool
	// moves: the change is not only one of single objects.
	moves bool
	// compiled are the policies of both Worlds, nil before they are asked for.
	compiled []*match.Policy
	// kinds are the resources of which any Binding listed an object before.
	kinds map[schema.GroupResource]bool
	// pairs are the clusters, grouped by the Bindings that list them before and after.
	pairs []*pair
}

// pair is a set of clusters that the same Bindings list, before and after.
type pair struct {
	clusters            []string
	before, after       []*listing
	created, lost, both []objref.Ref
	// had are all that the clusters have, has all that they are to have.
	had, has map[objref.Ref]bool
}

// Compare compares a World with the same one after a change. Of what content there is, only that it
// is another object counts: an object that both Worlds have as one pointer is not edited.
func Compare(before, after *World) *Comparison {
	settled := settle(before, nil)
	c := &Comparison{
		before: settled, after: settle(after, settled),
		edited: map[objref.Ref]bool{}, templated: map[objref.Ref]bool{}, kinds: map[schema.GroupResource]bool{},
	}
	c.findEdited()
	c.moves = c.moving()
	c.findPairs()
	for _, l := range c.before.listings {
		for ref := range l.objects {
			c.kinds[ref.GroupResource()] = true
		}
	}
	return c
}

// findEdited finds the objects whose content may differ, and those that only one World has.
func (c *Comparison) findEdited() {
	transformed := map[schema.GroupResource]bool{}
	for ref, after := range c.after.world.Objects {
		before := c.before.world.Objects[ref]
		if before == nil {
			c.edited[ref] = true
			continue
		}
		gr := ref.GroupResource()
		differs, known := transformed[gr]
		if !known {
			was, is := c.before.gets.removal(gr), c.after.gets.removal(gr)
			differs = was.Digest != is.Digest || len(was.Unknown) != len(is.Unknown)
			transformed[gr] = differs
		}
		if before != after || differs {
			c.edited[ref] = true
		}
		if templated(before) || templated(after) {
			c.templated[ref] = true
		}
	}
	for ref := range c.before.world.Objects {
		if c.after.world.Objects[ref] == nil {
			c.edited[ref] = true
		}
	}
}

// listing returns what a Binding lists.
func (s *settled) listing(b *controlv1alpha1.Binding) *listing {
	if known := s.listings[b.Name]; known != nil {
		return known
	}
	l := &listing{name: b.Name, objects: map[objref.Ref]*controlv1alpha1.DownsyncModulation{}, clusters: map[string]bool{}, annotations: b.Annotations}
	for m := range match.Entries(&b.Spec) {
		if l.objects[m.Ref] == nil {
			l.objects[m.Ref] = m.Modulation
		}
	}
	for _, d := range b.Spec.Destinations {
		l.clusters[d.ClusterID] = true
	}
	l.scope = s.gets.scope(l, s.ofPolicy(b))
	s.listings[b.Name] = l
	return l
}

// ofPolicy returns the Bindings of the policy of a Binding; itself, if it has none.
func (s *settled) ofPolicy(b *controlv1alpha1.Binding) []*controlv1alpha1.Binding {
	all := []*controlv1alpha1.Binding{b}
	if policyOf(b) != "" {
		for name := range s.owned[metav1.GetControllerOfNoCopy(b).UID] {
			if name != b.Name {
				all = append(all, s.bindings[name])
			}
		}
	}
	return all
}

// byCluster returns the Bindings that list each cluster, sorted by name.
func (s *settled) byCluster() map[string][]*listing {
	found := map[string][]*listing{}
	for _, name := range slices.Sorted(maps.Keys(s.bindings)) {
		l := s.listing(s.bindings[name])
		for cluster := range l.clusters {
			found[cluster] = append(found[cluster], l)
		}
	}
	return found
}

func (c *Comparison) findPairs() {
	before, after := c.before.byCluster(), c.after.byCluster()
	clusters := map[string]bool{}
	for cluster := range before {
		clusters[cluster] = true
	}
	for cluster := range after {
		clusters[cluster] = true
	}
	byKey := map[string]*pair{}
	for _, cluster := range slices.Sorted(maps.Keys(clusters)) {
		key := keyOf(before[cluster]) + "\n" + keyOf(after[cluster])
		p := byKey[key]
		if p == nil {
			p = &pair{before: before[cluster], after: after[cluster]}
			byKey[key] = p
			c.pairs = append(c.pairs, p)
		}
		p.clusters = append(p.clusters, cluster)
	}
	for _, p := range c.pairs {
		had, has := objectsOf(p.before), objectsOf(p.after)
		p.had, p.has = had, has
		p.created, p.lost = missingRefs(has, had), missingRefs(had, has)
		reoptioned := !sameOptions(p.before, p.after)
		for ref := range has {
			if _, both := had[ref]; both && (reoptioned || c.edited[ref] || c.templated[ref]) {
				p.both = append(p.both, ref)
			}
		}
		slices.SortFunc(p.both, objref.Compare)
	}
}

func keyOf(by []*listing) string {
	names := make([]string, len(by))
	for i, l := range by {
		names[i] = l.name
	}
	return strings.Join(names, ",")
}

func objectsOf(by []*listing) map[objref.Ref]bool {
	all := map[objref.Ref]bool{}
	for _, l := range by {
		for ref := range l.objects {
			all[ref] = true
		}
	}
	return all
}

// sameOptions reports whether Bindings carry what both have in the same way.
func sameOptions(before, after []*listing) bool {
	if len(before) != len(after) {
		return false
	}
	for i, b := range before {
		a := after[i]
		if b.name != a.name || !apiequality.Semantic.DeepEqual(b.annotations, a.annotations) || !b.scope.Equal(a.scope) {
			return false
		}
		for ref, modulation := range b.objects {
			if now := a.objects[ref]; now != nil && now != modulation && !match.EqualModulation(modulation, now) {
				return false
			}
		}
	}
	return true
}

// Need is an object whose content a Forecast needs.
type Need struct {
	Ref objref.Ref
	// Before and After are where it is not read.
	Before, After bool
}

// maxCreated bounds how many objects are needed only because they come to clusters. Of the others,
// the forecast has no size, and it is not known whether they can be delivered.
const maxCreated = 1000

// Needs returns the objects whose content Forecast needs, sorted, and the clusters that change.
func (c *Comparison) Needs() (needs []Need, clusters []string) {
	found := map[objref.Ref]Need{}
	need := func(ref objref.Ref, before, after bool) {
		n := found[ref]
		n.Ref = ref
		n.Before = n.Before || before && !c.before.world.Objects[ref].isRead()
		n.After = n.After || after && !c.after.world.Objects[ref].isRead()
		if n.Before || n.After {
			found[ref] = n
		}
	}
	created := map[objref.Ref]bool{}
	for _, p := range c.pairs {
		changes := len(p.created)+len(p.lost) > 0
		for _, ref := range p.created {
			if len(created) < maxCreated || created[ref] {
				created[ref] = true
				need(ref, false, true)
			}
		}
		for _, ref := range p.both {
			if c.edited[ref] || c.templated[ref] && slices.ContainsFunc(p.clusters, c.propertiesDiffer) {
				need(ref, true, true)
				changes = true
			}
		}
		if changes {
			clusters = append(clusters, p.clusters...)
		}
	}
	for _, n := range found {
		needs = append(needs, n)
	}
	slices.SortFunc(needs, func(a, b Need) int { return objref.Compare(a.Ref, b.Ref) })
	slices.Sort(clusters)
	return needs, clusters
}

func (o *Object) isRead() bool { return o == nil || o.Read }

// propertiesDiffer reports whether the properties of a cluster change. Those that are not known
// change with its labels.
func (c *Comparison) propertiesDiffer(cluster string) bool {
	before, after := c.before.world.properties(cluster), c.after.world.properties(cluster)
	if had, has := c.before.world.Clusters[cluster], c.after.world.Clusters[cluster]; before == nil && after == nil && had != nil && has != nil {
		return !maps.Equal(had.Labels, has.Labels)
	}
	return !before.Equal(after)
}
