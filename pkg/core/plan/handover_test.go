package plan_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/test/agentmodel"
)

// This is a model of all that takes part in a hand-over: policies and packages of several WDSes,
// whose Bindings are written late, a transport for each WDS that sees Bindings and works late,
// whose writes take their time and which crashes between them, and the agent of one cluster, which
// applies and reports late, and fails. The rule of the list level and that of the mailbox are
// attacked together.

// fleet is a cluster and the WDSes that deliver to it.
type fleet struct {
	t      *testing.T
	random *rand.Rand
	limits packing.Limits
	refs   []objref.Ref
	now    int64
	hubs   []*hub

	cluster *agentmodel.Cluster
	uids    int
	// kept is always to be orphaned; zero if nothing is.
	kept objref.Ref
	// planned is when the delivery was planned that took an object out of a work.
	planned map[types.UID]map[objref.Ref]int64
}

// hub is a WDS with its policies, their Bindings, and its transport.
type hub struct {
	*fleet
	wds      plan.WDS
	contents map[objref.Ref]string
	orphan   map[objref.Ref]bool
	bindings []*binding
	events   []func() // what the transport has not heard of Bindings
	// guards are by source.
	guards map[string]map[objref.Ref]*guard
}

// guard is for how long owners of one source want an object, and since when one of them has it.
type guard struct{ since, secured int64 }

// written is a Binding as it is in the WDS.
type written struct {
	uid        types.UID // "" if there is none
	generation int
	lists      map[objref.Ref]bool
	deleting   bool
	hold       plan.Hold
}

// binding is that of a policy, or of a package.
type binding struct {
	*hub
	name, source string
	// selects is what the policy selects, or the package has; contents are those of a package.
	selects  map[objref.Ref]bool
	contents map[objref.Ref]string
	// gone: the policy is deleted. invalid: it does not write its Binding. keeps: it orphans all.
	gone, invalid, keeps bool
	written              written
	sync                 func() // a write of the Binding that is under way

	seen   written        // by the informer of the transport
	placed *placedBinding // what the transport gathered
	box    mailbox
	view   map[string]*plan.Work // what the transport knows of the works
	expect map[string]*plan.Work // what it wrote and does not know to be so
	doubt  bool                  // a write was not answered
	under  []func()              // the writes that are under way
	begun  int64                 // when the delivery that is under way was planned, zero: none is
}

type placedBinding struct {
	written
	contents map[objref.Ref]string
	orphan   map[objref.Ref]bool
	unread   map[objref.Ref]bool
}

func (f *fleet) chance(n int) bool { return f.random.IntN(n) == 0 }

func (f *fleet) ref() objref.Ref { return f.refs[f.random.IntN(len(f.refs))] }

// write changes the Binding in the WDS; the transport hears of it later, in the order of all
// writes.
func (b *binding) write(change func(*written)) {
	next := b.written
	next.lists = maps.Clone(next.lists)
	change(&next)
	next.generation++
	b.written = next
	b.events = append(b.events, func() { b.seen = next })
}

// able reports whether the policy can write its Binding.
func (b *binding) able() bool { return !b.gone && !b.invalid && !b.written.deleting }

// stays reports whether an entry that the policy does not select stays, since another one is to
// list it first. It is the rule of the list level: what a policy's Binding lists while a write to
// it is under way may be over.
func (b *binding) stays(ref objref.Ref) bool {
	return !plan.MayRelease(b.bindings,
		func(o **binding) bool { return *o != b && (*o).source == "" && (*o).able() && (*o).selects[ref] },
		func(o **binding) bool { return (*o).written.lists[ref] && (*o).sync == nil })
}

// decide is a sync of the policy: it decides now, and writes later.
func (b *binding) decide() {
	switch {
	case b.sync != nil:
		write := b.sync
		b.sync = nil
		write()
	case b.written.deleting:
		if p := b.placed; p != nil && p.deleting && p.uid == b.written.uid && len(b.box.works) == 0 && b.begun == 0 { // it has no finalizer then
			uid := b.written.uid
			b.events = append(b.events, func() { b.seen = written{} })
			b.written = written{}
			delete(b.planned, uid)
		}
	case b.gone && b.source == "" && slices.ContainsFunc(b.refs, func(ref objref.Ref) bool { return b.written.lists[ref] && b.stays(ref) }):
	case b.gone && b.written.uid != "":
		b.sync = func() { b.write(func(w *written) { w.deleting = true }) }
	case b.able():
		lists := map[objref.Ref]bool{}
		for _, ref := range b.refs {
			if b.selects[ref] || b.source == "" && b.written.lists[ref] && b.stays(ref) {
				lists[ref] = true
			}
		}
		if maps.Equal(lists, b.written.lists) && b.written.uid != "" {
			return
		}
		b.sync = func() {
			b.write(func(w *written) {
				if w.lists = lists; w.uid == "" {
					b.uids++
					w.uid = types.UID(fmt.Sprint("binding", b.uids))
				}
			})
		}
	}
}

