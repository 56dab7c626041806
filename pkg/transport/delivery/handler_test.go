package delivery

import (
	"slices"
	"testing"

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
