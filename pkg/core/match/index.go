package match

import (
	"hash/maphash"
	"maps"
	"reflect"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// Index relates policies, objects, Namespaces and clusters. It is safe for concurrent use: one
// mutex guards it, so each call waits for those before it. Every method that changes it returns
// what that may have changed in its results.
type Index struct {
	seed maphash.Seed

	mu      sync.Mutex
	catalog catalog
	// finder leads from the properties of an object to the clauses that it could pass.
	finder   finder
	policies map[string]*policy
	// frozen has the policies that select an object without a clause, by object; see FreezePolicy.
	frozen map[objref.Ref]map[*policy]struct{}

	clusters map[string]map[string]string
	// mentions leads from label keys to the policies whose cluster selectors mention them.
	mentions map[string]map[*policy]struct{}

	policiesKnown, clustersKnown bool
	// generated: objects that controllers make may be workload.
	generated bool
	// tests counts tests of an object against a clause, for tests and metrics.
	tests uint64
	// found is a buffer for the candidates of one object.
	found []match
}

// policy is what the Index keeps of one BindingPolicy.
type policy struct {
	name string
	uid  types.UID
	// compiled is nil while the policy is frozen.
	compiled *Policy
	entries  []*entry
	objects  map[*object]struct{}
	// withheld are objects that pass a clause which does not take them, each with the first such
	// clause.
	withheld map[*object]int
	frozen   map[objref.Ref]*controlv1alpha1.DownsyncModulation
	clusters map[string]struct{}
	// retained are clusters that its Bindings list and of which nothing is known yet.
	// retainedKnown: they were set.
	retained      []string
	retainedKnown bool
	// sorted are the clusters in order, nil if they changed since. It is shared and never changed.
	sorted   []string
	revision uint64
}

// Options are the options of an Index.
type Options struct {
	// IncludeGenerated: objects that controllers create in each namespace may be workload; see
	// Generated.
	IncludeGenerated bool
}

// NewIndex returns an empty Index.
func NewIndex(options Options) *Index {
	return &Index{
		generated: options.IncludeGenerated,
		seed:      maphash.MakeSeed(),
		catalog:   newCatalog(),
		finder:    finder{entries: map[anchor][]*entry{}},
		policies:  map[string]*policy{},
		frozen:    map[objref.Ref]map[*policy]struct{}{},
		clusters:  map[string]map[string]string{},
		mentions:  map[string]map[*policy]struct{}{},
	}
}

// SetPolicy adds or updates a policy. Its cost is that of the objects that its clauses lead to,
// plus those it selected before; if only the cluster selectors changed, that of the clusters.
func (x *Index) SetPolicy(name string, compiled *Policy) Changes {
	return x.change(func(c *changing) {
		p := x.policy(name)
		x.unfreeze(c, p)
		before := p.compiled
		p.compiled = compiled
		x.selectClusters(c, p)
		if before != nil && reflect.DeepEqual(before.spec.Downsync, compiled.spec.Downsync) {
			return
		}
		x.finder.remove(p)
		x.finder.add(p)
		clear(p.withheld)
		selected := map[*object]*controlv1alpha1.DownsyncModulation{}
		for i := range compiled.clauses {
			clause := &compiled.clauses[i]
			for o := range x.catalog.reach(clause) {
				switch {
				case !x.passes(clause, o):
				case !clause.takes(o.resource.GroupResource(), o.namespace):
					p.withhold(o, i)
				default:
					selected[o] = mergeModulation(selected[o], clause.modulation)
				}
			}
		}
		for o := range p.objects {
			if selected[o] == nil {
				x.unmatch(c, o, p)
			}
		}
		for o, modulation := range selected {
			x.match(c, o, p, modulation)
		}
	})
}

// SetPolicyUID sets the UID of a policy, which its Collections have.
func (x *Index) SetPolicyUID(name string, uid types.UID) Changes {
	return x.change(func(c *changing) {
		if p := x.policy(name); p.uid != uid {
			p.uid = uid
			c.askedByAll(p)
		}
	})
}

// FreezePolicy makes the policy select just what its Binding says, or nothing if that is nil: for a
// policy that cannot be understood and whose Binding stays as it is. Its objects count in Requests;
// a Snapshot of it there is not.
func (x *Index) FreezePolicy(name string, binding *controlv1alpha1.BindingSpec) Changes {
	return x.change(func(c *changing) {
		p := x.policy(name)
		x.clear(c, p)
		if binding == nil {
			return
		}
		for _, destination := range binding.Destinations {
			x.selectCluster(c, p, destination.ClusterID, true)
		}
		for m := range Entries(binding) {
			x.freeze(c, p, m.Ref, m.Modulation)
		}
	})
}

// RetainClusters sets the clusters that the Bindings of a policy list and that could be in an ITS
// that has not synced. They count as destinations, since they were some. It retains the list.
func (x *Index) RetainClusters(name string, clusters []string) Changes {
	return x.change(func(c *changing) {
		p := x.policy(name)
		slices.Sort(clusters)
		known := p.retainedKnown || x.clustersKnown
		p.retainedKnown = true
		switch {
		case !slices.Equal(p.retained, clusters):
			p.retained = clusters
			c.destinations(p)
		case !known:
			c.askedByAll(p) // their Known may have changed
		}
	})
}

// DeletePolicy forgets a policy.
func (x *Index) DeletePolicy(name string) Changes {
	return x.change(func(c *changing) {
		if p := x.policies[name]; p != nil {
			x.clear(c, p)
			delete(x.policies, name)
		}
	})
}

// SetObject adds or updates an object. Its labels are retained and must not change. Its cost is
// that of its labels and of the clauses they lead to. An object that is being deleted is no
// workload any more, whatever finalizers it waits for: nobody can take a deletion back.
func (x *Index) SetObject(in Resource, obj metav1.Object) Changes {
	gr := in.GroupResource()
	if obj.GetDeletionTimestamp() != nil || NeverObject(gr, obj) && !handWritten(gr, obj) || !x.generated && Generated(gr, obj) {
		return x.DeleteObject(objref.New(gr, obj.GetNamespace(), obj.GetName()))
	}
	return x.change(func(c *changing) {
		r := x.catalog.resource(in)
		if r.Resource != in { // the same objects, seen in another version
			r.Resource = in
			for _, o := range r.objects {
				c.workload(o)
			}
		}
		o := r.objects[objectName{obj.GetNamespace(), obj.GetName()}]
		if o == nil {
			o = &object{resource: r, namespace: obj.GetNamespace(), name: obj.GetName(), edited: r.known}
			o.update(obj, x.seed)
			x.catalog.insert(o)
			x.rematch(c, o)
			x.frozenCollections(c, o.ref())
			return
		}
		before := o.labels
		content, relabelled := o.update(obj, x.seed)
		if relabelled {
			x.catalog.removeLabels(o, before)
			x.catalog.addLabels(o)
			x.rematch(c, o)
		}
		if content {
			x.edited(c, o)
		}
	})
}

// DeleteObject forgets an object that is gone.
func (x *Index) DeleteObject(ref objref.Ref) Changes {
	return x.change(func(c *changing) {
		if o := x.catalog.object(ref); o != nil {
			x.deleteObject(c, o)
		}
	})
}

// DeleteResource forgets all objects of a resource that the space was seen to serve no more.
func (x *Index) DeleteResource(gr schema.GroupResource) Changes {
	return x.change(func(c *changing) {
		if r := x.catalog.resources[gr]; r != nil {
			for _, o := range r.objects {
				x.deleteObject(c, o)
			}
			delete(x.catalog.resources, gr)
		}
	})
}

// SetNamespace sets the labels of a Namespace, which are retained and must not change. Its cost is
// that of the objects in the Namespace, if they changed and a policy has namespace selectors.
func (x *Index) SetNamespace(name string, labels map[string]string) Changes {
	return x.change(func(c *changing) {
		before, known := x.catalog.namespaces[name]
		x.catalog.namespaces[name] = labels
		if ending := x.catalog.ending[name]; ending {
			delete(x.catalog.ending, name) // another Namespace of that name
			x.rematchNamespace(c, name)
		} else if x.finder.selectors > 0 && (!known || !maps.Equal(before, labels)) {
			x.rematchNamespace(c, name)
		}
	})
}

// EndNamespace says that a Namespace is being deleted. So is everything in it: its objects are no
// workload any more, before each of them is deleted, until there is another Namespace of that name.
// Its cost is that of the objects in the Namespace.
func (x *Index) EndNamespace(name string) Changes {
	return x.change(func(c *changing) {
		if _, known := x.catalog.namespaces[name]; !known {
			x.catalog.namespaces[name] = nil // it exists, perhaps as another one than that which ended before
		}
		if !x.catalog.ending[name] {
			x.catalog.ending[name] = true
			x.rematchNamespace(c, name)
		}
	})
}

// DeleteNamespace forgets a Namespace. The objects in it are deleted one by one.
func (x *Index) DeleteNamespace(name string) Changes {
	return x.change(func(c *changing) {
		delete(x.catalog.namespaces, name)
		x.catalog.forgetEnding(name)
		if x.finder.selectors > 0 {
			x.rematchNamespace(c, name)
		}
	})
}

// SetKnown says that all objects of the resource that existed at the start were added.
func (x *Index) SetKnown(r Resource) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.catalog.resource(r).known = true
}