// gather makes the placement of what the informer shows.
func (b *binding) gather() {
	if b.seen.uid == "" {
		b.placed = nil
		return
	}
	p := &placedBinding{written: b.seen, contents: b.hub.contents, orphan: map[objref.Ref]bool{}, unread: map[objref.Ref]bool{}}
	if b.source != "" {
		p.contents = b.contents
	}
	for _, ref := range b.refs {
		p.orphan[ref] = b.asksToOrphan(ref)
	}
	p.contents = maps.Clone(p.contents)
	if b.chance(4) {
		p.unread[b.ref()] = true
	}
	b.placed = p
}

// asksToOrphan reports whether the policy, or the object, asks that the object stays there.
func (b *binding) asksToOrphan(ref objref.Ref) bool {
	return b.source == "" && (b.keeps || b.hub.orphan[ref])
}

// changed reports whether the Binding has changed and was not gathered since: its former content,
// and what held that, say nothing.
func (b *binding) changed() bool {
	return b.placed == nil || b.placed.uid != b.seen.uid || b.placed.generation != b.seen.generation
}

// lists reports what the transport knows of whether the Binding lists an object.
func (b *binding) lists(ref objref.Ref) bool {
	if b.changed() && b.seen.lists[ref] && !b.seen.deleting {
		return true
	}
	return b.placed != nil && b.placed.lists[ref] && !b.placed.deleting
}

// unseen reports whether some write does not show in what the transport knows of the works.
func (b *binding) unseen() bool {
	maps.DeleteFunc(b.expect, func(name string, want *plan.Work) bool {
		got := b.view[name]
		if got == nil {
			return want == nil || want.Generation > 1 || b.box.works[name] == nil // gone; but a new work may not have been seen yet
		}
		return want != nil && (got.UID != want.UID || got.Generation >= want.Generation)
	})
	return len(b.expect) > 0
}

func (b *binding) owners() plan.Owners {
	owners := plan.Owners{}
	all := func(objref.Ref) bool { return true }
	for _, h := range b.hubs {
		for _, other := range h.bindings {
			switch {
			case other == b: // what it was gathered from may be over
				for _, ref := range b.refs {
					if !b.seen.deleting && b.seen.generation != b.placed.generation && b.seen.lists[ref] {
						owners.AddListed(&plan.Peer{Binding: b.name}, ref)
					}
				}
			case h != b.hub:
				for _, work := range other.box.works {
					foreign := *work
					foreign.Foreign = h.wds
					owners.Add(&plan.Peer{WDS: h.wds, Binding: other.name, Works: []*plan.Work{&foreign}}, all)
				}
			default:
				peer := &plan.Peer{
					Binding: other.name, Works: slices.Collect(maps.Values(other.view)), Lists: other.lists,
					Orphans: func(ref objref.Ref) bool { return other.placed != nil && other.placed.orphan[ref] },
					Writing: other.begun > 0 || other.doubt || other.unseen(),
				}
				if other.source != b.source {
					if peer.Source = other.source; other.source == "" {
						peer.Source = "objects"
					}
				}
				owners.Add(peer, all)
				for _, ref := range b.refs {
					if other.lists(ref) && (other.changed() || !other.placed.hold.Holds(ref)) {
						owners.AddListed(peer, ref)
					}
				}
			}
		}
	}
	return owners
}

