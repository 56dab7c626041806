package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/customtransform"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/dynwatch"
	"github.com/starlinghq/starling/pkg/write"
)

// placement is what a Binding asks for, with the content of its objects. It is immutable once published.
type placement struct {
	name       string
	uid        types.UID
	generation int64
	// deleting: everything goes.
	deleting bool
	// policy tells that the Binding is that of a policy.
	policy bool
	orders
	destinations map[string]struct{}
	desired      *plan.Desired
	// problems are what is wrong with objects, whatever the destination. Sorted.
	problems []string
	// objects is what desired was made of, by identity: to find out whether anything changed.
	objects   map[objref.Ref]plan.Object
	resources map[schema.GroupResource]dynwatch.Resource
	// source is where the content comes from; see sourceOf.
	source string
	// kinds are the resources of all objects, also of those that are not watched.
	kinds map[schema.GroupResource]struct{}
	// provisional: it is not known what packages hold, nor all that was delivered of them; nothing is to be written.
	provisional bool
	// templates are those of the objects that have some.
	templates map[objref.Ref]*customize.Template
	// decided is when this was published.
	decided time.Time
}

// entry is an object that a Binding lists.
type entry struct {
	ref        objref.Ref
	version    string
	namespaced bool
	createOnly bool
	// asks: the object's status is to be returned.
	asks bool
}

// syncBinding brings the placement of one Binding up to date and puts the destinations that it concerns into their queues.
func (c *Controller) syncBinding(ctx context.Context, name string) (result, error) {
	c.mu.Lock()
	since := c.changed[name]
	delete(c.changed, name)
	before := c.placements[name]
	c.mu.Unlock()

	binding, err := c.binding(name)
	if err != nil {
		return result{}, err
	}
	switch {
	case binding == nil || binding.DeletionTimestamp != nil && !slices.Contains(binding.Finalizers, controlv1alpha1.BindingFinalizer):
		// Gone, or going without us. Works that are left have no Binding: nobody said that they should go.
		c.publish(name, nil)
		c.deliverNeighbours(before, &placement{name: name})
		return result{}, nil
	case binding.DeletionTimestamp != nil:
		return c.remove(ctx, binding)
	case !slices.Contains(binding.Finalizers, controlv1alpha1.BindingFinalizer):
		// Before anything is delivered, or a Binding could go and leave works behind.
		if err := c.setFinalizer(ctx, binding, true); err != nil {
			return result{}, err
		}
	}

	next, again, recheck := c.gather(ctx, binding)
	if before.sameContent(next) {
		// Only numbers moved, or what is wrong with objects: the mailboxes have nothing to do with it.
		next.desired, next.objects = before.desired, before.objects
		next.decided = before.decided
	} else if !since.IsZero() {
		packagingSeconds.Observe(next.decided.Sub(since).Seconds())
	}
	c.publish(name, next)
	if next.desired != before.content() {
		c.deliverEverywhere(next)
		c.deliverNeighbours(before, next)
	}
	if len(next.destinations) == 0 || next.desired == before.content() {
		c.status.Add(name)
	}
	if again {
		return result{}, errors.New("some objects cannot be read")
	}
	if recheck {
		return result{after: grace}, nil
	}
	return result{}, nil
}

// content returns the Desired of a placement that may be nil.
func (p *placement) content() *plan.Desired {
	if p == nil {
		return nil
	}
	return p.desired
}

// sameContent tells whether the mailboxes should hold the same for both.
func (p *placement) sameContent(other *placement) bool {
	return p != nil && p.uid == other.uid && p.desired != nil && p.provisional == other.provisional && p.hold.Equal(other.hold) && maps.Equal(p.destinations, other.destinations) &&
		maps.EqualFunc(p.objects, other.objects, func(a, b plan.Object) bool {
			return a.Known == b.Known && a.Hash == b.Hash && a.Options == b.Options
		})
}

func (c *Controller) binding(name string) (*controlv1alpha1.Binding, error) {
	obj, exists, err := c.config.Bindings.GetStore().GetByKey(name)
	if err != nil || !exists {
		return nil, err
	}
	binding, ok := obj.(*controlv1alpha1.Binding)
	if !ok {
		return nil, fmt.Errorf("the informer holds a %T", obj)
	}
	return binding, nil
}

