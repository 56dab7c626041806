package delivery

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/transport/placement"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

// crowded returns a fixture with Bindings that all list the same object, at edge or elsewhere.
func crowded(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	objects := map[objref.Ref]plan.Object{settings: {}}
	for name, p := range map[string]struct {
		ofPackage string
		placement placement.Placement
	}{
		"ours":      {"ours", placement.Placement{Destinations: at("edge"), Objects: map[objref.Ref]plan.Object{settings: {}, web: {}}}},
		"same":      {"ours", placement.Placement{Destinations: at("edge"), Objects: objects}},
		"other":     {"theirs", placement.Placement{Destinations: at("edge", "far"), Objects: objects}},
		"policy":    {"", placement.Placement{Destinations: at("edge"), Objects: objects}},
		"elsewhere": {"theirs", placement.Placement{Destinations: at("far"), Objects: objects}},
		"left":      {"theirs", placement.Placement{Destinations: at("far"), Objects: objects}},
		"deleting":  {"theirs", placement.Placement{Deleting: true, Objects: objects}},
		"gone":      {"theirs", placement.Placement{Deleting: true, Objects: objects}},
	} {
		f.list(name, slices.Collect(maps.Keys(p.placement.Objects))...)
		f.publish(name, p.ofPackage, p.placement)
	}
	f.list("unknown", settings) // it is being gathered, and is delivered everywhere then
	for _, name := range []string{"left", "deleting"} {
		f.d.its.store.setWork(nil, &plan.Work{Mailbox: "edge", Name: name, Binding: name, BindingUID: types.UID(name), Items: []plan.Item{{Ref: settings}}})
	}
	return f
}

// TestEnqueueOtherSources: what a Binding delivers to a cluster concerns those of other sources
// that deliver the same there, and none elsewhere: a thousand clusters with a package of their own
// each, all with the same objects, have nothing to do with one another.
func TestEnqueueOtherSources(t *testing.T) {
	f := crowded(t)
	work := &plan.Work{Mailbox: "edge", Name: "w", Binding: "ours", BindingUID: "ours", Items: []plan.Item{{Ref: settings}, {Ref: web}}}
	f.index.View(func(view placement.View) { f.d.enqueueOtherSources(view, nil, work) })
	got := f.enqueued()
	if diff := cmp.Diff([]string{"deleting at edge", "left at edge", "other at edge", "policy at edge"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOnReport: so it is with what a cluster reports of an object.
func TestOnReport(t *testing.T) {
	f := crowded(t)
	f.d.OnReport("edge", settings, &plugin.Report{})
	got := slices.Sorted(maps.Keys(f.statuses))
	if diff := cmp.Diff([]string{"deleting", "left", "other", "ours", "policy", "same"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOnPartial: that only a part of a mailbox is read concerns the Bindings that have to do with
// it, once.
func TestOnPartial(t *testing.T) {
	f := crowded(t)
	for _, partial := range []bool{true, false} {
		f.d.OnPartial("edge", partial)
		got := slices.Sorted(maps.Keys(f.statuses))
		if diff := cmp.Diff([]string{"deleting", "left", "other", "ours", "policy", "same"}, got); diff != "" {
			t.Errorf("partial %t (-want +got):\n%s", partial, diff)
		}
		clear(f.statuses)
		f.d.OnPartial("edge", partial)
		if len(f.statuses) > 0 {
			t.Errorf("partial %t again: %v", partial, f.statuses)
		}
	}
}

// TestEnqueueListing: a change of a work of another WDS concerns only the Bindings that list its
// objects.
func TestEnqueueListing(t *testing.T) {
	f := newFixture(t)
	f.list("a", settings)
	f.list("b", settings)
	f.list("c", web)
	work := func(change func(*plan.Work)) *plan.Work {
		w := &plan.Work{Mailbox: "x", Name: "w", Foreign: plan.WDS{UID: "2"}, Items: []plan.Item{{Ref: settings}, {Ref: web}, {Ref: password}}}
		change(w)
		return w
	}
	base := work(func(*plan.Work) {})
	cases := map[string]struct {
		before, after *plan.Work
		want          []string
	}{
		"Comes":       {nil, base, []string{"a", "b", "c"}},
		"Goes":        {base, nil, []string{"a", "b", "c"}},
		"Same":        {base, work(func(w *plan.Work) { w.Generation++ }), nil},
		"Content":     {base, work(func(w *plan.Work) { w.Items[1].Hash = transform.Hash{1} }), []string{"c"}},
		"Claim":       {base, work(func(w *plan.Work) { w.Items[0].Observe = true }), []string{"a", "b"}},
		"Deleted":     {base, work(func(w *plan.Work) { w.Deleting = true }), []string{"a", "b", "c"}},
		"Unlisted":    {base, work(func(w *plan.Work) { w.Items = w.Items[:2] }), nil},
		"BecomesOurs": {base, work(func(w *plan.Work) { w.Foreign = plan.WDS{} }), []string{"a", "b", "c"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f.d.enqueueListing(tc.before, tc.after)
			got := drain(f.d.its.queue, func(k Key) string { return k.Binding })
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
