package delivery

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/transport/placement"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

// TestAdmissionConcernsOwnersOfWorks: an object that is being handed over to another WDS can leave
// at once when its cluster is no longer accepted, because nobody would ever report that it was;
// also where the cluster is not listed any more.
func TestAdmissionConcernsOwnersOfWorks(t *testing.T) {
	for name, p := range map[string]placement.Placement{
		"Listed":   {Destinations: at("edge")},
		"Unlisted": {},
		"Deleting": {Deleting: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.publish("b", "", p)
			f.publish("other", "", placement.Placement{Destinations: at("elsewhere")})
			f.d.OnDestination("edge", &plugin.Destination{Accepted: true})
			f.d.its.store.setWork(nil, &plan.Work{Mailbox: "edge", Name: "w", Binding: "b", BindingUID: "b"})
			f.enqueued()
			f.d.OnDestination("edge", &plugin.Destination{Accepted: false})
			if got := f.enqueued(); !slices.Equal(got, []string{"b at edge"}) {
				t.Errorf("%q are enqueued", got)
			}
		})
	}
}

// TestNothingIsRememberedOfWhatIsGone: fights of a Binding that is deleted are over.
func TestNothingIsRememberedOfWhatIsGone(t *testing.T) {
	f, key := newFixture(t), Key{Binding: "b", Mailbox: "edge"}
	f.d.fights.over(key, []plan.Conflict{{Ref: settings, Ours: true, With: plan.Owner{State: plan.OwnerPending}}}, nil)
	if len(f.d.fights.objects) != 1 {
		t.Fatal("there is no fight")
	}
	f.publish("b", "", placement.Placement{Deleting: true})
	if _, err := f.d.deliver(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if len(f.d.fights.objects) != 0 {
		t.Errorf("%v is remembered", f.d.fights.objects)
	}
}

// TestDeliveryWithADoubt: a write that was not answered is looked for in the works when a delivery
// begins, and when it ends.
func TestDeliveryWithADoubt(t *testing.T) {
	f, key := newFixture(t), Key{Binding: "b", Mailbox: "edge"}
	f.publish("b", "", placement.Placement{Destinations: at("edge"), Desired: &plan.Desired{}}) // the cluster belongs to no ITS: nothing is written
	f.d.its.store.setWork(nil, &plan.Work{Mailbox: "edge", BindingUID: "b", Name: "w", UID: "1"})
	end := f.d.underWay.begin(key)
	f.d.underWay.doubt(key, &plan.Action{Verb: plan.Patch, Name: "w", UID: "1"}, context.DeadlineExceeded, time.Now().Add(-2*patience))
	end()
	result, err := f.d.deliver(t.Context(), key)
	if err != nil || result.After != patience {
		t.Errorf("%+v, %v, want that it is looked for again after %s", result, err, patience)
	}
}

// TestOutcomeOfADeletion: what keeps a Binding that is being deleted is said until it has another
// Placement, however often it is looked at: nothing is delivered again for the same one.
func TestOutcomeOfADeletion(t *testing.T) {
	f, key := newFixture(t), Key{Binding: "b", Mailbox: "edge"}
	p := f.publish("b", "", placement.Placement{Deleting: true})
	f.outcomes.record(key, &Outcome{Leaving: []string{"it stays"}, removedFor: p})
	f.OnPlacement("b", p, p)
	if got := f.outcomes.at(key); len(got.Leaving) != 1 || got.removedFor != p {
		t.Errorf("for the same Placement: %+v", got)
	}
	f.OnPlacement("b", p, f.publish("b", "", placement.Placement{Deleting: true}))
	if got := f.outcomes.at(key); len(got.Leaving) > 0 || got.removedFor != nil {
		t.Errorf("for another Placement: %+v", got)
	}
}
