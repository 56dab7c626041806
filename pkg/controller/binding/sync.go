package binding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/controller/worker"
	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/logging"
)

// sync brings the Bindings and the status of one policy up to date.
func (c *Controller) sync(ctx context.Context, name string) (worker.Result, error) {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues(logging.BindingPolicy, name))
	c.memory.begin(name)
	defer func() {
		for _, interested := range c.memory.end(name) {
			c.enqueueSoon(interested)
		}
	}()
	if err := c.confirmWrites(ctx, name); err != nil {
		return worker.Result{}, err
	}
	in, ok, after := c.gather(name)
	if !ok {
		return worker.Result{After: after}, nil
	}
	d, err := c.decide(ctx, &in)
	c.remember(name, &in, &d)
	if !d.RemoveFinalizer && in.state.Policy.DeletionTimestamp != nil && !slices.Contains(in.state.Policy.Finalizers, controlv1alpha1.BindingPolicyFinalizer) {
		return worker.Result{}, nil // the policy is about to vanish
	}
	written := unwritten(in.state)
	if written.Err = err; err == nil {
		written, err = c.act(ctx, in.state, &d)
	}
	if written.finalized || err != nil && (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)) {
		return worker.Result{}, err
	}
	status, again := corebinding.Status(in.state, &d, written.Result)
	if len(in.unsettled) > 0 {
		again.At(confirmAfter)
	}
	statusErr := c.writeStatus(ctx, in.state.Policy, written.policyVersion, status)
	if in.state.Policy.DeletionTimestamp != nil {
		statusErr = ignoreNotFound(statusErr)
	}
	return worker.Result{After: time.Duration(again)}, errors.Join(err, statusErr)
}

// decide returns a confirmed Decision. If it could not be confirmed, it must not be carried out.
func (c *Controller) decide(ctx context.Context, in *gathered) (corebinding.Decision, error) {
	d := corebinding.Decide(in.state)
	if len(d.Leaving.Objects) == 0 {
		return d, nil
	}
	unseen, err := c.confirm(ctx, in, &d.Leaving)
	if err != nil {
		return d, fmt.Errorf("confirm what leaves the clusters: %w", err)
	}
	if len(unseen.Of) == 0 {
		return d, nil
	}
	klog.FromContext(ctx).V(2).Info("Objects stay in the clusters: a change was not observed yet", "objects", len(unseen.Objects), "of", unseen.Of)
	in.state.Unseen = unseen
	return corebinding.Decide(in.state), nil
}

// remember stores what later syncs need of a decision.
func (c *Controller) remember(name string, in *gathered, d *corebinding.Decision) {
	c.memory.update(name, func(r *remembered) {
		r.missingSince, r.retainedSince = d.MissingSince, d.RetainedSince
		if d.UpToDate {
			r.upToDate = stateOf(in.state.Selected.Revision, in.state.Bindings())
		}
	})
	var others []string
	if len(d.Retained.Objects) > 0 {
		for other := range in.state.HandOver.Others {
			others = append(others, other)
		}
	} else {
		in.syncing, in.unsettled = nil, nil // nothing depends on them
	}
	for _, other := range in.unsettled {
		c.queue.AddAfter(other, confirmAfter) // its sync finds out; there may be no event
	}
	if c.memory.waitFor(name, others, in.syncing, in.events) {
		c.enqueueSoon(name)
	}
}