// gather makes the placement of a Binding, reading the objects that changed. It says whether some could not be read, and
// whether some are missing for so short a time that it may be nothing.
func (c *Controller) gather(ctx context.Context, binding *controlv1alpha1.Binding) (p *placement, again, recheck bool) {
	entries := entriesOf(binding)
	p = &placement{
		name: binding.Name, uid: binding.UID, generation: binding.Generation, policy: ofPolicy(binding), orders: ordersOf(binding),
		destinations: make(map[string]struct{}, len(binding.Spec.Destinations)),
		objects:      make(map[objref.Ref]plan.Object, len(entries)),
		resources:    map[schema.GroupResource]dynwatch.Resource{},
		source:       sourceOf(binding),
		kinds:        map[schema.GroupResource]struct{}{},
		templates:    map[objref.Ref]*customize.Template{},
	}
	for _, d := range binding.Spec.Destinations {
		p.destinations[d.ClusterID] = struct{}{}
	}
	for _, e := range entries {
		gr := e.ref.GroupResource()
		p.resources[gr] = dynwatch.Resource{GroupVersionResource: gr.WithVersion(e.version), Namespaced: e.namespaced}
		p.kinds[gr] = struct{}{}
	}
	versions := c.watchResources(p)
	// Listed before it is read: a change during the read must find the Binding.
	c.list(binding.Name, entries)

	by, problems := c.instructions(p)
	p.problems = problems
	findings := c.findAll(ctx, entries, c.asked(entries), versions, by)
	more, found, again := c.unpack(ctx, binding, p, entries)
	if len(more) > 0 {
		entries, findings = slices.Concat(entries, more), slices.Concat(findings, found)
		c.list(binding.Name, more)
	}
	objects := make([]plan.Object, len(entries))
	for i, e := range entries {
		f := &findings[i]
		object := plan.Object{Object: f.object, Known: f.known}
		object.Ref = e.ref
		if f.known {
			template, err := c.templates.compile(f.object)
			if err != nil {
				object.Known, f.err = false, err
			} else if template != nil {
				p.templates[e.ref] = template
			}
		}
		objects[i] = object
		if f.err != nil {
			p.problems = append(p.problems, e.ref.String()+": "+clip(f.err.Error()))
		}
		again = again || f.again
		recheck = recheck || f.recheck
	}
	settleOptions(objects, entries, findings, &p.orders)
	for i := range objects {
		p.objects[objects[i].Ref] = objects[i]
	}
	slices.Sort(p.problems)
	p.desired = plan.NewDesired(objects, c.config.Limits)
	p.decided = c.clock.Now()
	return p, again, recheck
}

// findAll finds the content of all entries. Those that are to be read are read side by side.
func (c *Controller) findAll(
	ctx context.Context, entries []entry, asked []bool, versions map[schema.GroupResource]string, by map[schema.GroupResource]*customtransform.Instructions,
) []finding {
	findings := make([]finding, len(entries))
	now := c.clock.Now()
	const atOnce = 16
	slots := make(chan struct{}, atOnce)
	var reading sync.WaitGroup
	for i, e := range entries {
		how := making{version: versions[e.ref.GroupResource()], by: by[e.ref.GroupResource()], sourced: asked[i]}
		if len(how.by.Unknown) > 0 {
			continue // not known what to make of it
		}
		if f, ok := c.objects.current(e.ref, how); ok {
			findings[i] = f
			continue
		}
		slots <- struct{}{}
		reading.Go(func() {
			findings[i] = c.objects.find(ctx, e.ref, how, now)
			<-slots
		})
	}
	reading.Wait()
	return findings
}

// neverDeleted tells whether an object must stay in a cluster when it is no longer delivered: namespaces that a cluster cannot
// live without, whoever selected them.
func neverDeleted(ref objref.Ref) bool {
	return ref.Group == "" && ref.Resource == "namespaces" &&
		(ref.Name == metav1.NamespaceDefault || strings.HasPrefix(ref.Name, "kube-") || strings.HasPrefix(ref.Name, "open-cluster-management"))
}

