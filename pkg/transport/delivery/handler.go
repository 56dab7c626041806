package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/transport/placement"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

// newDeliverer returns a deliverer to one of the ITSes of a Controller.
func newDeliverer(c *Controller, to plugin.ITS) *deliverer {
	d := &deliverer{
		controller: c, its: &its{name: to.Name, store: newStore(), orphaned: map[types.UID]bool{}}, connect: to.Connect,
		synced: make(chan struct{}), caughtUp: make(chan struct{}),
	}
	// An edit for one cluster does not wait for a change of a Binding with a thousand clusters, nor
	// for a cluster that receives a thousand Bindings.
	d.its.queue = worker.NewFair(worker.Config{
		Name: "transport-delivery-" + to.Name, Clock: c.config.Clock, MinBackOff: placement.MinBackOff,
		Quiet: func(err error) bool { return errors.Is(err, plugin.ErrStale) },
	}, d.deliver, func(k Key) string { return k.Binding }, func(k Key) string { return k.Mailbox })
	return d
}

// run connects to the ITS and delivers until the context ends, as soon as leads is closed. It
// returns when everything that it started has ended.
func (d *deliverer) run(ctx context.Context, workers int, standsBy bool, leading, leads <-chan struct{}) error {
	ctx = klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), logging.Space, d.its.name))
	defer d.its.queue.ShutDown()
	connected, err := d.connect(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("connect to space %s: %w", d.its.name, err)
	}
	d.plugin, d.restored = connected, connected.Restored()
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		// A mailbox that has not been read yet must not look like an empty one, nor one that
		// another process wrote meanwhile like one that it did not.
		if !await(ctx, d.synced, leading) || standsBy && d.catchUp(ctx) != nil {
			return
		}
		d.begin()
		if await(ctx, leads) {
			d.its.queue.Run(ctx, workers)
		}
	})
	logger := klog.FromContext(ctx).WithValues(logging.Controller, "transport")
	if err := d.plugin.Run(klog.NewContext(ctx, logger), d); err != nil {
		return fmt.Errorf("space %s: %w", d.its.name, err)
	}
	return nil
}

// OnWork implements plugin.Handler.
func (d *deliverer) OnWork(before, after *plan.Work) {
	d.its.store.setWork(before, after)
	d.enqueueListing(before, after)
	d.enqueueRequired(cmp.Or(after, before).Mailbox)
	before, after = of(false, before), of(false, after)
	if before != nil || after != nil {
		d.controller.config.Index.View(func(view placement.View) { d.enqueueOtherSources(view, before, after) })
	}
	wrappedObjects.Add(placement.Step(before != nil, after != nil))
	if after != nil {
		d.its.creations.reported(after)
	}
	for _, work := range []*plan.Work{before, after} {
		if work == nil {
			continue
		}
		for _, i := range d.controller.fleet {
			if i == d.its || i.store.has(work.BindingUID, work.Mailbox) { // what is left in another ITS may wait for it
				i.queue.Add(Key{Binding: work.Binding, Mailbox: work.Mailbox})
			}
		}
		d.controller.revisions.changed(work.BindingUID, work.Mailbox)
		d.controller.config.Statuses.Add(work.Binding)
		if before == nil || after == nil || before.BindingUID != after.BindingUID {
			d.controller.orphans.Add(orphan{d.its, work.BindingUID})
		}
	}
	if before != nil && after == nil {
		d.its.retries.forget(before.UID)
		d.written.forget(before.UID)
		if p := d.controller.config.Index.Get(before.Binding); p != nil && p.Deleting {
			d.controller.removals.Add(before.Binding)
		}
	}
}

// OnDestination implements plugin.Handler. A cluster that is new, is accepted, or is gone concerns
// the Bindings that list it; other properties concern those with templates.
func (d *deliverer) OnDestination(name string, destination *plugin.Destination) {
	before := d.its.store.setDestination(name, destination)
	wecs.Add(placement.Step(before != nil, destination != nil))
	admission := before == nil || destination == nil || !before.SameAdmission(*destination)
	// A Placement that is published after this is delivered to the destination as it is now.
	for _, p := range d.controller.config.Index.All() {
		if p.Deleting {
			d.controller.removals.Add(p.Name)
		}
		switch listed := p.Lists(name); {
		case listed && (admission || len(p.Templates) > 0):
			for _, other := range d.controller.fleet {
				other.queue.Add(Key{Binding: p.Name, Mailbox: name})
			}
			d.controller.config.Statuses.Add(p.Name)
		case !listed && admission && d.its.store.has(p.UID, name):
			d.its.queue.Add(Key{Binding: p.Name, Mailbox: name}) // what is handed over there may have no successor any more, or one again
		}
	}
}

