package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/foresight/explain"
	"github.com/starlinghq/starling/pkg/core/foresight/rollout"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/test/golden"
	"github.com/starlinghq/starling/test/situations"
)

// facts are those of a World. They are copied, since an explanation remembers what it computed.
func facts(w *situations.World) *rollout.Facts {
	o := explain.Object{
		Fleet: w.Fleet, Ref: w.Ref, Version: w.Version, Live: w.Live, Namespace: w.Namespace, Policies: w.Policies, Policy: w.Policy,
		Loose: w.Loose, Transactions: w.Transactions, CustomTransforms: w.CustomTransforms,
	}
	o.Mailboxes = map[string]*explain.Mailbox{}
	for name, box := range w.Mailboxes {
		o.Mailboxes[name] = &explain.Mailbox{Works: box.Works, Reports: box.Reports, Properties: box.Properties}
	}
	return &rollout.Facts{Objects: []*explain.Object{&o}}
}

// TestSituations says of each situation of an object what a rollout says of it: at the first look,
// and after it has lasted.
func TestSituations(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for _, s := range situations.All() {
		fmt.Fprintf(&all, "%s:", s.Name)
		for _, goal := range rollout.Stages() {
			tracker := rollout.NewTracker(goal)
			var results []string
			for _, after := range []time.Duration{0, rollout.Settle, rollout.Patience} {
				w := situations.NewWorld(t)
				s.Change(w)
				is := tracker.Look(situations.Now.Add(after), facts(w))
				results = append(results, string(is.Result))
				checkCounts(t, s.Name, is)
			}
			fmt.Fprintf(&all, " %s %s", goal, strings.Join(results, ","))
		}
		fmt.Fprintln(&all)
	}
	golden.Compare(t, "situations", all.String())
}

func checkCounts(t *testing.T, name string, s *rollout.Status) {
	t.Helper()
	if s.Healthy > s.Applied || s.Applied > s.Delivered || s.Delivered > s.Copies {
		t.Errorf("%s: counts %+v", name, s)
	}
	if (s.Result == rollout.Arrived) != (len(s.Late) == 0) {
		t.Errorf("%s: result %s, late %+v", name, s.Result, s.Late)
	}
	if s.Result == rollout.Arrived && (s.Reached() != s.Copies || s.Copies == 0) {
		t.Errorf("%s: arrived with counts %+v", name, s)
	}
}

// world returns a World in c1 and c2 only, of which all is well.
func world(t *testing.T) *situations.World {
	t.Helper()
	return situations.NewWorld(t)
}

func look(t *testing.T, tracker *rollout.Tracker, after time.Duration, change func(*situations.World)) *rollout.Status {
	t.Helper()
	w := world(t)
	change(w)
	return tracker.Look(situations.Now.Add(after), facts(w))
}

func unchanged(*situations.World) {}

