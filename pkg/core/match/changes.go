package match

import (
	"maps"
	"slices"
	"strings"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
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

// Set reports whether the set of objects or clusters changed, not only how they are delivered.
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

// Changes is what one change of the Index may have changed in its results. The caller owns it.
type Changes struct {
	// Policies are those whose results changed, by name.
	Policies map[string]Change
	// Requests are the objects whose Requests may have changed, Collections the pairs whose
	// Collections may have. They have no order.
	Requests    []objref.Ref
	Collections []Pair
	// Relabelled is a cluster that was known before and has other labels now, "" for none.
	Relabelled string
}

// changing gathers what one call changes.
type changing struct {
	policies map[string]Change
	// objects and refs are those whose Requests may have changed.
	objects map[*object]struct{}
	refs    map[objref.Ref]struct{}
	// pairs are those whose Collections may have changed, relabelled the cluster whose labels did.
	pairs      map[Pair]struct{}
	relabelled string
}

// change runs one change of the Index.
func (x *Index) change(do func(*changing)) Changes {
	c := &changing{policies: map[string]Change{}, objects: map[*object]struct{}{}, refs: map[objref.Ref]struct{}{}, pairs: map[Pair]struct{}{}}
	x.mu.Lock()
	defer x.mu.Unlock()
	do(c)
	for o := range c.objects {
		c.refs[o.ref()] = struct{}{}
	}
	return Changes{
		Policies: c.policies, Requests: slices.Collect(maps.Keys(c.refs)), Collections: slices.Collect(maps.Keys(c.pairs)), Relabelled: c.relabelled,
	}
}

// policy notes a change of the policy.
func (c *changing) policy(p *policy, change Change) {
	c.policies[p.name] |= change
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
			c.pairs[Pair{o.ref(), m.policy.name}] = struct{}{}
		}
	}
}

// destinations notes that the clusters of the policy changed.
func (c *changing) destinations(p *policy) {
	p.sorted = nil
	c.policy(p, ChangedDestinations)
	c.askedByAll(p)
}

// askedByAll notes that the Requests and Collections of all objects of the policy may have changed.
func (c *changing) askedByAll(p *policy) {
	for ref, modulation := range p.frozen {
		c.askedFrozen(p, ref, modulation)
	}
	if p.compiled != nil && !p.compiled.requests && !p.compiled.collects {
		return
	}
	for o := range p.objects {
		c.asked(p, o, o.modulation(p))
	}
}

// asked notes that the Requests and Collections of an object that the policy selects may have
// changed, as far as it asks for them in one of these ways.
func (c *changing) asked(p *policy, o *object, ways ...*controlv1alpha1.DownsyncModulation) {
	if slices.ContainsFunc(ways, wantsStatus) {
		c.object(o)
	}
	if slices.ContainsFunc(ways, collects) {
		c.pairs[Pair{o.ref(), p.name}] = struct{}{}
	}
}

// askedFrozen is asked for an object that the policy selects without a clause, and that is perhaps
// not there.
func (c *changing) askedFrozen(p *policy, ref objref.Ref, modulation *controlv1alpha1.DownsyncModulation) {
	if wantsStatus(modulation) {
		c.refs[ref] = struct{}{}
	}
	if collects(modulation) {
		c.pairs[Pair{ref, p.name}] = struct{}{}
	}
}

// object notes that the Requests of the object may have changed, for all policies that select it at
// the moment.
func (c *changing) object(o *object) {
	if _, noted := c.objects[o]; noted {
		return
	}
	c.objects[o] = struct{}{}
	for _, m := range o.matches {
		c.policy(m.policy, ChangedRequests)
	}
}

// frozenCollections notes the Collections of the policies that select the object without a clause:
// it came, went or changed.
func (x *Index) frozenCollections(c *changing, ref objref.Ref) {
	for p := range x.frozen[ref] {
		if collects(p.frozen[ref]) {
			c.pairs[Pair{ref, p.name}] = struct{}{}
		}
	}
}
