package delivery

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/nested"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/transport/placement"
)

// objectsOfWDS is the name that packages see of the source of the objects of the WDS.
const objectsOfWDS = "objects"

// current returns what a Binding that wants these objects has at one destination, and who else is
// to have, or has, the same objects there.
//
// A cluster that is not accepted reports nothing, so nothing can be handed over there, and nothing
// is delivered: no owner counts. If the name of the cluster has passed to another ITS, those count
// that are there.
func (d *deliverer) current(p *placement.Placement, mailbox string, desired *plan.Desired, works []*plan.Work) *plan.Current {
	current := &plan.Current{
		Mailbox: mailbox, Prefix: string(p.UID), Works: works, Hold: d.controller.config.Index.HoldAt(p, mailbox), Orphans: p.Orphans,
	}
	if d.restored != "" {
		current.Prefix += "-" + d.restored
	}
	current.Unattended = d.unattended(p, mailbox)
	destination, _ := d.its.store.destination(mailbox)
	switch heir := d.heir(mailbox); {
	case heir != nil:
		current.Owners, current.Passed = heir.successors(p, mailbox, works), true
	case destination.Accepted:
		current.Owners, current.Siblings = d.owners(p, mailbox, desired, works)
	}
	current.Dependents = d.dependents(p, mailbox, d.its.store.all(p.UID, mailbox), current.Passed)
	return current
}

// unattended reports whether a Binding does not wait for the reports of a destination.
func (d *deliverer) unattended(p *placement.Placement, mailbox string) bool {
	destination, _ := d.its.store.destination(mailbox)
	return !destination.Accepted || p.Deleting && p.Annotations.Release.Of(mailbox)
}

// owners returns who else is to have, or has, the objects that a Binding wants at a mailbox or has
// there: those that leave, those that another WDS or source has in a work, and those that are to be
// orphaned from now on. Siblings are the works of others in which the former one of an object may
// be that was re-created. Where there are none, which is most frequent, no work is read.
func (d *deliverer) owners(p *placement.Placement, mailbox string, desired *plan.Desired, works []*plan.Work) (owners plan.Owners, siblings []*plan.Work) {
	owners = plan.Owners{}
	d.its.store.addForeign(owners, p, mailbox, works)
	leaving, orphaned, shared := d.leaving(p, mailbox, desired, works)
	changed := changedToList(d.controller.config.Index, p, leaving, mailbox)
	d.controller.config.Index.View(func(view placement.View) {
		g := gathering{deliverer: d, view: view, planned: p, mailbox: mailbox, changed: changed}
		g.addTo(owners, leaving, orphaned, works)
		siblings = g.siblings(shared)
	})
	return owners, siblings
}

// gathering is what is known while the owners of objects are gathered that one Binding wants at a
// mailbox, or has there.
type gathering struct {
	*deliverer
	view    placement.View
	planned *placement.Placement
	mailbox string
	// changed are the Bindings that changed and are not gathered yet, with the objects that they
	// list.
	changed nested.Map[string, objref.Ref, bool]
}

// addTo adds the owners of this WDS.
func (g *gathering) addTo(owners plan.Owners, leaving, orphaned refs, works []*plan.Work) {
	if g.view.SeveralSources() {
		matters := wantedOrHeld(g.planned, works)
		for _, uid := range g.others(func(source string) bool { return source != g.planned.Source }) {
			owners.Add(g.peer(uid), matters)
		}
	}
	shared := orphaned
	for ref := range owners {
		shared[ref] = true
	}
	for _, ref := range g.coming(works) {
		shared[ref] = true
	}
	listing := g.listing(leaving)
	if len(shared) > 0 {
		// Also those count that do not list an object any more: they deliver it until they have
		// handed it over.
		for _, uid := range g.others(func(source string) bool { return source == g.planned.Source }) {
			owners.Add(g.peer(uid), func(ref objref.Ref) bool { return shared[ref] || leaving[ref] })
		}
	} else {
		for name := range listing {
			uid, source := g.view.Identify(name)
			if _, exists := g.view.Source(uid); exists && source == g.planned.Source {
				owners.Add(g.peer(uid), func(ref objref.Ref) bool { return leaving[ref] })
			}
		}
	}
	for name, able := range listing {
		_, source := g.view.Identify(name)
		peer := plan.Peer{Binding: name, Source: g.source(source)}
		for ref := range able {
			owners.AddListed(&peer, ref)
		}
	}
}