// entriesOf returns the objects that a Binding lists, each once.
func entriesOf(binding *controlv1alpha1.Binding) []entry {
	workload := &binding.Spec.Workload
	entries := make([]entry, 0, len(workload.ClusterScope)+len(workload.NamespaceScope))
	seen := make(map[objref.Ref]struct{}, cap(entries))
	add := func(e entry) {
		if _, twice := seen[e.ref]; !twice {
			seen[e.ref] = struct{}{}
			entries = append(entries, e)
		}
	}
	for i := range workload.ClusterScope {
		o := &workload.ClusterScope[i]
		add(entry{
			ref: objref.Ref{Group: o.Group, Resource: o.Resource, Name: o.Name}, version: o.Version, createOnly: o.CreateOnly,
			asks: asks(&o.DownsyncModulation),
		})
	}
	for i := range workload.NamespaceScope {
		o := &workload.NamespaceScope[i]
		add(entry{
			ref: objref.Ref{Group: o.Group, Resource: o.Resource, Namespace: o.Namespace, Name: o.Name}, version: o.Version,
			namespaced: true, createOnly: o.CreateOnly, asks: asks(&o.DownsyncModulation),
		})
	}
	return entries
}

func asks(m *controlv1alpha1.DownsyncModulation) bool {
	return m.WantSingletonReportedState || m.WantMultiWECReportedState
}

// list notes that the Binding lists these objects, and whether it asks for their status. What others deliver of an object that
// it is the first to ask for changes too: all deliver the same.
func (c *Controller) list(name string, entries []entry) {
	others := map[string]struct{}{}
	defer func() {
		for other := range others {
			c.enqueueBinding(other)
		}
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listings[name] == nil {
		c.listings[name] = make(map[objref.Ref]struct{}, len(entries))
	}
	for _, e := range entries {
		if c.listed[e.ref] == nil {
			c.listed[e.ref] = map[string]bool{}
		}
		before := anyAsks(c.listed[e.ref])
		c.listed[e.ref][name] = e.asks
		c.noteOthers(others, name, e.ref, before)
		c.listings[name][e.ref] = struct{}{}
		if len(c.listed[e.ref]) > 1 {
			c.shared[e.ref] = struct{}{}
		}
	}
}

// asked tells which of the objects somebody asks the status of, in the terms of the WDS. Some kinds have a status that is never
// returned.
func (c *Controller) asked(entries []entry) []bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := make([]bool, len(entries))
	for i, e := range entries {
		asked[i] = anyAsks(c.listed[e.ref]) && corestatus.Returnable(e.ref.GroupResource())
	}
	return asked
}

func anyAsks(listed map[string]bool) bool {
	for _, asks := range listed {
		if asks {
			return true
		}
	}
	return false
}

// noteOthers collects the other Bindings that list an object, if somebody asked for its status before and nobody does now, or the
// other way round. The lock is held.
func (c *Controller) noteOthers(others map[string]struct{}, name string, ref objref.Ref, before bool) {
	if before == anyAsks(c.listed[ref]) {
		return
	}
	for other := range c.listed[ref] {
		if other != name {
			others[other] = struct{}{}
		}
	}
}

// publish makes p, which may be nil, the placement of the Binding, and forgets what only its predecessor needed.
func (c *Controller) publish(name string, p *placement) {
	c.mu.Lock()
	before := c.placements[name]
	bindingsCount.Add(step(before != nil, p != nil))
	if p == nil {
		delete(c.placements, name)
		delete(c.outcomes, name)
		delete(c.published, name)
		delete(c.unsettled, name)
		delete(c.missing, name)
		p = &placement{}
	} else {
		c.placements[name] = p
	}
	if before == nil {
		before = &placement{}
	}
	if c.needs.drop(name, before.resources, p.resources) {
		c.wanted.Set(maps.Clone(c.needs.chosen))
	}
	whats, wheres := len(p.objects), len(p.destinations)
	if whats != len(before.objects) || wheres != len(before.destinations) {
		bindingWhats.Observe(float64(whats))
		bindingWheres.Observe(float64(wheres))
		bindingAreas.Observe(float64(whats * wheres))
	}
	unlisted := map[objref.Ref]bool{}
	others := map[string]struct{}{}
	for ref := range c.listings[name] {
		if _, still := p.objects[ref]; still {
			continue
		}
		delete(c.listings[name], ref)
		asked := anyAsks(c.listed[ref])
		delete(c.listed[ref], name)
		c.noteOthers(others, name, ref, asked)
		switch len(c.listed[ref]) {
		case 0:
			delete(c.listed, ref)
			unlisted[ref] = true
		case 1:
			delete(c.shared, ref)
		}
	}
	if len(c.listings[name]) == 0 {
		delete(c.listings, name)
	}
	maps.DeleteFunc(c.outcomes[name], func(mailbox string, o outcome) bool {
		_, still := p.destinations[mailbox]
		return !still && (p.deleting || p.uid != before.uid || !o.lingers())
	})
	c.mu.Unlock()
	for other := range others {
		c.enqueueBinding(other)
	}
	c.objects.forget(unlisted)
	if p.source == "" {
		c.packages.use(name, nil)
	}
	c.noteUse(name, p)
}

