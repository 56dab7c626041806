package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/foresight"
)

func newDrain(o *options) *action {
	const timeout = 5 * time.Minute
	return &action{options: o, timeout: timeout, verb: verb{
		name: "drain", title: "Take off clusters what is delivered to them",
		plan: planDrain, do: doDrain, pending: pendingDrain,
		done: func(a *action, _ *member, p *plan) string {
			if !a.wait {
				return "is being drained"
			}
			return "is drained" + stays(p.load)
		},
	}}
}

// stays names what a cluster keeps.
func stays(l *load) string {
	if _, orphans := l.objects(); orphans > 0 {
		return fmt.Sprintf("; %s in it, because of starling.io/on-removal: orphan", text.Count(orphans, "object stays|objects stay"))
	}
	return ""
}

func planDrain(_ context.Context, _ *action, m *member, l *load) (*plan, error) {
	p := &plan{}
	if inventory.Drained(m.cluster.Labels) && l.works() == 0 && len(l.listing()) == 0 {
		return p, nil
	}
	if inventory.Drained(m.cluster.Labels) {
		p.lines = append(p.lines, "it is drained already, and is waited for")
	} else {
		p.lines = append(p.lines, "no policy and no package delivers to it any more, until it is undrained")
	}
	p.lines = append(p.lines, leaving(l)...)
	return p, nil
}

// leaving says what leaves a cluster when nothing is delivered to it any more.
func leaving(l *load) []string {
	var lines []string
	all, orphans := l.objects()
	switch {
	case all == 0:
		lines = append(lines, "nothing is delivered to it now")
	case orphans < all:
		lines = append(lines, fmt.Sprintf("%s it: %s", text.Count(all-orphans, "object is deleted from|objects are deleted from"), l.leavingFrom()))
	}
	if orphans > 0 {
		lines = append(lines, fmt.Sprintf("%s in it without an owner, because of starling.io/on-removal: orphan", text.Count(orphans, "object stays|objects stay")))
	}
	for _, b := range l.listing() {
		if b.Owner == "" {
			lines = append(lines, fmt.Sprintf("Binding %s lists it, and is of no policy: it continues to deliver", b.label()))
		}
	}
	if l.Unread != "" {
		lines = append(lines, "which Bindings list it is not known: "+l.Unread)
	}
	return lines
}

func doDrain(ctx context.Context, _ *action, m *member, _ *plan) error {
	drained := "true"
	return m.patch(ctx, clusterPatch{Metadata: metadata{Labels: map[string]*string{controlv1alpha1.LabelDrained: &drained}}})
}

// pendingDrain returns what is still delivered to the cluster, or is to be.
func pendingDrain(ctx context.Context, _ *action, m *member, wds *client.Client) (string, error) {
	l, err := m.loadOf(ctx, wds)
	if err != nil {
		return "", err
	}
	heartbeat := ""
	if l.works() > 0 {
		heartbeat = m.heartbeat(ctx)
	}
	return missingForDrain(l, heartbeat), nil
}

// missingForDrain returns what must go before a cluster is drained, "" if nothing must.
func missingForDrain(l *load, heartbeat string) string {
	var parts []string
	for _, b := range l.listing() {
		part := fmt.Sprintf("Binding %s lists it", b.label())
		if b.Why != "" {
			part += ": " + b.Why
		}
		parts = append(parts, part)
	}
	if n := l.works(); n > 0 && len(parts) == 0 {
		parts = append(parts, fmt.Sprintf("its agent has to remove %s: %s; %s", text.Count(n, "work"), l.from(), heartbeat))
	}
	return strings.Join(parts, "; ")
}

// heartbeat says when the agent of the cluster was last heard of.
func (m *member) heartbeat(ctx context.Context) string {
	lease, err := m.Core.CoordinationV1().Leases(m.cluster.Name).Get(ctx, foresight.ClusterLease, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "it was never heard of"
	}
	if err != nil {
		return "its last heartbeat is unknown: " + err.Error()
	}
	return heartbeatOf(lease, time.Now())
}

// heartbeatOf changes at most once a minute: it is shown while a command waits.
func heartbeatOf(lease *coordinationv1.Lease, now time.Time) string {
	const lately = 2 * time.Minute // agents renew each minute
	if lease.Spec.RenewTime == nil {
		return "it was never heard of"
	}
	if ago := now.Sub(lease.Spec.RenewTime.Time); ago > lately {
		return "last heartbeat " + duration.ShortHumanDuration(ago) + " ago"
	}
	return "it is alive"
}

func newUndrain(o *options) *action {
	return &action{options: o, verb: verb{
		name: "undrain", title: "Deliver to drained clusters again",
		plan: func(_ context.Context, _ *action, m *member, _ *load) (*plan, error) {
			if _, has := m.cluster.Labels[controlv1alpha1.LabelDrained]; !has {
				return &plan{}, nil
			}
			return &plan{lines: []string{"policies and packages deliver to it again what they select for it"}}, nil
		},
		do: func(ctx context.Context, _ *action, m *member, _ *plan) error {
			return m.patch(ctx, clusterPatch{Metadata: metadata{Labels: map[string]*string{controlv1alpha1.LabelDrained: nil}}})
		},
		done: func(*action, *member, *plan) string { return "is a destination again" },
	}}
}
