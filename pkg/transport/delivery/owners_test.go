package delivery

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/transport/placement"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

// describeOwners returns the owners of an object as "binding state".
func describeOwners(owners []plan.Owner) []string {
	var all []string
	for _, o := range owners {
		text := fmt.Sprint(o.Binding, " ", []string{"listed", "claimed", "pending", "applied"}[o.State])
		if o.Leaving {
			text += " leaving"
		}
		if o.Source != "" {
			text += " of " + o.Source
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

// currentOf returns what is current for a Binding at the mailbox "edge".
func currentOf(d *deliverer, p *placement.Placement, works []*plan.Work) *plan.Current {
	desired := &plan.Desired{}
	if !p.Deleting && p.Lists("edge") {
		var objects []plan.Object
		for ref, object := range p.Objects {
			object.Ref = ref
			objects = append(objects, object)
		}
		p.Desired = plan.NewDesired(objects, packing.Limits{Count: 9, Bytes: 999})
		desired, _, _ = d.desiredAt(p, "edge")
	}
	return d.current(p, "edge", desired, works)
}

func TestOwners(t *testing.T) {
	known := func(refs ...objref.Ref) map[objref.Ref]plan.Object {
		objects := map[objref.Ref]plan.Object{}
		for _, ref := range refs {
			objects[ref] = plan.Object{Known: true}
		}
		return objects
	}
	item := func(item plan.Item) *plan.Work {
		item.Ref = settings
		return &plan.Work{Mailbox: "edge", Name: "theirs", Binding: "other", BindingUID: "other", Items: []plan.Item{item}}
	}
	type given struct {
		placement.Placement
		ofPackage string
	}
	deleted := &given{Placement: placement.Placement{Deleting: true}}
	lists := func(objects map[objref.Ref]plan.Object) *given {
		return &given{Placement: placement.Placement{Destinations: at("edge"), Objects: objects}}
	}
	cases := map[string]struct {
		ours, other *given
		delivered   *plan.Work
		writing     bool
		want        []string
	}{
		"Deleted":       {deleted, lists(known(settings)), nil, false, []string{"other listed"}},
		"Unlisted":      {lists(known(web)), lists(known(settings)), nil, false, []string{"other listed"}},
		"NotHere":       {&given{Placement: placement.Placement{Objects: known(settings, web)}}, lists(known(settings)), nil, false, []string{"other listed"}},
		"Wanted":        {lists(known(settings, web)), lists(known(settings)), nil, false, nil},
		"Pending":       {deleted, lists(known(settings)), item(plan.Item{}), false, []string{"other pending"}},
		"Applied":       {deleted, lists(known(settings)), item(plan.Item{State: plan.Applied}), false, []string{"other applied"}},
		"Failed":        {deleted, lists(known(settings)), item(plan.Item{State: plan.Failed}), false, []string{"other pending"}},
		"Claims":        {deleted, lists(known(settings)), item(plan.Item{Options: plan.Options{Observe: true}}), false, []string{"other claimed"}},
		"Withdrawn":     {deleted, lists(known(settings)), item(plan.Item{Withdrawn: true}), false, []string{"other listed"}},
		"BothGo":        {deleted, deleted, item(plan.Item{}), false, nil},
		"Elsewhere":     {deleted, &given{Placement: placement.Placement{Objects: known(settings)}}, nil, false, nil},
		"CannotBeRead":  {deleted, lists(map[objref.Ref]plan.Object{settings: {}}), nil, false, []string{"other listed"}},
		"Held":          {deleted, &given{Placement: placement.Placement{Destinations: at("edge"), Objects: known(settings), Annotations: placement.Annotations{Hold: plan.HoldAll()}}}, nil, false, nil},
		"BeingGathered": {deleted, nil, nil, false, []string{"other listed"}},

		"BeingWritten":         {deleted, lists(known(settings)), item(plan.Item{State: plan.Applied}), true, []string{"other pending"}},
		"Package":              {deleted, &given{Placement: placement.Placement{Destinations: at("edge"), Objects: known(settings)}, ofPackage: "p"}, nil, false, []string{"other listed of package default/edge/p"}},
		"PackageWanted":        {lists(known(settings)), &given{Placement: placement.Placement{Destinations: at("edge"), Objects: known(settings)}, ofPackage: "p"}, item(plan.Item{}), false, []string{"other pending of package default/edge/p"}},
		"PackageLeaves":        {lists(known(settings)), &given{Placement: placement.Placement{Destinations: at("edge")}, ofPackage: "p"}, item(plan.Item{}), false, []string{"other pending leaving of package default/edge/p"}},
		"PackageBeingGathered": {deleted, &given{Placement: placement.Placement{Provisional: true, Destinations: at("edge")}, ofPackage: "p"}, item(plan.Item{}), false, []string{"other pending of package default/edge/p"}},
		"PackageTooLarge": {
			deleted, &given{Placement: placement.Placement{Destinations: at("edge"), Objects: map[objref.Ref]plan.Object{settings: large(settings)}}, ofPackage: "p"},
			nil, false, nil,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			d := f.d
			d.OnDestination("edge", &plugin.Destination{Accepted: true})
			f.list("other", settings)
			f.exists("other", "")
			if tc.other != nil {
				f.publish("other", tc.other.ofPackage, tc.other.Placement)
			}
			if tc.delivered != nil {
				d.its.store.setWork(nil, tc.delivered)
			}
			if tc.writing {
				defer d.underWay.begin(Key{Binding: "other", Mailbox: "edge"})()
			}
			ours := tc.ours.Placement
			ours.Name, ours.UID = "b", "uid"
			works := []*plan.Work{{Mailbox: "edge", Items: []plan.Item{{Ref: settings}, {Ref: web}}}}
			got := currentOf(d, &ours, works).Owners
			if diff := cmp.Diff(tc.want, describeOwners(got[settings])); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(got[web]) > 0 {
				t.Errorf("the Namespace has owners: %+v", got[web])
			}
			d.OnDestination("edge", &plugin.Destination{})
			if got := currentOf(d, &ours, works).Owners; got != nil {
				t.Errorf("at a cluster that is not accepted: %+v", got)
			}
		})
	}
}

// TestOwnersOfWhatComes: of an object that comes to a mailbox, other Bindings count that have it
// there already.
func TestOwnersOfWhatComes(t *testing.T) {
	f := newFixture(t)
	d := f.d
	d.OnDestination("edge", &plugin.Destination{Accepted: true})
	objects := map[objref.Ref]plan.Object{settings: {Known: true}}
	f.list("b", settings)
	f.list("other", settings)
	f.exists("other", "")
	f.publish("other", "", placement.Placement{Destinations: at("edge"), Objects: objects})
	d.its.store.setWork(nil, &plan.Work{
		Mailbox: "edge", Name: "theirs", Binding: "other", BindingUID: "other", Items: []plan.Item{{Ref: settings, State: plan.Applied}},
	})
	ours := placement.Placement{Name: "b", UID: "uid", Destinations: at("edge"), Objects: objects}
	if diff := cmp.Diff([]string{"other applied"}, describeOwners(currentOf(d, &ours, nil).Owners[settings])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	works := []*plan.Work{{Mailbox: "edge", Items: []plan.Item{{Ref: settings}}}}
	if got := currentOf(d, &ours, works).Owners; len(got) > 0 {
		t.Errorf("once it is there: %+v", got)
	}
}

// TestSiblings: what other Bindings have of an object matters where the cluster may have another
// one of its name.
func TestSiblings(t *testing.T) {
	job := objref.Ref{Group: "batch", Resource: "jobs", Namespace: "web", Name: "migrate"}
	object := func(ref objref.Ref) plan.Object {
		o := plan.Object{Known: true}
		o.Ref, o.Source.UID = ref, "u2"
		return o
	}
	for name, tc := range map[string]struct {
		wants, theirs objref.Ref
		has           []plan.Item
		listed        bool // their work had it
		ofPackage     string
		want          bool
	}{
		"Comes":              {wants: job, theirs: job, want: true},
		"Left":               {wants: job, theirs: job, listed: true, want: true},
		"ComesAndIsUpdated":  {wants: settings, theirs: settings},
		"OfAPackage":         {wants: job, theirs: job, ofPackage: "p"},
		"AnotherOne":         {wants: job, theirs: settings},
		"IsThere":            {wants: job, theirs: job, has: []plan.Item{{Ref: job, Source: "u2"}}},
		"WasRecreated":       {wants: settings, theirs: settings, has: []plan.Item{{Ref: settings, Source: "u1"}}, want: true},
		"CannotBeUpdated":    {wants: settings, theirs: settings, has: []plan.Item{{Ref: settings, Source: "u2", State: plan.Failed, Immutable: true}}, want: true},
		"FailsForAnotherWhy": {wants: settings, theirs: settings, has: []plan.Item{{Ref: settings, Source: "u2", State: plan.Failed}}},
		"Waits": {wants: job, theirs: job, want: true, has: []plan.Item{
			{Ref: job, Withdrawn: true, Options: plan.Options{Observe: true, Stage: plan.Stage{Begun: true, Former: "u1"}}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.d.OnDestination("edge", &plugin.Destination{Accepted: true})
			f.publish("other", tc.ofPackage, placement.Placement{Destinations: at("edge")})
			theirs := &plan.Work{Mailbox: "edge", Name: "theirs", UID: "t", Binding: "other", BindingUID: "other"}
			if tc.listed {
				theirs.Listed = []objref.Ref{tc.theirs}
			} else {
				theirs.Items = []plan.Item{{Ref: tc.theirs, Source: "u1"}}
			}
			f.d.its.store.setWork(nil, theirs)
			ours := placement.Placement{Name: "b", UID: "uid", Destinations: at("edge"), Objects: map[objref.Ref]plan.Object{tc.wants: object(tc.wants)}}
			works := []*plan.Work{{Mailbox: "edge", Items: tc.has}}
			got := currentOf(f.d, &ours, works).Siblings
			if is := len(got) > 0; is != tc.want || is && got[0] != theirs {
				t.Errorf("the siblings are %v, want theirs: %t", got, tc.want)
			}
			ours.Deleting = true
			if got := currentOf(f.d, &ours, works).Siblings; len(got) > 0 {
				t.Errorf("of one that is being deleted: %v", got)
			}
		})
	}
}

// large returns an object that fits into no work.
func large(ref objref.Ref) plan.Object {
	object := plan.Object{Known: true}
	object.Ref, object.JSON = ref, make([]byte, 200)
	return object
}

// TestContestedInOneWDS: where another WDS has an object, also a Binding counts that hands it over
// and does not list it any more.
func TestContestedInOneWDS(t *testing.T) {
	f := newFixture(t)
	d := f.d
	d.OnDestination("edge", &plugin.Destination{Accepted: true})
	work := func(name string, wds plan.WDS) *plan.Work {
		return &plan.Work{
			Mailbox: "edge", Name: name, Binding: name, BindingUID: types.UID(name), Foreign: wds,
			Items: []plan.Item{{Ref: settings, State: plan.Applied}},
		}
	}
	d.its.store.setWork(nil, work("left", plan.WDS{}))
	d.its.store.setWork(nil, work("orphaned", plan.WDS{}))
	f.publish("left", "", placement.Placement{Destinations: at("edge")})
	ours := f.publish("ours", "", placement.Placement{Destinations: at("edge"), Objects: map[objref.Ref]plan.Object{settings: {Known: true}}})
	if got := currentOf(d, ours, nil).Owners[settings]; got != nil {
		t.Errorf("without another WDS: %q", describeOwners(got))
	}
	d.its.store.setWork(nil, work("theirs", plan.WDS{UID: "2"}))
	want := []string{"left applied leaving", "theirs pending"}
	if diff := cmp.Diff(want, describeOwners(currentOf(d, ours, nil).Owners[settings])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOwnersOfWhatOthersOrphan: of an object that stays, and that only another Binding wants to be
// orphaned, also a Binding counts that is to remove it: it relies on our work, which must own the
// object until then.
func TestOwnersOfWhatOthersOrphan(t *testing.T) {
	f := newFixture(t)
	d := f.d
	d.OnDestination("edge", &plugin.Destination{Accepted: true})
	d.its.store.setWork(nil, &plan.Work{
		Mailbox: "edge", Name: "left", Binding: "left", BindingUID: "left", Items: []plan.Item{{Ref: settings, State: plan.Applied}},
	})
	f.publish("left", "", placement.Placement{Destinations: at("edge")})
	for _, name := range []string{"ours", "orphaning"} {
		f.list(name, settings)
	}
	f.publish("orphaning", "", placement.Placement{
		Destinations: at("edge"), Objects: map[objref.Ref]plan.Object{settings: {Known: true, Options: plan.Options{Orphan: true}}},
	})
	ours := f.publish("ours", "", placement.Placement{Destinations: at("edge"), Objects: map[objref.Ref]plan.Object{settings: {Known: true}}})
	works := []*plan.Work{{Mailbox: "edge", Items: []plan.Item{{Ref: settings, State: plan.Applied}}}}
	got := describeOwners(currentOf(d, ours, works).Owners[settings])
	if !slices.Contains(got, "left applied leaving") {
		t.Errorf("the owners are %q", got)
	}
}