// OnReport implements plugin.Handler.
func (d *deliverer) OnReport(mailbox string, ref objref.Ref, report *plugin.Report) {
	if !d.its.reports.set(mailbox, ref, report) {
		return
	}
	d.controller.config.Index.View(func(view placement.View) {
		for p := range d.its.listing(view, ref, mailbox) {
			d.controller.statusChanged(p, mailbox)
		}
	})
}

// OnReports implements plugin.Handler.
func (d *deliverer) OnReports(state plugin.Reports) {
	if !d.its.reports.setState(state) {
		return
	}
	for _, p := range d.controller.config.Index.All() {
		d.controller.config.Statuses.Add(p.Name)
	}
}

// OnPartial implements plugin.Handler.
func (d *deliverer) OnPartial(mailbox string, partial bool) {
	if !d.its.reports.setPartial(mailbox, partial) {
		return
	}
	for _, p := range d.controller.config.Index.All() {
		if d.its.concerns(p, mailbox) {
			d.controller.config.Statuses.Add(p.Name)
		}
	}
}

// OnSynced implements plugin.Handler.
func (d *deliverer) OnSynced() { close(d.synced) }

// begin says that all works are known. Now the mailboxes can be compared with what they should
// hold.
func (d *deliverer) begin() {
	d.its.store.synced.Store(true)
	close(d.caughtUp)
	for _, uid := range d.its.store.bindings() {
		d.controller.orphans.Add(orphan{d.its, uid})
	}
	for _, p := range d.controller.config.Index.All() {
		d.controller.fleet.enqueueAll(p)
		d.controller.config.Statuses.Add(p.Name)
		if p.Deleting {
			d.controller.removals.Add(p.Name)
		}
		if p.Provisional {
			d.controller.config.Bindings.Add(p.Name)
		}
	}
}

// enqueueListing puts the Bindings that list an object into the queue, if another WDS changed what
// it has of it: no others.
func (d *deliverer) enqueueListing(before, after *plan.Work) {
	for ref := range changedItems(of(true, before), of(true, after), func(objref.Ref) bool { return true }) {
		for _, name := range d.controller.config.Index.Listing(ref) {
			d.its.queue.Add(Key{Binding: name, Mailbox: cmp.Or(after, before).Mailbox})
		}
	}
}

// of returns a work if it is, or is not, that of another WDS; otherwise nil.
func of(foreign bool, work *plan.Work) *plan.Work {
	if work == nil || (work.Foreign != plan.WDS{}) != foreign {
		return nil
	}
	return work
}

// enqueueOtherSources puts the Bindings of other sources that deliver an object to the same mailbox
// into the queue, if a Binding changed what it has of it.
func (d *deliverer) enqueueOtherSources(view placement.View, before, after *plan.Work) {
	if !view.SeveralSources() {
		return
	}
	work := cmp.Or(after, before)
	source, _ := view.Source(work.BindingUID)
	for ref := range changedItems(before, after, func(ref objref.Ref) bool {
		return view.OthersList(work.Binding, ref)
	}) {
		for p := range d.its.listing(view, ref, work.Mailbox) {
			if p.Name != work.Binding && p.Source != source {
				d.its.queue.Add(Key{Binding: p.Name, Mailbox: work.Mailbox})
			}
		}
	}
}

// changedItems returns the objects of which a change of a work matters to other owners: that come,
// go, or change their content, or whether they are a claim.
func changedItems(before, after *plan.Work, counts func(objref.Ref) bool) refs {
	type had struct {
		hash  transform.Hash
		claim bool
	}
	items := map[objref.Ref]had{}
	for _, work := range []*plan.Work{before, after} {
		if work == nil || work.Deleting {
			continue
		}
		for i := range work.Items {
			item := &work.Items[i]
			if !counts(item.Ref) {
				continue
			}
			now := had{item.Hash, item.Observe}
			if was, ok := items[item.Ref]; ok && work == after && was == now {
				delete(items, item.Ref)
				continue
			}
			items[item.Ref] = now
		}
	}
	changed := make(refs, len(items))
	for ref := range items {
		changed[ref] = true
	}
	return changed
}
