package match

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// Index relates policies, objects, Namespaces and clusters. It is safe for concurrent use: one mutex guards it, so each call
// waits for those before it. Every method that tells it of a change returns the policies whose result changed by it, and
// calls the Observer once the change is done.
type Index struct {
	observer    Observer
	collections CollectionObserver
	seed        maphash.Seed

	mu      sync.Mutex
	catalog catalog
	// finder leads from the properties of an object to the clauses that it could pass.
	finder   finder
	policies map[string]*policy
	// held leads from objects to the policies that hold them without a clause.
	held map[objref.Ref]map[*policy]struct{}

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
	// compiled is nil while the policy is held.
	compiled *Policy
	entries  []*entry
	objects  map[*object]struct{}
	held     map[objref.Ref]*controlv1alpha1.DownsyncModulation
	clusters map[string]struct{}
	// kept are clusters that its Bindings name and that nothing is known of yet; keptTold tells that it was said which.
	kept     []string
	keptTold bool
	// sorted are the clusters in order, nil if they changed since. It is shared and never changed.
	sorted   []string
	revision uint64
}

// NewIndex returns an empty Index.
func NewIndex() *Index {
	return &Index{
		observer:    nobody{},
		collections: nobody{},
		seed:        maphash.MakeSeed(),
		catalog:     newCatalog(),
		finder:      newFinder(),
		policies:    map[string]*policy{},
		held:        map[objref.Ref]map[*policy]struct{}{},
		clusters:    map[string]map[string]string{},
		mentions:    map[string]map[*policy]struct{}{},
	}
}

type nobody struct{}

func (nobody) OnRequests([]objref.Ref)      {}
func (nobody) OnKnown(schema.GroupResource) {}
func (nobody) OnCollections([]Pair)         {}
func (nobody) OnClusterLabels(string)       {}

// Observe sets the Observer. Call it before the Index is told of anything.
func (x *Index) Observe(observer Observer) { x.observer = observer }

// ObserveCollections sets the CollectionObserver. Call it before the Index is told of anything.
func (x *Index) ObserveCollections(observer CollectionObserver) { x.collections = observer }

// IncludeGenerated makes workload of objects that controllers make in each namespace; see Generated. Call it before the Index is
// told of anything.
func (x *Index) IncludeGenerated() { x.generated = true }

