package delivery

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/transport/placement"
)

// Leftover is where works are left of a Binding that is being deleted: a mailbox, or an ITS that
// has not reported its works.
type Leftover struct {
	Name string
	// ITS says that Name is that of an ITS.
	ITS bool
}

// String returns the text for the user.
func (l Leftover) String() string {
	if l.ITS {
		return "ITS " + l.Name + " (not synced yet)"
	}
	return l.Name
}

// syncRemoval removes the finalizer of a Binding that is being deleted when its works are gone from
// all mailboxes.
func (c *Controller) syncRemoval(ctx context.Context, name string) (worker.Result, error) {
	p := c.config.Index.Get(name)
	if p == nil || !p.Deleting {
		return worker.Result{}, nil
	}
	binding, err := c.config.Index.Binding(name)
	if err != nil {
		return worker.Result{}, err
	}
	if binding == nil || binding.UID != p.UID || binding.Generation != p.Generation || !p.Annotations.AreOf(binding) ||
		!slices.Contains(binding.Finalizers, controlv1alpha1.BindingFinalizer) {
		return worker.Result{}, nil // it changed, and is enqueued again with a new Placement if that is needed
	}
	left, recheck := c.leftovers(p)
	if len(c.unreleased(p, left)) > 0 {
		c.config.Statuses.Add(name)
		return worker.Result{After: recheck}, nil
	}
	for _, l := range left {
		klog.FromContext(ctx).Info("Released by force; works of the Binding stay where they are",
			logging.Binding, p.Name, "bindingUID", p.UID, logging.Cluster, l.Name)
	}
	return worker.Result{}, placement.SetFinalizer(ctx, c.config.WDS, binding, false)
}

// leftovers returns where works are left of a Binding that is being deleted, sorted, and after what
// time that may change by itself; zero is never. The mailbox of a cluster that its ITS does not
// know any more, or does not accept, counts as empty once its works are being deleted: no agent is
// left to remove them. A mailbox in which a work was just created, or may have been, is not empty.
func (c *Controller) leftovers(p *placement.Placement) (left []Leftover, recheck time.Duration) {
	now := c.config.Clock.Now()
	for _, i := range c.fleet {
		if !i.store.synced.Load() {
			left = append(left, Leftover{Name: i.name, ITS: true})
			continue
		}
		// Creations come first: one that is reported in between is in the store then.
		created, wait := i.creations.mailboxes(p.UID, now)
		for _, mailbox := range created {
			left = append(left, Leftover{Name: mailbox})
		}
		recheck = Sooner(recheck, wait)
		for _, mailbox := range i.store.mailboxes(p.UID) {
			d, _ := i.store.destination(mailbox)
			deleted := !slices.ContainsFunc(i.store.all(p.UID, mailbox), func(w *plan.Work) bool { return !w.Deleting })
			if d.Accepted || !deleted {
				left = append(left, Leftover{Name: mailbox})
			}
		}
	}
	slices.SortFunc(left, func(a, b Leftover) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(left), recheck
}

// unreleased returns which leftovers a Binding that is being deleted waits for: those that the
// annotation starling.io/release does not name, and mailboxes from which nobody has tried yet to
// remove what can be removed. Force is about not waiting for clusters. It is no reason to leave
// works behind that could have been deleted.
func (c *Controller) unreleased(p *placement.Placement, left []Leftover) []Leftover {
	return slices.DeleteFunc(slices.Clone(left), func(l Leftover) bool {
		if l.ITS {
			return p.Annotations.Release.All
		}
		return p.Annotations.Release.Of(l.Name) && c.outcomes.at(Key{Binding: p.Name, Mailbox: l.Name}).removedFor == p
	})
}