// siblings returns the works of other Bindings of the same source that have, or had, one of the
// objects.
func (g *gathering) siblings(objects refs) (siblings []*plan.Work) {
	if len(objects) == 0 {
		return nil
	}
	for _, uid := range g.others(func(source string) bool { return source == g.planned.Source }) {
		for _, work := range g.its.store.of(uid, g.mailbox) {
			if slices.ContainsFunc(work.Items, func(item plan.Item) bool { return objects[item.Ref] }) || lost(work, objects) {
				siblings = append(siblings, work)
			}
		}
	}
	return siblings
}

// lost reports whether the cluster may still have one of the objects that the work no longer has.
func lost(work *plan.Work, objects refs) bool {
	for ref := range objects {
		if _, may := work.Lost(ref); may {
			return true
		}
	}
	return false
}

// coming returns the objects of which other Bindings list the same, and that the works do not have:
// the cluster may have them already, without the fields that it is to leave alone.
func (g *gathering) coming(works []*plan.Work) []objref.Ref {
	if g.planned.Deleting || !g.planned.Lists(g.mailbox) {
		return nil
	}
	return missingFrom(works, g.view.Shared(g.planned))
}

// leaving returns the objects that leave the works of a Binding, for example one that passes from
// one policy to another, and those that stay, but are to be orphaned. Shared are those of which it
// matters what the works of other Bindings have (plan.Current.Siblings).
func (d *deliverer) leaving(p *placement.Placement, mailbox string, desired *plan.Desired, works []*plan.Work) (leaving, orphaned, shared refs) {
	leaving, orphaned, shared = refs{}, refs{}, refs{}
	for _, item := range plan.Items(works) {
		object := desired.Object(item.Ref)
		switch {
		case object == nil:
			leaving[item.Ref] = true
			if orphan, known := p.Orphans(item.Ref); orphan && known && !item.Orphan {
				shared[item.Ref] = true
			}
			continue
		case object.Orphan && !item.Orphan:
			orphaned[item.Ref] = true
		}
		if object.HasSiblings(item) {
			shared[item.Ref] = true
		}
	}
	for _, ref := range missingFrom(works, desired.Once()) {
		shared[ref] = true
	}
	if len(leaving) == 0 {
		return nil, orphaned, shared
	}
	if assigned, sure := d.controller.fleet.assigned(mailbox); assigned != d.its && (assigned != nil || sure) {
		return nil, orphaned, shared // the others deliver elsewhere
	}
	return leaving, orphaned, shared
}

// missingFrom returns which of the objects the works do not have.
func missingFrom(works []*plan.Work, objects []objref.Ref) []objref.Ref {
	if len(objects) == 0 {
		return nil
	}
	has := refs{}
	for _, item := range plan.Items(works) {
		has[item.Ref] = true
	}
	return slices.DeleteFunc(slices.Clone(objects), func(ref objref.Ref) bool { return has[ref] })
}

// wantedOrHeld returns whether an object is one that a Binding wants, or that its works have.
func wantedOrHeld(p *placement.Placement, works []*plan.Work) func(objref.Ref) bool {
	held := refs{}
	for _, item := range plan.Items(works) {
		held[item.Ref] = true
	}
	return func(ref objref.Ref) bool {
		_, wanted := p.Objects[ref]
		return wanted || held[ref]
	}
}