// deliver plans, or continues a delivery that is under way.
func (b *binding) deliver() {
	if b.begun > 0 {
		if len(b.under) == 0 {
			b.begun = 0
			return
		}
		next := b.under[0]
		b.under = b.under[1:]
		next()
		return
	}
	if b.placed == nil || b.unseen() || b.doubt {
		return
	}
	placed := b.placed
	current := &plan.Current{
		Mailbox: "cluster1", Prefix: string(b.placed.uid), Works: slices.Collect(maps.Values(b.view)), Hold: b.placed.hold, Owners: b.owners(),
		Orphans: func(ref objref.Ref) (orphan, known bool) { return placed.orphan[ref], true },
	}
	for _, other := range b.hub.bindings {
		if other != b && other.source == b.source {
			current.Siblings = slices.AppendSeq(current.Siblings, maps.Values(other.view))
		}
	}
	var p plan.Plan
	if b.placed.deleting {
		p = plan.Build(&plan.Desired{}, current)
	} else {
		p = plan.Build(plan.NewDesired(b.desired(), b.limits), current)
	}
	b.begun = b.now
	for i := range p.Actions {
		b.under = append(b.under, func() { b.do(&p.Actions[i]) })
	}
}

func (b *binding) desired() []plan.Object {
	var objects []plan.Object
	for ref := range b.placed.lists {
		o := object(ref, b.placed.contents[ref])
		o.Orphan = slices.ContainsFunc(b.hub.bindings, func(other *binding) bool {
			p := other.placed
			return other.source == b.source && p != nil && p.lists[ref] && !p.deleting && p.orphan[ref]
		})
		if b.placed.unread[ref] {
			o = plan.Object{Object: transform.Object{Ref: ref}}
		}
		objects = append(objects, o)
	}
	return objects
}

// do carries out a write, which fails if it was planned on what is no more.
func (b *binding) do(a *plan.Action) {
	before := b.box.works[a.Name]
	if a.Verb == plan.Create && before != nil || a.Verb != plan.Create && (before == nil || before.UID != a.UID ||
		a.ResourceVersion != "" && a.ResourceVersion != before.ResourceVersion ||
		a.Verb == plan.Patch && (before.Generation != a.Generation || before.Recorded != a.Recorded)) {
		return
	}
	b.box.do(b.t, a)
	after := b.box.works[a.Name]
	if a.Verb == plan.Create {
		b.uids++
		after.Created, after.UID = b.now/50, types.UID(fmt.Sprint("work", b.uids)) // some are of the same second
		after.Binding = b.name
	}
	if before != nil {
		for _, item := range before.Items {
			if after == nil || !slices.ContainsFunc(after.Items, func(o plan.Item) bool { return o.Ref == item.Ref && !o.Withdrawn }) {
				if b.planned[before.UID] == nil {
					b.planned[before.UID] = map[objref.Ref]int64{}
				}
				if !item.Withdrawn {
					b.planned[before.UID][item.Ref] = b.begun
				}
			}
		}
	}
	if b.chance(10) {
		b.doubt = true
		return
	}
	b.expect[a.Name] = after
}

// hear tells the transport of what happened.
func (h *hub) hear() {
	if len(h.events) > 0 && h.chance(2) {
		h.events[0]()
		h.events = h.events[1:]
		return
	}
	b := h.bindings[h.random.IntN(len(h.bindings))]
	if b.doubt && maps.Equal(b.view, b.box.works) {
		b.doubt = false
	}
	if names := slices.Sorted(maps.Keys(b.view)); len(names) > 0 && b.chance(2) {
		b.see(names[b.random.IntN(len(names))])
	} else if names := slices.Sorted(maps.Keys(b.box.works)); len(names) > 0 {
		b.see(names[b.random.IntN(len(names))])
	}
}

func (b *binding) see(name string) {
	if work := b.box.works[name]; work != nil {
		b.view[name] = work
	} else {
		delete(b.view, name)
	}
}

// restart restarts the transport: it knows what is, and nothing of what it was about to do.
func (h *hub) restart() {
	for _, event := range h.events {
		event()
	}
	h.events = nil
	for _, b := range h.bindings {
		b.placed, b.under, b.begun, b.expect, b.doubt = nil, nil, 0, map[string]*plan.Work{}, false
		b.view = maps.Clone(b.box.works)
	}
}