// SetPoliciesKnown says that all policies that existed at the start were added.
func (x *Index) SetPoliciesKnown() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.policiesKnown = true
}

// SetClustersKnown says that all clusters that existed at the start were added, of every ITS.
func (x *Index) SetClustersKnown() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.clustersKnown = true
}

// Known reports whether all objects of the resource, and all Namespaces, that existed at the start
// were added.
func (x *Index) Known(gr schema.GroupResource) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.known(gr)
}

var namespaces = schema.GroupResource{Resource: "namespaces"}

func (x *Index) known(gr schema.GroupResource) bool {
	r, n := x.catalog.resources[gr], x.catalog.resources[namespaces]
	return r != nil && r.known && n != nil && n.known
}

// Count returns how many objects of the resource there are that may be workload.
func (x *Index) Count(gr schema.GroupResource) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if r := x.catalog.resources[gr]; r != nil {
		return len(r.objects)
	}
	return 0
}

// Tests returns how many times an object was tested against a clause so far.
func (x *Index) Tests() uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.tests
}

// policy returns the policy, which is made if it is not there.
func (x *Index) policy(name string) *policy {
	p := x.policies[name]
	if p == nil {
		p = &policy{
			name:     name,
			objects:  map[*object]struct{}{},
			withheld: map[*object]int{},
			frozen:   map[objref.Ref]*controlv1alpha1.DownsyncModulation{},
			clusters: map[string]struct{}{},
		}
		x.policies[name] = p
	}
	return p
}