// remove takes the works of a Binding that is being deleted out of all mailboxes, and lets the Binding go when they are gone.
func (c *Controller) remove(ctx context.Context, binding *controlv1alpha1.Binding) (result, error) {
	before := c.placementOf(binding.Name)
	p := before
	if before == nil || !before.deleting || before.uid != binding.UID || before.generation != binding.Generation ||
		before.texts != textsOf(binding) {
		p = &placement{
			name: binding.Name, uid: binding.UID, generation: binding.Generation, deleting: true, source: sourceOf(binding), orders: ordersOf(binding),
			decided: c.clock.Now(),
		}
		c.publish(binding.Name, p)
		c.deliverEverywhere(p)
		c.deliverNeighbours(before, p)
	}
	left, recheck := c.left(p)
	if len(c.unreleased(p, left)) > 0 {
		c.status.Add(binding.Name)
		return result{after: recheck}, nil
	}
	tellReleased(ctx, p, left)
	return result{}, c.setFinalizer(ctx, binding, false)
}

// remnant is where works of a Binding are that is being deleted: a mailbox, or a space that has not told what it holds.
type remnant struct {
	name  string
	space bool
}

func (r remnant) String() string {
	if r.space {
		return "everything in space " + r.name
	}
	return r.name
}

// left returns where works of a Binding are that is being deleted, sorted, and after which time that may change by itself. The
// mailbox of a cluster that its space does not know any more, or does not let in, counts as empty once its works are deleted: nobody
// is there to take them out. One in which a work was just created, or may have been, does not.
func (c *Controller) left(p *placement) (left []remnant, recheck time.Duration) {
	now := c.clock.Now()
	for _, s := range c.spaces {
		if !s.store.hasSynced() {
			left = append(left, remnant{name: s.name, space: true})
			continue
		}
		for _, mailbox := range s.store.mailboxes(p.uid) {
			d, _ := s.store.destination(mailbox)
			deleted := !slices.ContainsFunc(s.store.of(p.uid, mailbox), func(w *plan.Work) bool { return !w.Deleting })
			if d.Accepted || !deleted {
				left = append(left, remnant{name: mailbox})
			}
		}
		created, wait := s.creations.mailboxes(p.uid, now)
		for _, mailbox := range created {
			left = append(left, remnant{name: mailbox})
		}
		if recheck == 0 || wait > 0 && wait < recheck {
			recheck = wait
		}
	}
	slices.SortFunc(left, func(a, b remnant) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(left), recheck
}

// setFinalizer adds or removes our finalizer. The patch carries the version that was decided on: the list is written whole.
func (c *Controller) setFinalizer(ctx context.Context, binding *controlv1alpha1.Binding, present bool) error {
	finalizers := slices.DeleteFunc(slices.Clone(binding.Finalizers), func(f string) bool { return f == controlv1alpha1.BindingFinalizer })
	reason := "finalized"
	if present {
		finalizers = append(finalizers, controlv1alpha1.BindingFinalizer)
		reason = "finalizer"
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": binding.UID, "resourceVersion": binding.ResourceVersion, "finalizers": finalizers,
	}})
	if err != nil {
		return err
	}
	_, err = c.config.WDS.Patch(ctx, target(binding.Name), types.MergePatchType, patch, reason)
	if err != nil {
		return conflictIsStale(err)
	}
	klog.FromContext(ctx).V(2).Info("Set the finalizer", "binding", binding.Name, "present", present)
	return nil
}

// ofPolicy tells whether the Binding is that of a policy.
func ofPolicy(binding *controlv1alpha1.Binding) bool {
	owner := metav1.GetControllerOfNoCopy(binding)
	return owner != nil && owner.Kind == "BindingPolicy"
}

func target(binding string) write.Target {
	return write.Target{Resource: controlv1alpha1.Bindings, Name: binding}
}