// apply lets the agent look at a work. It applies; if it notes, it also reports.
func (f *fleet) apply(b *binding, name string, notes bool, fails func() bool) {
	until := agentmodel.Applied
	if notes {
		until = agentmodel.Accounted
	}
	obstacles := map[objref.Ref]agentmodel.Obstacle{}
	for i := range b.box.works[name].Items {
		ref := b.box.works[name].Items[i].Ref
		if fails() {
			obstacles[ref] = someObstacle(f.random, f.cluster, ref)
		}
	}
	look(f.cluster, &b.box, b.box.works[name], until, func(ref objref.Ref) agentmodel.Obstacle { return obstacles[ref] })
}

// collect takes along what works own that are gone.
func (f *fleet) collect() {
	exists := map[types.UID]bool{}
	for _, h := range f.hubs {
		for _, b := range h.bindings {
			for _, work := range b.box.works {
				exists[work.UID] = true
			}
		}
	}
	f.cluster.Collect(func(uid types.UID) bool { return exists[uid] })
}

// lost checks whether an object was to be deleted.
func (f *fleet) lost(ref objref.Ref, uid types.UID) {
	if ref == f.kept {
		f.t.Errorf("at %d %s was deleted for %s, though it is to be orphaned", f.now, ref, uid)
	}
	for _, h := range f.hubs {
		for source, guards := range h.guards {
			if g := guards[ref]; g != nil && g.secured > 0 && g.secured < f.planned[uid][ref] {
				f.t.Errorf("at %d %s was deleted, since %s left it by a plan of %d, though %s %q wants it since %d, and had it at %d",
					f.now, ref, uid, f.planned[uid][ref], h.wds.Name, source, g.since, g.secured)
			}
		}
	}
}

// watch notes which sources go on wanting which objects, and which have them.
func (h *hub) watch() {
	for _, source := range []string{"", "package"} {
		for _, ref := range h.refs {
			wants, has := false, false
			for _, b := range h.bindings {
				if b.source != source {
					continue
				}
				delivers := false
				known := b.written.lists[ref] && !b.written.deleting && b.seen.lists[ref] && b.seen.uid == b.written.uid && b.sync == nil && b.begun == 0
				for _, work := range b.box.works {
					for _, item := range work.Items {
						if item.Ref == ref && !item.Withdrawn {
							delivers = delivers || !item.Observe
							has = has || known && (item.Observe || h.cluster.Objects[ref] != nil && h.cluster.Objects[ref].Owners[work.UID])
						}
					}
				}
				lists := b.selects[ref] && b.able()
				if source != "" || b.invalid && !b.gone { // a policy that is deleted wants nothing, valid or not
					lists = b.written.lists[ref] && !b.written.deleting
				}
				wants = wants || lists && (delivers || !b.written.hold.Holds(ref))
			}
			g := h.guards[source][ref]
			switch {
			case !wants:
				delete(h.guards[source], ref)
			case g == nil:
				g = &guard{since: h.now}
				h.guards[source][ref] = g
				fallthrough
			case g.secured == 0 && has:
				if has {
					g.secured = h.now
				}
			}
		}
	}
}

func newFleet(t *testing.T, seed uint64, hubs, policies, packages, objects int) *fleet {
	f := &fleet{
		t: t, random: rand.New(rand.NewPCG(seed, 19)), cluster: agentmodel.New(),
		planned: map[types.UID]map[objref.Ref]int64{}, now: 1,
	}
	f.cluster.Deleted = f.lost
	f.limits = packing.Limits{Count: 1 + f.random.IntN(3), Bytes: 400}
	if seed%2 == 0 { // objects are also repacked while they are handed over
		f.limits.Target, f.limits.Repack = packing.Target{Count: 1, Bytes: 200}, seed%4 == 0
	}
	for i := range objects {
		f.refs = append(f.refs, objref.Ref{Resource: "configmaps", Namespace: "web", Name: fmt.Sprint(i)})
	}
	for i := range hubs {
		name := fmt.Sprint("wds", i)
		h := &hub{
			fleet: f, wds: plan.WDS{UID: types.UID(name), Name: name}, contents: map[objref.Ref]string{}, orphan: map[objref.Ref]bool{},
			guards: map[string]map[objref.Ref]*guard{"": {}, "package": {}},
		}
		for j := range policies + packages {
			b := &binding{
				hub: h, name: fmt.Sprint(name, "-", j), selects: map[objref.Ref]bool{}, contents: map[objref.Ref]string{},
				box: mailbox{works: map[string]*plan.Work{}}, view: map[string]*plan.Work{}, expect: map[string]*plan.Work{},
			}
			if j >= policies {
				b.source = "package"
			}
			h.bindings = append(h.bindings, b)
		}
		f.hubs = append(f.hubs, h)
	}
	return f
}