// clear takes everything from the policy.
func (x *Index) clear(c *changing, p *policy) {
	x.unfreeze(c, p)
	x.finder.remove(p)
	for o := range p.objects {
		x.unmatch(c, o, p)
	}
	clear(p.withheld)
	p.compiled = nil
	x.selectClusters(c, p)
}

// freeze notes that the policy selects an object without a clause.
func (x *Index) freeze(c *changing, p *policy, ref objref.Ref, modulation *controlv1alpha1.DownsyncModulation) {
	p.frozen[ref] = modulation
	policies := x.frozen[ref]
	if policies == nil {
		policies = map[*policy]struct{}{}
		x.frozen[ref] = policies
	}
	policies[p] = struct{}{}
	c.askedFrozen(p, ref, modulation)
}

// unfreeze undoes freeze.
func (x *Index) unfreeze(c *changing, p *policy) {
	for ref, modulation := range p.frozen {
		delete(x.frozen[ref], p)
		if len(x.frozen[ref]) == 0 {
			delete(x.frozen, ref)
		}
		c.askedFrozen(p, ref, modulation)
	}
	clear(p.frozen)
}

func (x *Index) deleteObject(c *changing, o *object) {
	for _, m := range slices.Clone(o.matches) {
		x.unmatch(c, o, m.policy)
	}
	x.release(c, o)
	x.catalog.remove(o)
	x.frozenCollections(c, o.ref())
}

func (x *Index) rematchNamespace(c *changing, name string) {
	for o := range x.catalog.byNamespace[name].all() {
		x.rematch(c, o)
	}
}

// rematch finds the policies that select the object now.
func (x *Index) rematch(c *changing, o *object) {
	x.found = x.found[:0]
	x.release(c, o)
	namespaceLabels := x.catalog.namespaces[o.namespace]
	x.finder.candidates(o, namespaceLabels, func(candidate *entry) {
		if !x.passes(candidate.clause, o) {
			return
		}
		if !candidate.clause.takes(o.resource.GroupResource(), o.namespace) {
			if candidate.policy.withhold(o, candidate.index) {
				c.policy(candidate.policy, ChangedRequests)
			}
			return
		}
		for i := range x.found {
			if x.found[i].policy == candidate.policy {
				x.found[i].modulation = mergeModulation(x.found[i].modulation, candidate.clause.modulation)
				return
			}
		}
		x.found = append(x.found, match{candidate.policy, candidate.clause.modulation})
	})
	for _, before := range slices.Backward(o.matches) { // backward, since unmatch moves what follows
		if p := before.policy; !slices.ContainsFunc(x.found, func(m match) bool { return m.policy == p }) {
			x.unmatch(c, o, p)
		}
	}
	for _, m := range x.found {
		x.match(c, o, m.policy, m.modulation)
	}
	clear(x.found)
}

func (x *Index) passes(of *clause, o *object) bool {
	x.tests++
	if x.catalog.ending[o.namespace] {
		return false
	}
	labels, known := x.catalog.namespaces[o.namespace]
	return of.passes(o, labels, known)
}

// match notes that the policy selects the object in that way.
func (x *Index) match(c *changing, o *object, p *policy, modulation *controlv1alpha1.DownsyncModulation) {
	before := o.modulation(p)
	switch {
	case before == nil:
		o.matches = append(o.matches, match{p, modulation})
		p.objects[o] = struct{}{}
	case EqualModulation(before, modulation):
		return
	default:
		o.matches[o.match(p)].modulation = modulation
	}
	c.policy(p, ChangedWorkload)
	c.asked(p, o, before, modulation)
}

// unmatch notes that the policy does not select the object.
func (x *Index) unmatch(c *changing, o *object, p *policy) {
	i := o.match(p)
	if i < 0 {
		return
	}
	c.asked(p, o, o.matches[i].modulation) // before the policy leaves, so that it is included
	o.matches = slices.Delete(o.matches, i, i+1)
	if len(o.matches) == 0 {
		o.matches = nil
	}
	delete(p.objects, o)
	c.policy(p, ChangedWorkload)
}