// TestOfThisEdit: only a report of this edit says that a cluster is healthy with it, however long
// another one has lasted.
func TestOfThisEdit(t *testing.T) {
	t.Parallel()
	of := func(generation int64) func(*situations.World) {
		return func(w *situations.World) {
			for _, box := range w.Mailboxes {
				box.Reports.Value[w.Ref].Source = status.Source{UID: w.Live.Value.GetUID(), Generation: generation}
			}
		}
	}
	shared := func(w *situations.World) {
		for cluster, box := range w.Mailboxes {
			w.Item(cluster).Source, box.Reports.Value[w.Ref].Source = "", status.Source{}
		}
	}
	sharedSince := func(w *situations.World) { // and the cluster has not reported since then
		of(1)(w)
		for cluster := range w.Mailboxes {
			w.Item(cluster).Source = ""
		}
	}
	for name, tc := range map[string]struct {
		change          func(*situations.World)
		atOnce, forever rollout.Result
		applied         int
	}{
		"OfThisGeneration":      {of(2), rollout.Arrived, rollout.Arrived, 3},
		"OfAnEarlierGeneration": {of(1), rollout.Waiting, rollout.Waiting, 3},
		"OfNoGeneration":        {of(0), rollout.Waiting, rollout.Waiting, 3},
		"DeliveredByTwoSpaces":  {shared, rollout.Waiting, rollout.Unknown, 3},
		"ByTwoSpacesSinceThen":  {sharedSince, rollout.Waiting, rollout.Waiting, 3},
	} {
		tracker := rollout.NewTracker(rollout.Healthy)
		for after, want := range map[time.Duration]rollout.Result{0: tc.atOnce, time.Hour: tc.forever} {
			if after > 0 {
				look(t, tracker, 0, tc.change)
			}
			if got := look(t, tracker, after, tc.change); got.Result != want || got.Applied != tc.applied || (got.Healthy == got.Copies) != (want == rollout.Arrived) {
				t.Errorf("%s, after %s: %+v", name, after, got)
			}
		}
		if got := look(t, rollout.NewTracker(rollout.Applied), 0, tc.change); got.Result != rollout.Arrived {
			t.Errorf("%s: it is applied: %+v", name, got)
		}
	}
}

// TestRefusal: what the cluster refuses of this content fails at once, with the cluster's name;
// that it is not healthy has to last.
func TestRefusal(t *testing.T) {
	t.Parallel()
	refused := func(w *situations.World) { w.Fails("c2", `admission webhook "no" denied the request`) }
	got := look(t, rollout.NewTracker(rollout.Applied), 0, refused)
	if got.Result != rollout.Failed || len(got.Late) != 1 || !cmp.Equal(got.Late[0].Clusters, []string{"c2"}) || !strings.Contains(got.Late[0].Text, "denied the request") {
		t.Errorf("refused: %+v", got)
	}
	if got := look(t, rollout.NewTracker(rollout.Delivered), 0, refused); got.Result != rollout.Arrived {
		t.Errorf("refused, and only waited for until delivered: %+v", got)
	}
	unhealthy := func(w *situations.World) {
		w.Mailboxes["c2"].Reports.Value[w.Ref].Status["conditions"] = []any{map[string]any{
			"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "too late",
		}}
	}
	tracker := rollout.NewTracker(rollout.Healthy)
	if got := look(t, tracker, 0, unhealthy); got.Result != rollout.Waiting {
		t.Errorf("unhealthy at once: %+v", got)
	}
	if got := look(t, tracker, rollout.Settle, unhealthy); got.Result != rollout.Failed {
		t.Errorf("unhealthy for some time: %+v", got)
	}
	before := func(w *situations.World) {
		unhealthy(w)
		w.Mailboxes["c2"].Reports.Value[w.Ref].Source.Generation--
	}
	tracker = rollout.NewTracker(rollout.Healthy)
	for _, after := range []time.Duration{0, time.Hour} {
		if got := look(t, tracker, after, before); got.Result != rollout.Waiting {
			t.Errorf("unhealthy before this edit, after %s: %+v", after, got)
		}
	}
}

// TestUnreachable: a cluster that is away is waited for. What it reported of this content counts.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	gone := func(w *situations.World) { w.Clusters.Value["c2"].Lease.Value.Renewed = situations.Now.Add(-time.Hour) }
	if got := look(t, rollout.NewTracker(rollout.Applied), 0, gone); got.Result != rollout.Arrived {
		t.Errorf("it had applied the content: %+v", got)
	}
	outdated := func(w *situations.World) {
		gone(w)
		item := w.Item("c2")
		item.State = plan.Pending
	}
	tracker := rollout.NewTracker(rollout.Applied)
	for _, after := range []time.Duration{0, time.Hour} {
		if got := look(t, tracker, after, outdated); got.Result != rollout.Waiting || got.Applied != got.Copies-1 || !cmp.Equal(got.Late[0].Clusters, []string{"c2"}) {
			t.Errorf("it has not applied it: %+v", got)
		}
	}
}

