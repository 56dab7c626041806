package delivery

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

func TestStore(t *testing.T) {
	s := newStore()
	a := &plan.Work{BindingUID: "1", Mailbox: "x", Name: "a"}
	b := &plan.Work{BindingUID: "1", Mailbox: "y", Name: "b"}
	s.setWork(nil, a)
	s.setWork(nil, b)
	mailboxes := s.mailboxes("1")
	slices.Sort(mailboxes)
	if diff := cmp.Diff([]string{"x", "y"}, mailboxes); diff != "" {
		t.Errorf("mailboxes (-want +got):\n%s", diff)
	}
	edited := *a
	edited.BindingUID = "2"
	s.setWork(a, &edited)
	if s.has("1", "x") || !s.has("2", "x") || s.of("2", "x")[0] != &edited {
		t.Error("a work that was given to another Binding is not there")
	}
	s.setWork(&edited, nil)
	s.setWork(b, nil)
	if left := s.bindings(); len(left) > 0 || s.example("1") != nil {
		t.Errorf("works of %s are left", left)
	}
	if len(s.works) != 0 {
		t.Errorf("the empty store holds %v", s.works)
	}
}

// TestStoreOfRestored: what the cluster has of a work that was restored from a backup is not known.
// So nothing is planned on it, but its Binding has works.
func TestStoreOfRestored(t *testing.T) {
	s := newStore()
	restored := &plan.Work{BindingUID: "1", Mailbox: "x", Name: "1-1-0", Restored: "r1"}
	live := &plan.Work{BindingUID: "1", Mailbox: "x", Name: "1-r1-1-0"}
	s.setWork(nil, restored)
	if len(s.of("1", "x")) != 0 || len(s.all("1", "x")) != 1 || !s.has("1", "x") || len(s.mailboxes("1")) != 1 {
		t.Error("a restored work is planned on, or its Binding has no works")
	}
	s.setWork(nil, live)
	if got := s.of("1", "x"); len(got) != 1 || got[0] != live {
		t.Errorf("works to plan on: %v", got)
	}
}

func TestExpectations(t *testing.T) {
	key := Key{Binding: "b", Mailbox: "m"}
	work := plan.Work{Name: "w", UID: "1", Generation: 3, Nudges: 1}
	receipt := plugin.Receipt{UID: "1", Generation: 4}
	after := func(change func(*plan.Work)) []*plan.Work {
		w := work
		change(&w)
		return []*plan.Work{&w}
	}
	cases := map[string]struct {
		action plan.Action
		works  []*plan.Work
		late   bool
		want   bool
	}{
		"PatchNotSeen":          {plan.Action{Name: "w", Verb: plan.Patch}, after(func(*plan.Work) {}), false, true},
		"PatchNotSeenForLong":   {plan.Action{Name: "w", Verb: plan.Patch}, after(func(*plan.Work) {}), true, true},
		"NudgeNeverSeen":        {plan.Action{Name: "w", Verb: plan.Nudge, Nudges: 2}, after(func(w *plan.Work) { w.Generation = 4 }), true, false},
		"PatchSeen":             {plan.Action{Name: "w", Verb: plan.Patch}, after(func(w *plan.Work) { w.Generation = 4 }), false, false},
		"PatchedAndGone":        {plan.Action{Name: "w", Verb: plan.Patch}, nil, false, false},
		"AnotherInItsPlace":     {plan.Action{Name: "w", Verb: plan.Patch}, after(func(w *plan.Work) { w.UID = "2" }), false, false},
		"CreationNotSeen":       {plan.Action{Name: "w", Verb: plan.Create}, nil, false, true},
		"CreationNeverSeen":     {plan.Action{Name: "w", Verb: plan.Create}, nil, true, false},
		"DeletionNotSeen":       {plan.Action{Name: "w", Verb: plan.Delete}, after(func(*plan.Work) {}), false, true},
		"DeletionSeen":          {plan.Action{Name: "w", Verb: plan.Delete}, after(func(w *plan.Work) { w.Deleting = true }), false, false},
		"DeletionDone":          {plan.Action{Name: "w", Verb: plan.Delete}, nil, false, false},
		"NudgeNotSeen":          {plan.Action{Name: "w", Verb: plan.Nudge, Nudges: 2}, after(func(w *plan.Work) { w.Generation = 4 }), false, true},
		"WorksOfOthersAreOther": {plan.Action{Name: "v", Verb: plan.Create}, after(func(w *plan.Work) { w.Generation = 4 }), false, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var e expectations
			e.expect(key, &tc.action, receipt, now)
			at := now
			if tc.late {
				at = now.Add(patience + time.Second)
			}
			if got := e.unmet(key, tc.works, at); got != tc.want {
				t.Errorf("unmet() = %v, want %v", got, tc.want)
			}
			if e.unmet(Key{Binding: "other"}, nil, at) {
				t.Error("another key waits as well")
			}
			if left := len(e.pending[key]); (left > 0) != tc.want {
				t.Errorf("%d expectations are kept", left)
			}
		})
	}
}

