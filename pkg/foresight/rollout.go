package foresight

import (
	"context"
	"slices"

	"github.com/starlinghq/starling/pkg/core/foresight/rollout"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// RolloutQuery says of what a rollout is waited for.
type RolloutQuery struct {
	Policies []string
	Objects  []ObjectQuery
}

// Rollout reads what is known of policies, of what they select, and of objects. What the policies
// select is left out if skip reports it; objects that are named are not, since they may gain
// clusters.
func (r *Reader) Rollout(ctx context.Context, q RolloutQuery, skip func(objref.Ref) bool) *rollout.Facts {
	facts := &rollout.Facts{}
	for _, name := range q.Policies {
		policy, objects := r.Selected(ctx, name, skip)
		facts.Policies = append(facts.Policies, policy)
		facts.Objects = append(facts.Objects, objects...)
	}
	if len(q.Objects) > 0 {
		facts.Objects = append(facts.Objects, r.Objects(ctx, slices.Clone(q.Objects))...) // it changes them
	}
	return facts
}
