package delivery

import (
	"slices"
	"testing"

	"github.com/starlinghq/starling/pkg/core/plan"
)

func TestFightsEndOnce(t *testing.T) {
	key := Key{Binding: "b", Mailbox: "m"}
	mine := &plan.Work{Name: "mine", Items: []plan.Item{{Ref: settings}}}
	works := []*plan.Work{mine, {Name: "deleted", Deleting: true, Items: mine.Items}, {Name: "else", Items: []plan.Item{{Ref: web}}}}
	fight := []plan.Conflict{{Ref: settings, Ours: true, With: plan.Owner{State: plan.OwnerPending}}}
	claim := []plan.Conflict{{Ref: settings, Ours: true, With: plan.Owner{State: plan.OwnerClaimed}}}
	var f fights
	steps := []struct {
		what      string
		conflicts []plan.Conflict
		want      []*plan.Work
	}{
		{"peace", nil, nil},
		{"they only want it", claim, nil},
		{"both deliver", fight, nil},
		{"still", fight, nil},
		{"they have stopped", claim, []*plan.Work{mine}},
		{"long ago", claim, nil},
		{"they deliver, and we do not", []plan.Conflict{{Ref: settings}}, nil},
		{"they left", nil, nil},
	}
	for _, step := range steps {
		if got := f.over(key, step.conflicts, works); !slices.Equal(step.want, got) {
			t.Errorf("%s: %v, want %v", step.what, got, step.want)
		}
	}
	if len(f.objects) != 0 {
		t.Errorf("%v is remembered", f.objects)
	}
}