// TestAnotherEdit: an edit that comes meanwhile is not the one that is waited for.
func TestAnotherEdit(t *testing.T) {
	t.Parallel()
	tracker := rollout.NewTracker(rollout.Applied)
	pending := func(w *situations.World) { w.Item("c1").State = plan.Pending }
	if got := look(t, tracker, 0, pending); got.Result != rollout.Waiting {
		t.Fatalf("first: %+v", got)
	}
	got := look(t, tracker, time.Second, func(w *situations.World) {
		live := w.Live.Value.DeepCopy()
		live.Object["spec"] = map[string]any{"replicas": int64(9)}
		w.Live = foresight.Known(live)
	})
	if got.Result != rollout.Failed || !strings.Contains(got.Late[0].Text, "was changed again") {
		t.Errorf("edited: %+v", got)
	}
	// What controllers of the WDS write is no edit.
	got = look(t, tracker, time.Second, func(w *situations.World) {
		live := w.Live.Value.DeepCopy()
		live.SetResourceVersion("77")
		live.Object["status"] = map[string]any{"replicas": int64(2)}
		w.Live = foresight.Known(live)
	})
	if got.Result != rollout.Arrived {
		t.Errorf("its status was returned: %+v", got)
	}
}

// TestLeaving: an edit that takes objects off clusters has arrived when the mailboxes are without
// them.
func TestLeaving(t *testing.T) {
	t.Parallel()
	tracker := rollout.NewTracker(rollout.Applied)
	got := look(t, tracker, 0, narrow)
	if got.Result != rollout.Waiting || got.Leaving != 1 || got.Copies != 2 || !cmp.Equal(got.Late[0].Clusters, []string{"c3"}) {
		t.Errorf("it is still in the mailbox: %+v", got)
	}
	if got := look(t, tracker, time.Second, func(w *situations.World) {
		narrow(w)
		w.Mailboxes["c3"].Works.Value = nil
	}); got.Result != rollout.Arrived || got.Leaving != 0 {
		t.Errorf("it has left: %+v", got)
	}
}

// ofPolicy returns the facts of a policy, with those objects that a tracker is not done with.
func ofPolicy(w *situations.World, tracker *rollout.Tracker) *rollout.Facts {
	f := facts(w)
	f.Objects[0].Policy = w.Selecting.Name
	p := &explain.Policy{Fleet: f.Objects[0].Fleet, Name: w.Selecting.Name}
	p.Selection = foresight.Known(explain.Selection{Policy: w.Selecting, Bindings: foresight.Known([]*controlv1alpha1.Binding{w.Binding})})
	f.Policies = []*explain.Policy{p}
	if tracker.Done(w.Ref) {
		f.Objects = nil
	}
	return f
}

// TestPolicy: a policy is waited for as it is, and the objects that have arrived are not looked at
// again.
func TestPolicy(t *testing.T) {
	t.Parallel()
	tracker := rollout.NewTracker(rollout.Applied)
	w := world(t)
	w.Selecting.Status.ObservedGeneration--
	if got := tracker.Look(situations.Now, ofPolicy(w, tracker)); got.Result != rollout.Waiting || got.Late[0].Subject != "BindingPolicy web" || tracker.Done(w.Ref) {
		t.Errorf("a policy that was not observed: %+v", got)
	}
	for range 2 {
		if got := tracker.Look(situations.Now, ofPolicy(world(t), tracker)); got.Result != rollout.Arrived || got.Copies != 3 || got.Applied != 3 || got.Clusters != 3 || !tracker.Done(w.Ref) {
			t.Errorf("observed: %+v", got)
		}
	}
	f := ofPolicy(world(t), tracker)
	f.Policies[0].Unlisted = foresight.Known([]objref.Ref{{Resource: "configmaps", Namespace: "shop", Name: "new"}})
	if got := tracker.Look(situations.Now, f); got.Result != rollout.Waiting || got.Late[0].Link != explain.LinkListed {
		t.Errorf("an object was created: %+v", got)
	}
	w = world(t)
	w.Selecting.Generation++
	w.Selecting.Status.ObservedGeneration++
	if got := tracker.Look(situations.Now, ofPolicy(w, tracker)); got.Result != rollout.Failed {
		t.Errorf("edited again: %+v", got)
	}
}