func TestRetries(t *testing.T) {
	var r retries
	if next, changed := r.note("1", true, now); !next.Equal(now.Add(firstNudge)) || !changed {
		t.Errorf("first nudge at %s, changed %t", next.Sub(now), changed)
	}
	at := now
	var delays []time.Duration
	for range 10 {
		r.nudged("1", at)
		next, changed := r.note("1", true, at)
		if changed {
			t.Error("a work that goes on failing changes")
		}
		delays = append(delays, next.Sub(at))
		at = next
	}
	want := []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60, 60}
	for i := range want {
		want[i] *= time.Second
	}
	if diff := cmp.Diff(want, delays); diff != "" {
		t.Errorf("delays (-want +got):\n%s", diff)
	}
	if since := r.since("1", at); !since.Equal(now) {
		t.Errorf("fails since %s, want since the first failure", since.Sub(now))
	}
	if _, changed := r.note("1", false, at); !changed {
		t.Error("a work that does not fail any more does not change")
	}
	if since := r.since("1", at); !since.Equal(at) || len(r.works) != 0 {
		t.Error("a work that does not fail any more is remembered")
	}
}

func TestOutdatedWorks(t *testing.T) {
	var r retries
	r.note("1", true, now)
	r.outdate([]*plan.Work{{UID: "1"}, {UID: "2"}})
	for _, step := range []struct {
		uid  types.UID
		want bool
	}{{"1", true}, {"1", false}, {"3", false}} {
		if got := r.takeOutdated(step.uid); got != step.want {
			t.Errorf("%s is outdated: %t, want %t", step.uid, got, step.want)
		}
	}
	r.outdate([]*plan.Work{{UID: "1"}})
	if !r.takeOutdated("1") {
		t.Error("a work that became outdated again is not nudged")
	}
	r.forget("1")
	r.forget("2")
	if len(r.works)+len(r.outdated) != 0 {
		t.Errorf("works that are gone are kept: %v %v", r.works, r.outdated)
	}
}

func TestWritingsTellEditsFromASpaceThatChangesWhatIsWritten(t *testing.T) {
	after := []plan.Entry{{Ref: settings, Hash: transform.Hash{1}}}
	other := []plan.Entry{{Ref: settings, Hash: transform.Hash{2}}}
	flagged := []plan.Entry{{Ref: settings, Hash: transform.Hash{1}, Options: plan.Options{Orphan: true}}}
	ours := transform.HashOf([]byte("ours"))
	var w writings
	check := func(what string, generation int64, after []plan.Entry, wantKept, wantTexts int) {
		t.Helper()
		repair := plan.Action{
			Verb: plan.Patch, Reason: plan.ReasonRepair, Name: "w", UID: "1", Generation: generation, Recorded: ours, After: after,
		}
		if kept, texts := w.sift([]plan.Action{repair}); len(kept) != wantKept || len(texts) != wantTexts {
			t.Errorf("%s: kept %d, texts %q", what, len(kept), texts)
		}
	}
	check("never written by us", 4, after, 1, 0)
	w.note(plugin.Receipt{UID: "1", Generation: 5, Recorded: ours}, &plan.Action{After: after})
	check("the generation that we wrote is not what we wrote", 5, after, 0, 1)
	check("somebody edited it", 6, after, 1, 0)
	check("something else is wanted", 5, other, 1, 0)
	check("other options are wanted", 5, flagged, 1, 0)
	w.note(plugin.Receipt{UID: "1", Generation: 5}, &plan.Action{Verb: plan.Nudge})
	check("a nudge came after it", 5, after, 0, 1)
	if kept, _ := w.sift([]plan.Action{{Verb: plan.Delete, Reason: plan.ReasonRepair, UID: "1", Generation: 5, Recorded: ours, After: after}}); len(kept) != 1 {
		t.Error("a deletion was held to be futile")
	}
	ours = transform.Hash{}
	check("somebody took the annotation away", 5, after, 1, 0)
	w.forget("1")
	check("forgotten", 5, after, 1, 0)
}