// content returns a random content; the longer ones move objects between works.
func (f *fleet) content() string {
	return strings.Repeat(fmt.Sprint(f.random.IntN(3)), 100+50*f.random.IntN(4))
}

// change is what users do.
func (h *hub) change() {
	ref := h.ref()
	b := h.bindings[h.random.IntN(len(h.bindings))]
	switch h.random.IntN(12) {
	case 0:
		b.selects[ref] = !b.selects[ref]
	case 1, 2, 3, 4: // a change of a label: one policy gains what all others lose
		if b.source == "" {
			for _, other := range h.bindings {
				if other.source == "" {
					other.selects[ref] = other == b
				}
			}
		}
	case 5:
		h.contents[ref] = h.content()
	case 6:
		b.contents[ref] = h.content()
	case 7:
		if h.chance(2) {
			h.orphan[ref] = !h.orphan[ref] || ref == h.kept
		} else {
			b.keeps = !b.keeps
		}
	case 8:
		b.invalid = !b.invalid && b.source == ""
	case 9:
		if b.gone && b.written.uid == "" && b.sync == nil {
			b.gone = false // another policy of that name
		} else if h.chance(3) {
			b.gone = true
		}
	case 10, 11:
		if b.written.uid != "" {
			hold := plan.Hold{}
			if h.chance(3) {
				hold = holdOf(ref)
			}
			b.write(func(w *written) { w.hold = hold })
		}
	}
}

// step lets one thing happen.
func (h *hub) step() {
	h.now++
	b := h.bindings[h.random.IntN(len(h.bindings))]
	switch h.random.IntN(9) {
	case 0:
		b.decide()
	case 1, 2:
		h.hear()
	case 3:
		b.gather()
	case 4, 5, 6:
		b.deliver()
	case 7, 8:
		if names := slices.Sorted(maps.Keys(b.box.works)); len(names) > 0 {
			h.apply(b, names[h.random.IntN(len(names))], !h.chance(4), func() bool { return h.chance(6) })
		}
		if h.chance(2) {
			h.collect()
		}
	}
	if h.chance(150) {
		h.restart()
	}
	for _, h := range h.hubs {
		h.watch()
	}
}

// settle lets all go on until nothing is written any more.
func (f *fleet) settle() {
	for _, h := range f.hubs {
		for _, b := range h.bindings {
			if b.invalid = false; b.written.hold.Any() {
				b.write(func(w *written) { w.hold = plan.Hold{} })
			}
		}
	}
	var before string
	quiet := 0 // rounds; what one writes the others see in the next
	for range 60 {
		for _, h := range f.hubs {
			for range 2 {
				for _, b := range h.bindings {
					b.decide()
				}
			}
			for _, event := range h.events {
				event()
			}
			h.events = nil
			for _, b := range h.bindings {
				b.gather()
				if b.placed != nil {
					b.placed.unread = nil
				}
				for range 2 {
					for _, name := range slices.Sorted(maps.Keys(b.box.works)) {
						f.apply(b, name, true, func() bool { return false })
					}
					f.collect()
				}
				for _, name := range slices.Concat(slices.Collect(maps.Keys(b.view)), slices.Collect(maps.Keys(b.box.works))) {
					b.see(name)
				}
				b.doubt = false
				for range 40 {
					f.now++
					b.deliver()
					if b.begun == 0 {
						break
					}
				}
				h.watch()
			}
		}
		now := f.describe()
		quiet++
		if now != before {
			quiet = 0
		}
		if quiet == 3 {
			return
		}
		before = now
	}
	f.t.Errorf("does not come to rest:\n%s", before)
}

