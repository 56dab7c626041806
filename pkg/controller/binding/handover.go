package binding

import (
	"slices"
	"time"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// An object, or a cluster, may pass from one policy to another by one change of a label. If the Binding that loses it were written
// before the one that gains it, the cluster would delete the object and make it anew. So a policy keeps what another one is about to
// take over until that one's Bindings list it. Nobody waits with what comes, so no two policies wait for each other.

const (
	// patienceTakers bounds how long a policy waits for others: they may be unable to write their Bindings.
	patienceTakers = 5 * time.Second
	// lookForTakers is how soon it is looked whether they have.
	lookForTakers = 50 * time.Millisecond
)

// takers are the policies that may take over what one policy lets go.
type takers struct {
	// name is the policy that lets go, and stored what its Bindings list.
	name   string
	stored *controlv1alpha1.BindingSpec
	// selecting returns the policies that select an object, destinations the clusters that a policy selects, and bindings what the
	// Bindings of a policy list; false if it cannot write them.
	selecting    func(objref.Ref) []string
	destinations func(policy string) []string
	bindings     func(policy string) (*controlv1alpha1.BindingSpec, bool)

	// tooLong: they were waited for long enough.
	tooLong bool

	known  map[string]*taker
	looked bool // known are all that select some of our objects
	found  bool // something is about to be taken over
}

func (t *takers) wait() bool {
	t.found = true
	return !t.tooLong
}

// waits tells whether something is kept.
func (t *takers) waits() bool { return t != nil && t.found && !t.tooLong }

// taker is one of them.
type taker struct {
	objects map[objref.Ref]struct{} // that its Bindings list
	shared  map[string]bool         // the clusters of ours that it selects: whether its Bindings list them
	behind  bool                    // they do not list all of those
	// selects tells that it selects some of our objects, and lacks that its Bindings do not list all of those. Known once all were looked at.
	selects, lacks bool
}

func (t *takers) taker(policy string) *taker {
	if known, ok := t.known[policy]; ok {
		return known
	}
	if t.known == nil {
		t.known = map[string]*taker{}
	}
	var found *taker
	if spec, able := t.bindings(policy); able && policy != t.name {
		found = &taker{shared: map[string]bool{}, objects: corebinding.Refs(spec)}
		listed := map[string]bool{}
		if spec != nil {
			for _, d := range spec.Destinations {
				listed[d.ClusterID] = true
			}
		}
		selected := t.destinations(policy)
		for _, d := range t.stored.Destinations {
			if _, selects := slices.BinarySearch(selected, d.ClusterID); selects {
				found.shared[d.ClusterID] = listed[d.ClusterID]
				found.behind = found.behind || !listed[d.ClusterID]
			}
		}
	}
	t.known[policy] = found
	return found
}

// awaitsObject tells whether another policy is about to deliver the object to a cluster of ours.
func (t *takers) awaitsObject(ref objref.Ref) bool {
	for _, policy := range t.selecting(ref) {
		taker := t.taker(policy)
		if taker == nil || len(taker.shared) == 0 {
			continue
		}
		if _, listed := taker.objects[ref]; !listed || taker.behind {
			return t.wait()
		}
	}
	return false
}

// awaitsCluster tells whether another policy is about to deliver some of our objects to a cluster. The first time it costs a look at all
// of them.
func (t *takers) awaitsCluster(cluster string) bool {
	if !t.looked {
		t.look()
	}
	for _, taker := range t.known {
		if taker == nil || !taker.selects {
			continue
		}
		if there, selects := taker.shared[cluster]; selects && (taker.lacks || !there) {
			return t.wait()
		}
	}
	return false
}

// look finds out who selects our objects.
func (t *takers) look() {
	t.looked = true
	for ref := range corebinding.Refs(t.stored) {
		for _, policy := range t.selecting(ref) {
			if taker := t.taker(policy); taker != nil {
				_, listed := taker.objects[ref]
				taker.selects, taker.lacks = true, taker.lacks || !listed
			}
		}
	}
}

// takersOf returns those of a policy whose Bindings list that.
func (c *Controller) takersOf(name string, stored *controlv1alpha1.BindingSpec, now time.Time) *takers {
	if stored == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	since, waiting := c.letsGoSince[name]
	return &takers{
		name: name, stored: stored, selecting: c.config.Index.Selecting, destinations: c.config.Index.Destinations,
		bindings: c.writable, tooLong: waiting && now.Sub(since) > patienceTakers,
	}
}

// awaitsTakers tells whether another policy is about to take over something of a policy that is being deleted.
func (c *Controller) awaitsTakers(in *input, bindings []*controlv1alpha1.Binding) bool {
	stored := corebinding.Unite(specsOf(bindings))
	takers := c.takersOf(in.policy.Name, stored, in.now)
	if takers != nil {
		for _, d := range stored.Destinations {
			if takers.awaitsCluster(d.ClusterID) {
				break
			}
		}
	}
	c.noteTakers(in.policy.Name, takers, in.now)
	return takers.waits()
}

// noteTakers notes since when others are about to take something over.
func (c *Controller) noteTakers(name string, t *takers, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, waiting := c.letsGoSince[name]; t == nil || !t.found {
		delete(c.letsGoSince, name)
	} else if !waiting {
		c.letsGoSince[name] = now
	}
}

// writable returns what the Bindings of a policy list, nil if there are none; false if it will not write them.
func (c *Controller) writable(name string) (*controlv1alpha1.BindingSpec, bool) {
	policy := c.policy(name)
	if policy == nil || policy.DeletionTimestamp != nil {
		return nil, false
	}
	told, _ := c.spec(name)
	if len(told.invalid) > 0 || !mayWrite(&input{policy: policy, binding: c.binding(name)}) {
		return nil, false
	}
	return corebinding.Unite(specsOf(c.bindingsOf(policy))), true
}