// changedToList returns, by name, which of the objects Bindings list that changed and are not
// gathered yet. They were written before the one that does not list the objects any more, but may
// be gathered after it. Also the one that is planned may have changed again, so that it lists what
// it is to release.
func changedToList(index *placement.Index, planned *placement.Placement, leaving refs, mailbox string) nested.Map[string, objref.Ref, bool] {
	found := nested.Map[string, objref.Ref, bool]{}
	if len(leaving) == 0 {
		return found
	}
	for _, binding := range index.BindingsAt(mailbox) {
		if binding.DeletionTimestamp != nil {
			continue
		}
		p := planned
		if binding.Name != planned.Name {
			p = index.Get(binding.Name)
		}
		if p != nil && p.UID == binding.UID && p.Generation == binding.Generation {
			continue
		}
		listed := corebinding.Refs(&binding.Spec)
		packages := len(binding.Spec.Workload.Packages) > 0 // what they hold is not known before they are gathered
		for ref := range leaving {
			if _, lists := listed[ref]; lists || packages {
				found.Set(binding.Name, ref, true)
			}
		}
	}
	return found
}

// others returns the UIDs of the other Bindings that have works in the mailbox, and whose source
// counts. Works without a Binding are left out: nothing would ever release what they have.
func (g *gathering) others(counts func(source string) bool) []types.UID {
	return slices.DeleteFunc(g.its.store.bindingsAt(g.mailbox), func(uid types.UID) bool {
		source, known := g.view.Source(uid)
		return !known || uid == g.planned.UID || !counts(source)
	})
}

// source returns how a source is named to the Binding that is planned.
func (g *gathering) source(of string) string {
	switch of {
	case g.planned.Source:
		return ""
	case "":
		return objectsOfWDS
	}
	return of
}

// peer returns a Binding that has works in the mailbox.
func (g *gathering) peer(uid types.UID) *plan.Peer {
	source, _ := g.view.Source(uid)
	peer := &plan.Peer{Source: g.source(source), Works: g.its.store.of(uid, g.mailbox)}
	if len(peer.Works) == 0 {
		return peer
	}
	peer.Binding = peer.Works[0].Binding
	peer.Lists = func(ref objref.Ref) bool {
		lists, _ := g.lists(peer.Binding, ref)
		return lists
	}
	if p := g.view.Get(peer.Binding); p != nil && p.UID == uid && !p.Provisional && !g.unattended(p, g.mailbox) {
		peer.Orphans = func(ref objref.Ref) bool {
			orphan, known := p.Orphans(ref)
			return orphan && known
		}
	}
	key := Key{Binding: peer.Binding, Mailbox: g.mailbox}
	peer.Writing = g.underWay.has(key, peer.Works) || g.its.expected.unmet(key, peer.Works, g.controller.config.Clock.Now())
	return peer
}

// lists reports whether a Binding lists an object at the mailbox, as far as is known, and whether
// it is able to deliver it. One whose content cannot be read now will be: that passes, and what is
// wanted does not leave for it.
func (g *gathering) lists(name string, ref objref.Ref) (lists, able bool) {
	p := g.view.Get(name)
	if g.changed[name][ref] {
		return true, true
	}
	if p == nil || p.Provisional { // it is being gathered
		lists := g.view.Lists(name, ref)
		return lists || p != nil, lists || p != nil
	}
	object, listed := p.Objects[ref]
	lists = listed && p.Lists(g.mailbox) && !p.Deleting
	return lists, lists && !g.controller.config.Index.HoldAt(p, g.mailbox).Holds(ref) && (!object.Known || object.Size() <= g.controller.config.Limits.Bytes)
}

// listing returns the other Bindings that list some of the objects at the mailbox and are able to
// deliver them.
func (g *gathering) listing(leaving refs) nested.Map[string, objref.Ref, bool] {
	listing := g.changed
	for ref := range leaving {
		for name := range g.view.At(g.mailbox).Listing(ref) {
			if name == g.planned.Name {
				continue
			}
			if _, able := g.lists(name, ref); able {
				listing.Set(name, ref, true)
			}
		}
	}
	return listing
}