// narrow takes c3 off the policy and off its Binding.
func narrow(w *situations.World) {
	w.Clusters.Value["c3"].Labels = nil
	w.Binding.Spec.Destinations = w.Binding.Spec.Destinations[:2]
}

// TestGainedCluster: an edit of the policy or the label of a cluster sends an object to c3, too.
// It has not arrived before it is there, though it is Done in the others.
func TestGainedCluster(t *testing.T) {
	t.Parallel()
	before := func(w *situations.World) {
		narrow(w)
		w.Undelivered("c3")
	}
	for name, gain := range map[string]func(*situations.World){
		"edit of the policy, not observed": func(w *situations.World) {
			w.Clusters.Value["c3"].Labels["env"] = "prod"
			w.Selecting.Status.ObservedGeneration--
		},
		"edit of the policy, not observed, without an ITS": func(w *situations.World) {
			w.WithoutITS()
			w.Selecting.Status.ObservedGeneration--
		},
		"label":                        func(w *situations.World) { w.Clusters.Value["c3"].Labels["env"] = "prod" },
		"label that the Binding lists": func(w *situations.World) { *w = *world(t); w.Undelivered("c3") },
	} {
		for _, named := range []bool{true, false} {
			of := func(w *situations.World, tracker *rollout.Tracker) *rollout.Facts {
				if named {
					return facts(w)
				}
				return ofPolicy(w, tracker)
			}
			for _, doneBefore := range []bool{true, false} {
				tracker := rollout.NewTracker(rollout.Applied)
				if doneBefore { // while another object is waited for
					w := world(t)
					before(w)
					if got := tracker.Look(situations.Now, of(w, tracker)); got.Result != rollout.Arrived || got.Copies != 2 {
						t.Fatalf("%s, named %t: before: %+v", name, named, got)
					}
				}
				if doneBefore && strings.Contains(name, "without an ITS") {
					continue // it is known to be there
				}
				for range 2 {
					w := world(t)
					before(w)
					w.Clusters.Value["c3"].Labels = map[string]string{}
					gain(w)
					got := tracker.Look(situations.Now, of(w, tracker))
					checkCounts(t, name, got)
					if got.Result != rollout.Waiting || tracker.Done(w.Ref) {
						t.Errorf("%s, named %t, done before %t: %+v", name, named, doneBefore, got)
					}
				}
				w := world(t)
				if got := tracker.Look(situations.Now, of(w, tracker)); got.Result != rollout.Arrived || got.Copies != 3 {
					t.Errorf("%s, named %t, done before %t: it has arrived: %+v", name, named, doneBefore, got)
				}
			}
		}
	}
}

