package match

import (
	"maps"
	"slices"
	"strings"

	"github.com/starlinghq/starling/pkg/core/objref"
)

// Change says in which ways the result of a policy changed.
type Change uint8

const (
	// ChangedWorkload: objects came or went, or are carried in another way.
	ChangedWorkload Change = 1 << iota
	// ChangedDestinations: clusters came or went.
	ChangedDestinations
	// ChangedVersions: the content of objects changed.
	ChangedVersions
	// ChangedRequests: Requests of its objects changed, perhaps through another policy.
	ChangedRequests
)

// Set tells whether the set of objects or clusters changed, not only what is said of them.
func (c Change) Set() bool { return c&(ChangedWorkload|ChangedDestinations) != 0 }

// String lists the ways, as "workload, versions".
func (c Change) String() string {
	var ways []string
	for i, way := range []string{"workload", "destinations", "versions", "requests"} {
		if c&(1<<i) != 0 {
			ways = append(ways, way)
		}
	}
	return strings.Join(ways, ", ")
}

// Changes are the policies whose results changed, by name. nil if none.
type Changes map[string]Change

// changing gathers what one call changes.
type changing struct {
	changes Changes
	// objects and refs are those whose Requests may have changed.
	objects map[*object]struct{}
	refs    map[objref.Ref]struct{}
	// pairs are those whose Collections may have changed, relabelled the cluster whose labels did.
	pairs      map[Pair]struct{}
	relabelled string
}

// change runs one change of the Index and tells the Observer.
func (x *Index) change(do func(*changing)) Changes {
	c := &changing{}
	x.mu.Lock()
	do(c)
	refs := c.finish()
	x.mu.Unlock()
	if len(refs) > 0 {
		x.observer.OnRequests(refs)
	}
	if len(c.pairs) > 0 {
		x.collections.OnCollections(slices.Collect(maps.Keys(c.pairs)))
	}
	if c.relabelled != "" {
		x.collections.OnClusterLabels(c.relabelled)
	}
	return c.changes
}

// policy notes a change of the policy.
func (c *changing) policy(p *policy, change Change) {
	if c.changes == nil {
		c.changes = Changes{}
	}
	c.changes[p.name] |= change
	if change != ChangedRequests {
		p.revision++
	}
}

// workload notes that an object is to be shown in another way wherever it is selected.
func (c *changing) workload(o *object) {
	for _, m := range o.matches {
		c.policy(m.policy, ChangedWorkload)
	}
}

// version notes that the content of an object changed.
func (c *changing) version(o *object) {
	for _, m := range o.matches {
		c.policy(m.policy, ChangedVersions)
		if collects(m.modulation) {
			c.collection(m.policy, o.ref())
		}
	}
}

// destinations notes that the clusters of the policy changed.
func (c *changing) destinations(p *policy) {
	p.sorted = nil
	c.policy(p, ChangedDestinations)
	c.requestsOf(p)
	c.collectionsOf(p)
}

// requestsOf notes that the Requests of all objects of the policy that it wants a status of may have changed.
func (c *changing) requestsOf(p *policy) {
	for ref, modulation := range p.held {
		if wantsStatus(modulation) {
			c.requests(ref)
		}
	}
	if p.compiled != nil && !p.compiled.requests {
		return
	}
	for o := range p.objects {
		if slices.ContainsFunc(o.matches, func(m match) bool { return m.policy == p && wantsStatus(m.modulation) }) {
			c.object(o)
		}
	}
}

// object notes that the Requests of the object may have changed, for all policies that select it at the moment.
func (c *changing) object(o *object) {
	if c.objects == nil {
		c.objects = map[*object]struct{}{}
	}
	if _, noted := c.objects[o]; noted {
		return
	}
	c.objects[o] = struct{}{}
	for _, m := range o.matches {
		c.policy(m.policy, ChangedRequests)
	}
}

// requests notes that the Requests of an object that is perhaps not there may have changed.
func (c *changing) requests(ref objref.Ref) {
	if c.refs == nil {
		c.refs = map[objref.Ref]struct{}{}
	}
	c.refs[ref] = struct{}{}
}

// finish returns all objects whose Requests may have changed, in no order.
func (c *changing) finish() []objref.Ref {
	for o := range c.objects {
		c.requests(o.ref())
	}
	if len(c.refs) == 0 {
		return nil
	}
	return slices.Collect(maps.Keys(c.refs))
}