// describe returns all that is written.
func (f *fleet) describe() string {
	var all []string
	for _, h := range f.hubs {
		for _, b := range h.bindings {
			all = append(all, fmt.Sprintf("%s %v", b.name, b.written))
			for _, work := range b.box.works {
				text := fmt.Sprintf("%s %s generation %d", b.name, work.Name, work.Generation)
				for _, item := range work.Items {
					text += fmt.Sprintf(", %s %s %+v %d", item.Ref, item.Hash, item.Options, item.State)
				}
				all = append(all, text)
			}
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// check checks that each object has the content of one of those who want it, and that the others
// claim it.
func (f *fleet) check() {
	for _, ref := range f.refs {
		wanted, delivered := map[transform.Hash]bool{}, map[transform.Hash]bool{}
		for _, h := range f.hubs {
			for _, b := range h.bindings {
				wants := b.selects[ref] && !b.gone
				content := h.contents[ref]
				if b.source != "" {
					content = b.contents[ref]
				}
				orphan := slices.ContainsFunc(h.bindings, func(o *binding) bool {
					return o.source == b.source && o.selects[ref] && !o.gone && o.asksToOrphan(ref)
				})
				if wants {
					wanted[transform.HashOf([]byte(content))] = true
				}
				if lists := b.written.lists[ref] && !b.written.deleting; lists != wants {
					f.t.Errorf("%s lists %s: %v, want %v", b.name, ref, lists, wants)
				}
				holds := 0
				for _, work := range b.box.works {
					for _, item := range work.Items {
						if item.Ref != ref {
							continue
						}
						holds++
						if !item.Observe {
							delivered[item.Hash] = true
						}
						if item.Hash != transform.HashOf([]byte(content)) || !item.Observe && item.Options != (plan.Options{Orphan: orphan}) {
							f.t.Errorf("%s has %+v, want %q", b.name, item, content)
						}
					}
				}
				if want := map[bool]int{true: 1}[wants]; holds != want {
					f.t.Errorf("%s has %s %d times, want %d", b.name, ref, holds, want)
				}
			}
		}
		o := f.cluster.Objects[ref]
		switch {
		case len(wanted) == 0 && o != nil && len(o.Owners) > 0:
			f.t.Errorf("%s is in the cluster, and no Binding wants it", ref)
		case len(wanted) > 0 && (len(delivered) != 1 || o == nil || !delivered[o.Hash] || !wanted[o.Hash]):
			f.t.Errorf("%s: %d contents are wanted, %d delivered; in the cluster is %+v", ref, len(wanted), len(delivered), o)
		}
	}
}

// TestHandOverHistories runs random histories of hand-overs. An object that owners of one source
// want all the time, and have once had in a work, is never deleted from the cluster, nor is one
// that is always to be orphaned. In the end all is delivered as it should be, and nothing is
// written any more.
func TestHandOverHistories(t *testing.T) {
	for seed := range uint64(200) {
		f := newFleet(t, seed, 1+int(seed%2), 3, int(seed/2%2), 3)
		if seed/2%2 == 0 && seed%3 == 0 { // no packages: they orphan nothing
			f.kept = f.refs[0]
			for _, h := range f.hubs {
				h.orphan[f.kept] = true
			}
		}
		for range 3 {
			pace := 1 + f.random.IntN(25) // of users
			for range 400 {
				h := f.hubs[f.random.IntN(len(f.hubs))]
				if f.chance(pace) {
					h.change()
				}
				h.step()
			}
			f.settle()
			f.check()
			if t.Failed() {
				t.Fatalf("seed %d:\n%s", seed, f.describe())
			}
		}
	}
}

// TestStreamOfRelabels moves many objects to and fro between two policies, each change before the
// one before it has come to rest. All objects are there from the start to the end.
func TestStreamOfRelabels(t *testing.T) {
	for seed := range uint64(10) {
		f := newFleet(t, seed, 1, 2, 0, 30)
		f.limits.Count = 10
		h := f.hubs[0]
		for _, ref := range f.refs {
			h.contents[ref] = "1"
			h.bindings[0].selects[ref] = true
		}
		f.settle()
		before := map[objref.Ref]int{}
		for ref, o := range f.cluster.Objects {
			before[ref] = o.UID
		}
		for i := range 600 {
			ref, to := f.refs[i%len(f.refs)], h.bindings[(i/len(f.refs)+1)%2]
			for _, b := range h.bindings {
				b.selects[ref] = b == to
			}
			for range f.random.IntN(8) {
				h.step()
			}
		}
		f.settle()
		f.check()
		for ref, uid := range before {
			if o := f.cluster.Objects[ref]; o == nil || o.UID != uid {
				t.Errorf("seed %d: %s was deleted on its way", seed, ref)
			}
		}
		if len(before) != len(f.refs) || t.Failed() {
			t.Fatalf("seed %d: %d objects at the start", seed, len(before))
		}
	}
}
