package foresight

import (
	"context"

	"github.com/starlinghq/starling/pkg/core/foresight/rollout"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// RolloutQuery says of what a rollout is waited for.
type RolloutQuery struct {
	Policies []string
	Objects  []ObjectQuery
}

// Rollout reads what is known of policies, of what they select, and of objects. Objects that skip
// reports are left out.
func (r *Reader) Rollout(ctx context.Context, q RolloutQuery, skip func(objref.Ref) bool) *rollout.Facts {
	facts := &rollout.Facts{}
	for _, name := range q.Policies {
		policy, objects := r.Selected(ctx, name, skip)
		facts.Policies = append(facts.Policies, policy)
		facts.Objects = append(facts.Objects, objects...)
	}
	var left []ObjectQuery
	for _, one := range q.Objects {
		if ref := objref.New(one.Resource.GroupResource(), one.Namespace, one.Name); !skip(ref) {
			left = append(left, one)
		} else {
			facts.Skipped = append(facts.Skipped, ref)
		}
	}
	if len(left) > 0 {
		facts.Objects = append(facts.Objects, r.Objects(ctx, left)...)
	}
	return facts
}
