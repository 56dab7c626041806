package delivery

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/transport/placement"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

// deliverer delivers to one ITS.
type deliverer struct {
	controller *Controller // has what all ITSes share
	its        *its

	connect  func(context.Context) (plugin.Plugin, error)
	plugin   plugin.Plugin // set before the workers start
	restored string        // Plugin.Restored
	written  writings
	fights   fights
	underWay deliveries
	required required
	// synced is closed when the Plugin has reported all works, caughtUp when it has reported those
	// that the last leader wrote.
	synced, caughtUp chan struct{}
}

// timeout bounds a write, and the read of a work. An ITS that takes longer is not well; it is tried
// again.
const timeout = 30 * time.Second

// do carries out the actions one by one. If one is refused, the others are tried nevertheless; if
// the ITS does not answer, they are not. It returns the texts for the user. The error is ErrStale
// if nothing failed, but an action was based on an old state.
func (d *deliverer) do(ctx context.Context, key Key, p *placement.Placement, actions []plan.Action) (texts []string, err error) {
	origin := plugin.Origin{Binding: p.Name, BindingUID: p.UID}
	var stale error
	var failures []error
	for i := range actions {
		action := &actions[i]
		if action.Verb == plan.Create && !d.beginCreation(p, action) {
			stale = plugin.ErrStale
			break
		}
		actionCtx, cancel := context.WithTimeout(ctx, timeout)
		receipt, err := d.plugin.Do(actionCtx, origin, action)
		cancel()
		if action.Verb == plan.Create {
			d.its.creations.end(p.UID, action, err, d.controller.config.Clock.Now())
		}
		switch {
		case err == nil:
			d.its.expected.expect(key, action, receipt, d.controller.config.Clock.Now())
			d.written.note(receipt, action)
			deliverySeconds.WithLabelValues(d.its.name).Observe(d.controller.config.Clock.Since(p.Decided).Seconds())
			klog.FromContext(ctx).V(2).Info("Wrote", "action", action.String())
			continue
		case errors.Is(err, plugin.ErrStale):
			stale = plugin.ErrStale
			continue
		}
		texts = append(texts, writeError(action, err))
		failures = append(failures, errors.New(texts[len(texts)-1]))
		d.underWay.doubt(key, action, err, d.controller.config.Clock.Now())
		var answered apierrors.APIStatus
		if !errors.As(err, &answered) {
			break
		}
		if apierrors.IsTooManyRequests(err) {
			break
		}
	}
	slices.Sort(texts)
	return texts, cmp.Or(errors.Join(failures...), stale)
}

// beginCreation records that a work is about to be created. It returns false if the Binding, as it
// is now, does not want that any more.
//
// The creation is recorded before the Placement is read, and a Placement that is being deleted is
// published before creations are read. So a Binding that finds nothing under way after its deletion
// began can rely on it that nothing will be. A removal that saw the creation in the moment until it
// is cancelled is repeated after the Outcome of this delivery.
func (d *deliverer) beginCreation(p *placement.Placement, a *plan.Action) bool {
	d.its.creations.begin(p.UID, a)
	if current := d.controller.config.Index.Get(p.Name); current == nil || current.UID != p.UID || current.Deleting {
		d.its.creations.cancel(p.UID, a)
		return false
	}
	return true
}

// record stores the Outcome of a delivery and notifies those whom it concerns.
func (d *deliverer) record(key Key, outcome *Outcome) {
	p := d.controller.outcomes.record(key, outcome)
	if p == nil {
		return
	}
	if p.Deleting {
		d.controller.removals.Add(key.Binding) // it may be released now
	}
	d.controller.statusChanged(p, key.Mailbox)
}
