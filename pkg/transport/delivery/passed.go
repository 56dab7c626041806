package delivery

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/transport/placement"
)

// The name of a cluster passes to another ITS when the first one deletes or denies its cluster, or
// when an ITS comes whose cluster was accepted earlier. What is in the mailbox of the first ITS
// leaves then. It may be another machine, or the same one, which has joined both: then both agents
// own what both deliver, and the cluster deletes what neither owns any more. So the works in the
// first mailbox are an owner that leaves, and those in the other one are its successors.

// heir returns the deliverer to the ITS to which the name of a cluster has passed from this one,
// nil if it has not, or if that is not known.
func (d *deliverer) heir(mailbox string) *deliverer {
	to := d.controller.fleet.heir(d.its, mailbox)
	if i := slices.IndexFunc(d.controller.deliverers, func(other *deliverer) bool { return other.its == to }); i >= 0 {
		return d.controller.deliverers[i]
	}
	return nil
}

// successors returns who has, or is to have, in the mailbox of this ITS the objects that works in
// the mailbox of another one have. The Binding of these works is among them.
func (d *deliverer) successors(p *placement.Placement, mailbox string, works []*plan.Work) plan.Owners {
	owners, passing := plan.Owners{}, refs{}
	for _, item := range plan.Items(works) {
		passing[item.Ref] = true
	}
	d.its.store.addForeign(owners, p, mailbox, works)
	changed := changedToList(d.controller.config.Index, p, passing, mailbox)
	d.controller.config.Index.View(func(view placement.View) {
		g := gathering{deliverer: d, view: view, planned: p, mailbox: mailbox, changed: changed}
		for _, uid := range d.its.store.bindingsAt(mailbox) {
			if _, exists := view.Source(uid); exists { // nothing would ever release what an orphaned work has
				owners.Add(g.peer(uid), func(ref objref.Ref) bool { return passing[ref] })
			}
		}
		listing := g.listing(passing)
		for ref := range passing {
			if _, able := g.lists(p.Name, ref); able {
				listing.Set(p.Name, ref, true)
			}
		}
		for name, able := range listing {
			_, source := view.Identify(name)
			peer := plan.Peer{Binding: name, Source: g.source(source)}
			for ref := range able {
				owners.AddListed(&peer, ref)
			}
		}
	})
	maps.DeleteFunc(owners, func(ref objref.Ref, _ []plan.Owner) bool { return !passing[ref] })
	return owners
}

// leave takes what a Binding has out of the mailbox of an ITS from which the name of the cluster
// has passed. The other ITS reports on the Binding at the cluster.
func (d *deliverer) leave(ctx context.Context, key Key, p *placement.Placement, current *plan.Current) (worker.Result, error) {
	works := slices.Concat(current.Works, current.Restored)
	if current.Unattended { // nobody may ever remove what is deleted
		works = slices.DeleteFunc(works, func(w *plan.Work) bool { return w.Deleting })
	}
	heir := d.heir(key.Mailbox)
	if len(works) == 0 || heir == nil {
		d.left(key, p, "")
		return worker.Result{}, nil
	}
	nothing := &plan.Desired{}
	built := plan.Build(nothing, current)
	actions := slices.Concat(built.Actions, plan.Retire(current.Restored, nothing, current, &built))
	texts, err := d.do(ctx, key, p, actions)
	d.required.note(key, len(built.Required) > 0)
	d.left(key, p, leftText(d.its.name, heir.its.name, len(works), &built, texts))
	if err != nil {
		return worker.Result{}, err
	}
	heir.outdate(built.Outdated) // one machine may have joined both
	return worker.Result{After: recheckPassed}, nil
}

// recheckPassed is how long works that are left are not planned again without an event. Those of
// their Binding in the other ITS are events.
const recheckPassed = 10 * time.Second

// left records what is left of a Binding in the mailbox of an ITS from which the name of the
// cluster has passed; "" is nothing.
func (d *deliverer) left(key Key, p *placement.Placement, text string) {
	if d.controller.outcomes.leave(key, d.its.name, text) {
		d.controller.statusChanged(p, key.Mailbox)
	}
}

// leftText says what is left of a Binding in the mailbox of an ITS from which the name of the
// cluster has passed, and why.
func leftText(from, to string, works int, built *plan.Plan, failures []string) string {
	why := fmt.Sprintf("until that cluster has deleted %s; if it never answers, delete its ManagedCluster in ITS %q", text.Plural(works, "it", "them"), from)
	waits := slices.IndexFunc(built.Leaving, func(h plan.HandOver) bool { return h.Waits })
	switch {
	case len(failures) > 0:
		why = "since " + failures[0]
	case built.HeldBack > 0:
		why = "since " + text.Count(built.HeldBack, "object") + " in " + text.Plural(works, "it", "them") + text.Plural(built.HeldBack, " is", " are") + " held"
	case len(built.Required) > 0:
		why = "since " + requiredTexts(built.Required)[0]
	case waits >= 0:
		why = fmt.Sprintf("until the cluster of ITS %q has applied %s", to, built.Leaving[waits].Ref)
	}
	return fmt.Sprintf("%s of this Binding %s for the cluster of this name in ITS %q, %s",
		text.Count(works, "ManifestWork"), text.Plural(works, "stays", "stay"), from, why)
}