// TestAnotherVersion: an object is read in the version that is named, and in that of the Binding
// when there is one. That is no other edit.
func TestAnotherVersion(t *testing.T) {
	t.Parallel()
	in := func(version string, change func(*situations.World)) *rollout.Facts {
		w := world(t)
		w.Live.Value.SetAPIVersion("apps/" + version)
		w.Version = version
		change(w)
		return facts(w)
	}
	edited := func(w *situations.World) { w.Live.Value.Object["spec"] = map[string]any{"replicas": int64(9)} }
	again := func(w *situations.World) { w.Live.Value.SetGeneration(3) }
	created := func(w *situations.World) { w.Live.Value.SetUID("u2") }
	for name, tc := range map[string]struct {
		next       *rollout.Facts
		superseded bool
	}{
		"the same":                       {in("v1", unchanged), false},
		"another generation":             {in("v1", again), true},
		"re-created":                     {in("v1", created), true},
		"same version":                   {in("v1beta1", unchanged), false},
		"same version, edited":           {in("v1beta1", edited), true},
		"same version, re-created":       {in("v1beta1", created), true},
		"same version, other generation": {in("v1beta1", again), false},
	} {
		tracker := rollout.NewTracker(rollout.Applied)
		tracker.Look(situations.Now, in("v1beta1", func(w *situations.World) { w.Item("c1").State = plan.Pending }))
		superseded := func(s *rollout.Status) bool {
			return s.Result == rollout.Failed && strings.Contains(s.Late[0].Text, "was changed again")
		}
		if got := tracker.Look(situations.Now, tc.next); superseded(got) != tc.superseded {
			t.Errorf("%s: %+v, want superseded %t", name, got, tc.superseded)
		}
	}
	tracker := rollout.NewTracker(rollout.Delivered)
	tracker.Look(situations.Now, in("v1beta1", (*situations.World).Unlist))
	tracker.Look(situations.Now, in("v1", func(w *situations.World) { w.Undelivered("c1") }))
	if got := tracker.Look(situations.Now, in("v1", edited)); got.Result != rollout.Failed {
		t.Errorf("edited in the version of the Binding: %+v", got)
	}
}

// TestPolicyAndObject: an object that is named, and that a named policy selects, counts once.
func TestPolicyAndObject(t *testing.T) {
	t.Parallel()
	w := world(t)
	narrow(w)
	w.Item("c1").State = plan.Pending
	f := facts(w)
	of := *f.Objects[0]
	of.Policy = w.Selecting.Name
	p := &explain.Policy{Fleet: of.Fleet, Name: w.Selecting.Name}
	p.Selection = foresight.Known(explain.Selection{Policy: w.Selecting, Bindings: foresight.Known([]*controlv1alpha1.Binding{w.Binding})})
	f.Policies, f.Objects = []*explain.Policy{p}, []*explain.Object{&of, f.Objects[0]}
	got := rollout.NewTracker(rollout.Applied).Look(situations.Now, f)
	if got.Objects != 1 || got.Copies != 2 || got.Applied != 1 || got.Leaving != 1 || len(got.Late) != 2 {
		t.Errorf("counts %+v", got)
	}
}

// TestRemovalUnread: a mailbox that could not be read may still have a copy that no Binding lists.
func TestRemovalUnread(t *testing.T) {
	t.Parallel()
	hidden := func(w *situations.World) {
		narrow(w)
		w.Mailboxes["c3"] = &explain.Mailbox{Works: foresight.Unread[[]*plan.Work]("you may not list manifestworks in ITS its2")}
	}
	noClusters := func(w *situations.World) { w.Clusters.Unread = "ITS its2 does not answer" }
	for _, change := range []func(*situations.World){hidden, noClusters} {
		tracker := rollout.NewTracker(rollout.Applied)
		if got := look(t, tracker, 0, change); got.Result != rollout.Waiting {
			t.Errorf("at once: %+v", got)
		}
		if got := look(t, tracker, rollout.Patience, change); got.Result != rollout.Unknown || !strings.Contains(got.Late[0].Text, "whether it is being removed") {
			t.Errorf("later: %+v", got)
		}
	}
}

// TestUnread: what may not be read for some time will not be known.
func TestUnread(t *testing.T) {
	t.Parallel()
	unread := func(w *situations.World) {
		w.Mailboxes["c1"] = &explain.Mailbox{Works: foresight.Unread[[]*plan.Work]("you may not list manifestworks in ITS its1")}
	}
	tracker := rollout.NewTracker(rollout.Applied)
	if got := look(t, tracker, 0, unread); got.Result != rollout.Waiting {
		t.Errorf("at once: %+v", got)
	}
	if got := look(t, tracker, rollout.Patience, unread); got.Result != rollout.Unknown || !strings.Contains(got.Late[0].Text, "you may not list manifestworks") {
		t.Errorf("later: %+v", got)
	}
}