// SetPolicy takes over a policy that was added or changed. Its cost is that of the objects that its clauses lead to, plus
// those it selected before; if only the cluster selectors changed, that of the clusters.
func (x *Index) SetPolicy(name string, compiled *Policy) Changes {
	return x.change(func(c *changing) {
		p := x.policy(name)
		x.release(c, p)
		before := p.compiled
		p.compiled = compiled
		x.selectClusters(c, p)
		if before != nil && sameClauses(before, compiled) {
			return
		}
		x.finder.remove(p)
		x.finder.add(p)
		selected := map[*object]*controlv1alpha1.DownsyncModulation{}
		for i := range compiled.clauses {
			clause := &compiled.clauses[i]
			for o := range x.catalog.reach(clause) {
				if x.passes(clause, o) {
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

// HoldPolicy makes the policy select just what its Binding says, or nothing if that is nil: for a policy that cannot be
// understood and whose Binding stays as it is. Its objects count in Requests; a Snapshot of it there is not.
func (x *Index) HoldPolicy(name string, binding *controlv1alpha1.BindingSpec) Changes {
	return x.change(func(c *changing) {
		p := x.policy(name)
		x.clear(c, p)
		if binding == nil {
			return
		}
		for _, destination := range binding.Destinations {
			x.selectCluster(c, p, destination.ClusterID, true)
		}
		for i := range binding.Workload.ClusterScope {
			entry := &binding.Workload.ClusterScope[i]
			x.hold(c, p, objref.Ref{Group: entry.Group, Resource: entry.Resource, Name: entry.Name}, &entry.DownsyncModulation)
		}
		for i := range binding.Workload.NamespaceScope {
			entry := &binding.Workload.NamespaceScope[i]
			x.hold(c, p, objref.Ref{Group: entry.Group, Resource: entry.Resource, Namespace: entry.Namespace, Name: entry.Name},
				&entry.DownsyncModulation)
		}
	})
}

// KeepClusters says which clusters the Binding of a policy names that no ITS has told of, as long as some have not told anything:
// they count as destinations, since they were some. It takes the list over.
func (x *Index) KeepClusters(name string, clusters []string) Changes {
	return x.change(func(c *changing) {
		p := x.policy(name)
		slices.Sort(clusters)
		told := p.keptTold || x.clustersKnown
		p.keptTold = true
		switch {
		case !slices.Equal(p.kept, clusters):
			p.kept = clusters
			c.destinations(p)
		case !told:
			c.requestsOf(p) // their Known may have changed
			c.collectionsOf(p)
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

// SetObject takes over an object that was added or changed. Its labels are retained and must not change. Its cost is that of
// its labels and of the clauses they lead to.
func (x *Index) SetObject(in Resource, obj metav1.Object) Changes {
	gr := in.GroupResource()
	if NeverObject(gr, obj) || !x.generated && Generated(gr, obj) {
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
			o.take(obj, x.seed)
			x.catalog.insert(o)
			x.rematch(c, o)
			x.heldCollections(c, o.ref())
			return
		}
		before := o.labels
		content, relabelled := o.take(obj, x.seed)
		if relabelled {
			x.catalog.relabel(o, before)
			x.rematch(c, o)
		}
		if content {
			o.edited = true
			c.version(o)
			x.heldCollections(c, o.ref())
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

// SetNamespace takes over the labels of a Namespace, which are retained and must not change. Its cost is that of the objects
// in the Namespace, if they changed and a policy has namespace selectors.
func (x *Index) SetNamespace(name string, labels map[string]string) Changes {
	return x.change(func(c *changing) {
		before, known := x.catalog.namespaces[name]
		x.catalog.namespaces[name] = labels
		if !known || !maps.Equal(before, labels) {
			x.rematchNamespace(c, name)
		}
	})
}

// DeleteNamespace forgets a Namespace. Objects in it are told of by themselves.
func (x *Index) DeleteNamespace(name string) Changes {
	return x.change(func(c *changing) {
		delete(x.catalog.namespaces, name)
		x.rematchNamespace(c, name)
	})
}

// SetKnown says that all objects of the resource that existed at the start were told of.
func (x *Index) SetKnown(r Resource) {
	x.mu.Lock()
	x.catalog.resource(r).known = true
	x.mu.Unlock()
	if r.GroupResource() == namespaces {
		x.nowKnown(schema.GroupResource{})
		return
	}
	x.nowKnown(r.GroupResource())
}

func (x *Index) nowKnown(gr schema.GroupResource) {
	x.observer.OnKnown(gr)
	x.collections.OnKnown(gr)
}

// SetPoliciesKnown says that all policies that existed at the start were told of.
func (x *Index) SetPoliciesKnown() {
	x.mu.Lock()
	x.policiesKnown = true
	x.mu.Unlock()
	x.nowKnown(schema.GroupResource{})
}

// SetClustersKnown says that all clusters that existed at the start were told of, by every ITS.
func (x *Index) SetClustersKnown() {
	x.mu.Lock()
	x.clustersKnown = true
	x.mu.Unlock()
	x.nowKnown(schema.GroupResource{})
}

// Known tells whether all objects of the resource, and all Namespaces, that existed at the start were told of.
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
			held:     map[objref.Ref]*controlv1alpha1.DownsyncModulation{},
			clusters: map[string]struct{}{},
		}
		x.policies[name] = p
	}
	return p
}

// clear takes everything from the policy.
func (x *Index) clear(c *changing, p *policy) {
	x.release(c, p)
	x.finder.remove(p)
	for o := range p.objects {
		x.unmatch(c, o, p)
	}
	p.compiled = nil
	x.selectClusters(c, p)
}

// hold notes that the policy selects an object without a clause.
func (x *Index) hold(c *changing, p *policy, ref objref.Ref, modulation *controlv1alpha1.DownsyncModulation) {
	p.held[ref] = modulation
	policies := x.held[ref]
	if policies == nil {
		policies = map[*policy]struct{}{}
		x.held[ref] = policies
	}
	policies[p] = struct{}{}
	if wantsStatus(modulation) {
		c.requests(ref)
	}
	if collects(modulation) {
		c.collection(p, ref)
	}
}

// release takes back all that hold noted.
func (x *Index) release(c *changing, p *policy) {
	if len(p.held) == 0 {
		return
	}
	for ref, modulation := range p.held {
		delete(x.held[ref], p)
		if len(x.held[ref]) == 0 {
			delete(x.held, ref)
		}
		if wantsStatus(modulation) {
			c.requests(ref)
		}
		if collects(modulation) {
			c.collection(p, ref)
		}
	}
	clear(p.held)
}

func (x *Index) deleteObject(c *changing, o *object) {
	for _, m := range slices.Clone(o.matches) {
		x.unmatch(c, o, m.policy)
	}
	x.catalog.remove(o)
	x.heldCollections(c, o.ref())
}

func (x *Index) rematchNamespace(c *changing, name string) {
	if !x.finder.usesNamespaces() {
		return
	}
	for o := range x.catalog.byNamespace[name].all() {
		x.rematch(c, o)
	}
}

// rematch finds the policies that select the object now.
func (x *Index) rematch(c *changing, o *object) {
	x.found = x.found[:0]
	namespaceLabels := x.catalog.namespaces[o.namespace]
	x.finder.candidates(o, namespaceLabels, func(candidate *entry) {
		if !x.passes(candidate.clause, o) {
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
	for _, before := range slices.Backward(o.matches) { // backward, since unmatch puts the last in the place of what leaves
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
	labels, known := x.catalog.namespaces[o.namespace]
	return of.passes(o, labels, known)
}

// match notes that the policy selects the object in that way.
func (x *Index) match(c *changing, o *object, p *policy, modulation *controlv1alpha1.DownsyncModulation) {
	i := slices.IndexFunc(o.matches, func(m match) bool { return m.policy == p })
	if i < 0 {
		o.matches = append(o.matches, match{p, modulation})
		p.objects[o] = struct{}{}
		c.policy(p, ChangedWorkload)
		if wantsStatus(modulation) {
			c.object(o)
		}
		if collects(modulation) {
			c.collection(p, o.ref())
		}
		return
	}
	before := o.matches[i].modulation
	if equalModulation(before, modulation) {
		return
	}
	o.matches[i].modulation = modulation
	c.policy(p, ChangedWorkload)
	if wantsStatus(before) || wantsStatus(modulation) {
		c.object(o)
	}
	if collects(before) || collects(modulation) {
		c.collection(p, o.ref())
	}
}

// unmatch notes that the policy does not select the object.
func (x *Index) unmatch(c *changing, o *object, p *policy) {
	i := slices.IndexFunc(o.matches, func(m match) bool { return m.policy == p })
	if i < 0 {
		return
	}
	if wantsStatus(o.matches[i].modulation) {
		c.object(o) // before the policy leaves, so that it is told as well
	}
	if collects(o.matches[i].modulation) {
		c.collection(p, o.ref())
	}
	last := len(o.matches) - 1
	o.matches[i] = o.matches[last]
	o.matches[last] = match{}
	o.matches = o.matches[:last]
	if last == 0 {
		o.matches = nil
	}
	delete(p.objects, o)
	c.policy(p, ChangedWorkload)
}
