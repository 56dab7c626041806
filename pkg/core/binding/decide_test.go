package binding

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// selected is what a policy selects: ConfigMaps of these names, at version 1.
func selectedNames(names ...string) match.Snapshot {
	var s match.Snapshot
	for _, name := range names {
		s.Matches = append(s.Matches, match.Match{
			Ref:     objref.Ref{Resource: "configmaps", Namespace: "n", Name: name},
			Version: "v1", ResourceVersion: "1", Exact: true, Modulation: &controlv1alpha1.DownsyncModulation{},
		})
	}
	s.Clusters = []string{"c1"}
	return s
}

func somePolicy() *controlv1alpha1.BindingPolicy {
	return &controlv1alpha1.BindingPolicy{ObjectMeta: metav1.ObjectMeta{
		Name: "p", UID: "policy", Generation: 3, ResourceVersion: "30", Finalizers: []string{controlv1alpha1.BindingPolicyFinalizer},
	}}
}

// someBinding is the Binding that decide makes for the policy and those names, as the transport has
// carried it out.
func someBinding(names ...string) *controlv1alpha1.Binding {
	in := someState(names...)
	in.First = nil
	b := Decide(in).Writes[0].After
	b.UID, b.Generation, b.ResourceVersion = "binding", 2, "20"
	b.Status.ObservedGeneration = 2
	for _, c := range []string{controlv1alpha1.BindingConditionDelivered, controlv1alpha1.BindingConditionApplied} {
		meta.SetStatusCondition(&b.Status.Conditions, metav1.Condition{Type: c, Status: metav1.ConditionTrue, Reason: c})
	}
	return b
}

func someState(names ...string) *State {
	return &State{
		Policy:   somePolicy(),
		Selected: selectedNames(names...),
		Unread:   Unread{Read: map[schema.GroupResource]bool{{Resource: "configmaps"}: true}},
		MaxSize:  DefaultMaxSize,
		Now:      noon,
	}
}

func TestDecide(t *testing.T) {
	cases := map[string]struct {
		reason     string
		change     func(*State)
		wantWrite  string // reason, and names of objects
		wantFinal  bool
		wantAfter  time.Duration
		wantSettle bool
	}{
		"AsItShouldBe": {"no write", func(*State) {}, "", false, 0, true},
		"New": {"created at once, after the finalizer", func(in *State) {
			in.First, in.Policy.Finalizers = nil, nil
			in.WaitSet = time.Hour
		}, "placed a b", true, 0, false},
		"Added":      {"after quiet, at once", func(in *State) { in.Selected = selectedNames("a", "b", "c") }, "set a b c", false, 0, false},
		"Removed":    {"likewise", func(in *State) { in.Selected = selectedNames("a") }, "set a", false, 0, false},
		"UnderLoad":  {"changes gather", func(in *State) { in.Selected, in.WaitSet = selectedNames("a"), 30*time.Millisecond }, "", false, 30 * time.Millisecond, false},
		"Version":    {"a version is followed", func(in *State) { in.Selected.Matches[0].ResourceVersion = "2" }, "versions a b", false, 0, false},
		"VersionTwo": {"but not often", func(in *State) { in.Selected.Matches[0].ResourceVersion, in.WaitVersions = "2", time.Second }, "", false, time.Second, false},
		"VersionAndSet": {"it is included in other changes", func(in *State) {
			in.Selected, in.WaitVersions = selectedNames("a", "c"), time.Second
		}, "set a c", false, 0, false},
		"Invalid": {"the Binding stays", func(in *State) { in.Invalid, in.Selected = []string{"x"}, match.Snapshot{} }, "", false, 0, false},
		"Taken":   {"somebody else's Binding stays", func(in *State) { in.First.OwnerReferences, in.Selected = nil, match.Snapshot{} }, "", false, 0, false},
		"Leaving": {"a Binding that goes is not changed", func(in *State) {
			in.First.DeletionTimestamp, in.Selected = &metav1.Time{Time: noon}, match.Snapshot{}
		}, "", false, 0, false},
		"Unread": {"what is unread stays, what is known follows", func(in *State) {
			in.Selected = match.Snapshot{}
			in.Missing, in.MissingSince, in.Unread = []string{"configmaps"}, noon, Unread{}
		}, "set a b", false, RecheckUnread, false},
		"Annotated": {"the policy's annotations are handed on, also if nothing else is to be done", func(in *State) {
			in.UpToDate = true
			in.Policy.Annotations = map[string]string{controlv1alpha1.AnnotationApply: "server-side"}
		}, "annotations a b", false, 0, false},
		"AnnotatedAndEqual": {"likewise", func(in *State) {
			in.Policy.Annotations = map[string]string{controlv1alpha1.AnnotationApply: "server-side"}
		}, "annotations a b", false, 0, false},
		"Settled": {"nothing is computed", func(in *State) { in.UpToDate, in.Selected = true, match.Snapshot{} }, "", false, 0, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := someState("a", "b")
			in.First = someBinding("a", "b")
			tc.change(in)
			p := Decide(in)
			got := ""
			for _, change := range p.Writes {
				got += change.Reason
				for _, c := range change.After.Spec.Workload.NamespaceScope {
					got += " " + c.Name
				}
			}
			if got != tc.wantWrite || p.AddFinalizer != tc.wantFinal || time.Duration(p.After) != tc.wantAfter || p.UpToDate != tc.wantSettle {
				t.Errorf("%s: write %q, finalizer %t, after %s, settled %t; want %q %t %s %t", tc.reason,
					got, p.AddFinalizer, time.Duration(p.After), p.UpToDate, tc.wantWrite, tc.wantFinal, tc.wantAfter, tc.wantSettle)
			}
			if len(p.Writes) > 0 && in.First != nil && p.Writes[0].After.ResourceVersion != in.First.ResourceVersion {
				t.Error("an update without the version that it was decided on")
			}
		})
	}
}

// overflowing is the plan for a policy with so large Bindings as hold two of the names each.
func overflowing(change func(*State), names ...string) []string {
	in := someState(names...)
	in.MaxSize = 350
	in.First = someBinding("a", "b")
	second := someBinding("c", "d")
	second.Name, second.UID = "p--2", "second"
	in.Overflow = []*controlv1alpha1.Binding{second}
	in.NamesTaken = map[string]bool{"p--2": true}
	change(in)
	var got []string
	for _, c := range Decide(in).Writes {
		if c.After == nil {
			got = append(got, "delete "+c.Before.Name+": "+c.Reason)
			continue
		}
		text := c.After.Name + ": " + c.Reason
		for _, o := range c.After.Spec.Workload.NamespaceScope {
			text += " " + o.Name
		}
		if _, labelled := c.After.Labels[controlv1alpha1.LabelOverflowOf]; labelled {
			text += " (labelled)"
		}
		got = append(got, text)
	}
	return got
}

func TestDecideOverflow(t *testing.T) {
	nothing := func(*State) {}
	cases := map[string]struct {
		names  string
		change func(*State)
		want   []string
	}{
		"AsItShouldBe":  {"a b c d", nothing, nil},
		"More":          {"a b c d e f g", nothing, []string{"p--3: placed e f (labelled)", "p--4: placed g (labelled)"}},
		"NameTaken":     {"a b c d e", func(in *State) { in.NamesTaken = map[string]bool{"p--2": true, "p--3": true} }, []string{"p--4: placed e (labelled)"}},
		"RoomInFirst":   {"0 a c d", nothing, []string{"p: set 0 a"}},
		"Empty":         {"a b", nothing, []string{"p--2: set"}},
		"Emptied":       {"a b", func(in *State) { in.Overflow[0].Spec.Workload = controlv1alpha1.DownsyncObjectClauses{} }, []string{"delete p--2: empty"}},
		"FirstEmpty":    {"c d", nothing, []string{"p: set"}},
		"FirstDeleted":  {"a b c d", func(in *State) { in.First = nil }, []string{"p: placed a b"}},
		"SecondLeaving": {"a b c d", func(in *State) { in.Overflow[0].DeletionTimestamp = &metav1.Time{Time: noon} }, []string{"p--3: placed c d (labelled)"}},
		"SecondUnread": {"a b", func(in *State) {
			in.Unread, in.Missing = Unread{}, []string{"configmaps"}
		}, nil},
		"Twice": {"a b c d", func(in *State) {
			in.Overflow[0].Spec.Workload.NamespaceScope = append(in.Overflow[0].Spec.Workload.NamespaceScope, in.First.Spec.Workload.NamespaceScope[0])
		}, []string{"p--2: set c d"}},
		"Annotated": {"a b c d", func(in *State) {
			in.Policy.Annotations = map[string]string{controlv1alpha1.AnnotationApply: "server-side"}
		}, []string{"p: annotations a b", "p--2: annotations c d"}},
		"Clusters": {"a b c d", func(in *State) { in.Selected.Clusters = []string{"c2"} }, []string{"p: set a b", "p--2: set c d"}},
		"Versions": {"a b c d", func(in *State) { in.Selected.Matches[3].ResourceVersion = "2" }, []string{"p--2: versions c d"}},
		"Paced":    {"a b c d", func(in *State) { in.Selected.Matches[3].ResourceVersion, in.WaitVersions = "2", time.Second }, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, overflowing(tc.change, strings.Fields(tc.names)...)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAllowanceIsRemoved: the annotation that allowed a removal is removed when nothing is left to
// allow, also if an earlier attempt to remove it failed; and no sooner.
func TestAllowanceIsRemoved(t *testing.T) {
	dozen := func(n int) (clusters []string) {
		for i := range n {
			clusters = append(clusters, fmt.Sprintf("c%02d", i))
		}
		return clusters
	}
	holding := func(change func(*State)) *State {
		in := someState("a", "b", "c", "d")
		in.Selected.Clusters = dozen(12)
		in.MaxSize = 350 + 12*20
		in.First, in.Overflow = nil, nil
		for i, change := range Decide(in).Writes {
			change.After.ResourceVersion, change.After.UID = "1", types.UID(fmt.Sprint(i))
			if i == 0 {
				in.First = change.After
			} else {
				in.Overflow = append(in.Overflow, change.After)
			}
		}
		if len(in.Overflow) == 0 {
			t.Fatal("there is no overflow")
		}
		in.RemovalBlock.Percent, in.RemovalBlock.Count = 50, -1
		in.RemovalBlock.Token = "token"
		change(in)
		return in
	}
	away := func(in *State) { in.Selected.Matches, in.Selected.Clusters = selectedNames("x").Matches, dozen(12) }
	held := Decide(holding(away)).Blocked
	if held == nil {
		t.Fatal("nothing is held")
	}
	cases := map[string]struct {
		change               func(*State)
		wantSpent, wantWrite bool
		wantHeld             bool
	}{
		"Settled":    {func(in *State) { in.UpToDate = true }, true, false, false},
		"AsItShould": {func(*State) {}, true, false, false},
		"NoneThere":  {func(in *State) { in.RemovalBlock.Token = "" }, false, false, false},
		"Unread":     {func(in *State) { in.Missing = []string{"x"} }, false, false, false},
		"AnotherOne": {away, false, false, true},
		"Released":   {func(in *State) { away(in); in.RemovalBlock.Token = held.Token }, true, true, false},
		"UnderLoad":  {func(in *State) { away(in); in.RemovalBlock.Token = held.Token; in.WaitSet = time.Second }, false, false, false},
		"HalfWritten": {func(in *State) {
			away(in)
			in.RemovalBlock.Token, in.First.Spec.Workload = held.Token, controlv1alpha1.DownsyncObjectClauses{}
			in.RemovalBlock.Begun = held
		}, true, true, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := Decide(holding(tc.change))
			if p.RemoveAllowance != tc.wantSpent || len(p.Writes) > 0 != tc.wantWrite || (p.Blocked != nil) != tc.wantHeld {
				t.Errorf("spent %t, %d writes, held %+v; want %t, %t, %t", p.RemoveAllowance, len(p.Writes), p.Blocked, tc.wantSpent, tc.wantWrite, tc.wantHeld)
			}
		})
	}
}

func TestMerge(t *testing.T) {
	of := func(delivered, applied metav1.ConditionStatus, message string, errs ...string) *controlv1alpha1.Binding {
		b := someBinding("a")
		b.Status.Errors = errs
		b.Status.Conditions = []metav1.Condition{
			{Type: controlv1alpha1.BindingConditionDelivered, Status: delivered, Message: message},
			{Type: controlv1alpha1.BindingConditionApplied, Status: applied, Message: message},
		}
		return b
	}
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	behind := of(yes, yes, "3")
	behind.Generation++
	silent := of(yes, yes, "")
	silent.Status.Conditions = nil
	cases := map[string]struct {
		bindings       []*controlv1alpha1.Binding
		want           []string
		wantUnobserved bool
	}{
		"One":    {[]*controlv1alpha1.Binding{of(no, no, "1", "x")}, []string{"False 1", "False 1", "x"}, false},
		"All":    {[]*controlv1alpha1.Binding{of(yes, yes, "1"), of(yes, yes, "2")}, []string{"True 1; 2", "True 1; 2"}, false},
		"Worst":  {[]*controlv1alpha1.Binding{of(yes, unknown, "1", "x"), of(no, no, "2", "y"), of(no, unknown, "3")}, []string{"False 2; 3", "False 2", "x", "y"}, false},
		"Behind": {[]*controlv1alpha1.Binding{of(yes, yes, "1"), behind}, []string{"True 1; 3", "True 1; 3"}, true},
		"Silent": {[]*controlv1alpha1.Binding{of(no, no, "1"), silent}, nil, false},
		"Many": {
			[]*controlv1alpha1.Binding{of(no, yes, "1"), of(no, yes, "2"), of(no, yes, "3"), of(no, yes, "4"), of(no, yes, "1")},
			[]string{"False 1; 2; 3 … and 1 more", "True 1; 2; 3 … and 1 more"},
			false,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			merged := merge(tc.bindings)
			var got []string
			for _, c := range merged.Status.Conditions {
				got = append(got, string(c.Status)+" "+c.Message)
			}
			got = append(got, merged.Status.Errors...)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if unobserved(merged) != tc.wantUnobserved {
				t.Errorf("unobserved: %t", !tc.wantUnobserved)
			}
		})
	}
}

// TestStatusFromBindings: conditions, counts and problems of all Bindings are the
// policy's; of somebody else's none.
func TestStatusFromBindings(t *testing.T) {
	in := someState("a", "b")
	first, second := someBinding("a"), someBinding("b")
	first.Status.Problems, first.Status.ProblemsCount = []string{"c1: a", "c3: a"}, 2
	second.Status.Problems, second.Status.ProblemsCount = []string{"c2: b"}, 1
	first.Status.Rollup = &controlv1alpha1.Rollup{Objects: 2, Clusters: 3, Copies: 6, Applied: 5, Healthy: 4}
	meta.SetStatusCondition(&second.Status.Conditions, metav1.Condition{Type: "Applied", Status: "False", Reason: "Failed"})
	show := func() string {
		bindings := in.Bindings()
		if len(bindings) == 0 {
			bindings = append(bindings, in.First)
		}
		status, _ := Status(in, &Decision{}, Result{Bindings: bindings})
		text := fmt.Sprint(status.Problems, " of ", status.ProblemsCount)
		if r := status.Rollup; r != nil {
			text += fmt.Sprintf(" %d objects, %d clusters, applied %s, healthy %s", r.Objects, r.Clusters, r.AppliedOf, r.HealthyOf)
		}
		for _, kind := range transported {
			if c := meta.FindStatusCondition(status.Conditions, kind); c != nil {
				text += fmt.Sprintf(" %s=%s/%d", c.Type, c.Status, c.ObservedGeneration)
			}
		}
		return text
	}
	in.First, in.Overflow = first, []*controlv1alpha1.Binding{second}
	if got, want := show(), "[c1: a c2: b c3: a] of 3 Delivered=True/3 Applied=False/3"; got != want {
		t.Errorf("not all have counted:\n got %s\nwant %s", got, want)
	}
	second.Status.Rollup = &controlv1alpha1.Rollup{Objects: 1, Clusters: 3, Copies: 3, Applied: 3, Healthy: 3}
	if got, want := show(), "[c1: a c2: b c3: a] of 3 3 objects, 3 clusters, applied 8/9, healthy 7/9 Delivered=True/3 Applied=False/3"; got != want {
		t.Errorf("all have counted:\n got %s\nwant %s", got, want)
	}
	for i := range 12 {
		second.Status.Problems = append(second.Status.Problems, fmt.Sprintf("c4: %02d", i))
	}
	second.Status.ProblemsCount = 100
	if got := merge(in.Bindings()).Status; len(got.Problems) != 10 || got.Problems[0] != "c1: a" || got.ProblemsCount != 102 {
		t.Errorf("%d problems, %q", got.ProblemsCount, got.Problems)
	}
	in.First, in.Overflow = first, nil
	first.OwnerReferences = nil
	if got := show(); got != "[] of 0" {
		t.Errorf("somebody else's Binding: %s", got)
	}
}

func TestStatus(t *testing.T) {
	deleted := metav1.NewTime(noon)
	cases := map[string]struct {
		change func(*State, *Result)
		want   []string
	}{
		"Applied":   {func(*State, *Result) {}, []string{"True Synced", "True Applied"}},
		"NoBinding": {func(_ *State, d *Result) { d.Bindings = nil }, []string{"True Synced", "False NotDelivered: the transport-controller has not observed the Binding yet"}},
		"NoClusters": {
			func(_ *State, d *Result) { d.Bindings[0].Spec.Destinations = nil },
			[]string{"True Synced: no destinations: spec.clusterSelectors is empty", "False NoDestinations: no destinations: spec.clusterSelectors is empty"},
		},
		"NoTransport": {
			func(_ *State, d *Result) { d.Bindings[0].Status.Conditions = nil },
			[]string{"True Synced", "False NotDelivered: the transport-controller has not reported on the Binding yet"},
		},
		"Behind": {
			func(_ *State, d *Result) { d.Bindings[0].Generation++ },
			[]string{"True Synced", "False NotDelivered: the transport-controller has not observed the Binding yet"},
		},
		"NotApplied": {func(_ *State, d *Result) {
			d.Bindings[0].Status.Conditions[1].Status = metav1.ConditionFalse
			d.Bindings[0].Status.Conditions[1].Message = "c1: no room"
			d.Bindings[0].Status.Errors = []string{"c1: no room"}
		}, []string{"True Synced", "False NotApplied: c1: no room", "c1: no room"}},
		"Errors": {
			func(in *State, _ *Result) { in.Unserved = []string{"z", "a"} },
			[]string{"True Synced", "False Errors: see status.errors", "a", "z"},
		},
		"Invalid": {
			func(in *State, _ *Result) { in.Invalid = []string{"spec.a: x", "spec.b: y"} },
			[]string{"False InvalidSpec: invalid spec: spec.a: x … and 1 more. The Bindings stay unchanged until it is corrected", "False NotSynced: see condition Synced", "spec.a: x", "spec.b: y"},
		},
		"Taken": {
			func(in *State, d *Result) {
				in.First.OwnerReferences, d.Bindings[0].OwnerReferences = nil, nil
				d.Bindings[0].Status.Errors = []string{"theirs"}
			},
			[]string{`False NameTaken: Binding "p" belongs to another owner: re-create the policy under another name`, "False NotSynced: see condition Synced"},
		},
		"Deleting": {func(in *State, d *Result) {
			in.Policy.DeletionTimestamp = &deleted
			d.Bindings[0].Status.Conditions[0] = metav1.Condition{Type: "Delivered", Status: metav1.ConditionFalse, Reason: controlv1alpha1.ReasonDeleting, Message: "c1 holds works"}
		}, []string{"False Deleting: waiting for the objects to leave the clusters: c1 holds works", "False NotSynced: see condition Synced"}},
		"BindingDeleted": {
			func(in *State, _ *Result) { in.First.DeletionTimestamp = &deleted },
			[]string{"False Deleting: the Binding is being deleted by a user. It is re-created when its objects have left the clusters", "False NotSynced: see condition Synced"},
		},
		"WriteFailed": {
			func(_ *State, d *Result) { d.Err = fmt.Errorf("too large") },
			[]string{"False Failed: cannot write the Binding, will retry: too large", "False NotSynced: see condition Synced"},
		},
		"NotServedForAMoment": {func(in *State, _ *Result) {
			in.NotServed.NoResponse, in.MissingSince = []string{"x"}, noon.Add(-time.Second)
		}, nil},
		"NotServed": {func(in *State, _ *Result) {
			in.NotServed.NoVersion, in.MissingSince = []string{"x"}, noon.Add(-RecheckUnread)
		}, []string{
			"Unknown NotObserved: not served for now, existing entries are kept: x. Set served: true in a version of its CustomResourceDefinition, " +
				"or delete the CustomResourceDefinition to remove the objects from the clusters",
			"Unknown NotSynced: see condition Synced",
		}},
		"UnreadForAMoment": {func(in *State, _ *Result) { in.Missing, in.MissingSince = []string{"x"}, noon.Add(-time.Second) }, nil},
		"Reading": {func(in *State, _ *Result) {
			in.Missing, in.Reading, in.MissingSince = []string{"x"}, true, noon.Add(-time.Minute)
		}, nil},
		"ReadingForever": {func(in *State, _ *Result) {
			in.Missing, in.Reading, in.MissingSince = []string{"x"}, true, noon.Add(-reportReading)
		}, []string{"Unknown NotObserved: not synced since startup, existing entries are kept: x", "Unknown NotSynced: see condition Synced"}},
		"ReadingButNotServed": {func(in *State, _ *Result) {
			in.Missing, in.Reading, in.MissingSince = []string{"x"}, true, noon.Add(-RecheckUnread)
			in.NotServed.NoResponse = []string{"y"}
		}, []string{
			"Unknown NotObserved: not synced since startup, existing entries are kept: x; the API server of this resource does not respond, " +
				"existing entries are kept: y. Repair it, or delete its APIService to remove the objects from the clusters",
			"Unknown NotSynced: see condition Synced",
		}},
		"BrokenForAMoment": {func(in *State, _ *Result) {
			in.Missing, in.Broken, in.MissingSince = []string{"x"}, []Broken{{Name: "x", Err: "no"}}, noon.Add(-time.Second)
		}, nil},
		"Broken": {func(in *State, _ *Result) {
			in.Missing, in.Broken = []string{"x"}, []Broken{{Name: "x", Err: "no", Settled: true}}
		}, []string{
			"True Synced: objects that cannot be read are not delivered: x (no). Repair it, or delete its CustomResourceDefinition or APIService",
			"True Applied",
		}},
		"BrokenAfterItWasRead": {func(in *State, _ *Result) {
			in.Broken = []Broken{{Name: "x", Err: "no"}}
		}, []string{
			"True Synced: objects that cannot be read are not delivered: x (no). Repair it, or delete its CustomResourceDefinition or APIService",
			"True Applied",
		}},
		"BrokenAndListed": {func(in *State, _ *Result) {
			in.Broken, in.MissingSince = []Broken{{Name: "x", Err: "no", Settled: true, Holds: true}, {Name: "y", Err: "nor this", Settled: true}}, noon.Add(-RecheckUnread)
		}, []string{
			"Unknown NotObserved: cannot be read, existing entries are kept and later changes are not delivered: x (no), y (nor this). " +
				"Repair them, or delete their CustomResourceDefinition or APIService",
			"Unknown NotSynced: see condition Synced",
		}},
		"BrokenAndUnread": {func(in *State, _ *Result) {
			in.Missing, in.Broken, in.MissingSince = []string{"x", "y"}, []Broken{{Name: "x", Err: "no", Settled: true}}, noon.Add(-RecheckUnread)
		}, []string{
			"Unknown NotObserved: not synced since startup, existing entries are kept: y; cannot be read, existing entries are kept and later changes " +
				"are not delivered: x (no). Repair it, or delete its CustomResourceDefinition or APIService",
			"Unknown NotSynced: see condition Synced",
		}},
		"Unread": {func(in *State, _ *Result) {
			in.Missing, in.MissingSince = []string{"a", "b", "c", "d", "e", "f", "g", "h"}, noon.Add(-RecheckUnread)
		}, []string{"Unknown NotObserved: not synced since startup, existing entries are kept: a, b, c, d, e, f … and 2 more", "Unknown NotSynced: see condition Synced"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := someState("a")
			in.First = someBinding("a")
			r := Result{Bindings: []*controlv1alpha1.Binding{in.First.DeepCopy()}}
			tc.change(in, &r)
			status, _ := Status(in, &Decision{MissingSince: in.MissingSince}, r)
			var got []string
			if status != nil {
				for _, c := range status.Conditions {
					if slices.Contains(transported, c.Type) {
						continue // the Binding's; see TestMerge
					}
					text := strings.TrimSuffix(fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message), ": ")
					got = append(got, text)
					if c.ObservedGeneration != 3 {
						t.Errorf("%s has generation %d", c.Type, c.ObservedGeneration)
					}
				}
				got = append(got, status.Errors...)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadyDoesNotFlap(t *testing.T) {
	in := someState("a")
	in.First = someBinding("a")
	status := func(settling time.Duration, binding *controlv1alpha1.Binding) *controlv1alpha1.BindingPolicyStatus {
		status, _ := Status(in, &Decision{}, Result{Bindings: []*controlv1alpha1.Binding{binding}, Settling: settling})
		return status
	}
	applied := status(0, in.First)
	in.Policy.Status = *applied
	behind := in.First.DeepCopy()
	behind.Generation++
	if got := status(time.Second, behind); !cmp.Equal(applied, got) {
		t.Errorf("just written: %+v", got.Conditions)
	}
	if got := status(0, behind); cmp.Equal(applied, got) {
		t.Error("the transport does not observe the Binding, and the status does not report that")
	}
	in.Policy.Generation++
	if got := status(time.Second, behind); meta.IsStatusConditionTrue(got.Conditions, controlv1alpha1.BindingPolicyConditionReady) {
		t.Error("an edited policy is ready")
	}
}

func TestStatusErrorsAreBounded(t *testing.T) {
	in := someState()
	in.First = someBinding()
	binding := in.First.DeepCopy()
	for i := range 50 {
		binding.Status.Errors = append(binding.Status.Errors, fmt.Sprintf("e%02d", 49-i))
	}
	in.Unserved = []string{"e07"}
	status, _ := Status(in, &Decision{}, Result{Bindings: []*controlv1alpha1.Binding{binding}})
	got := status.Errors
	if len(got) != maxErrors+1 || got[0] != "e00" || got[maxErrors] != "… and 18 more" || !slices.IsSorted(got[:maxErrors]) {
		t.Errorf("errors %q", got)
	}
}

func TestMiscountError(t *testing.T) {
	got := miscountError([]match.Miscount{{
		Ref:      objref.Ref{Group: "apps", Resource: "deployments", Namespace: "n", Name: "web"},
		Kind:     schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		Clusters: 2,
	}})
	want := `Singleton reported status return is requested but some objects have the wrong number of associated WECs, for example: ` +
		`[{"ObjectID":{"GVK":{"Group":"apps","Version":"v1","Kind":"Deployment"},"Resource":"deployments","ObjectName":{"Namespace":"n","Name":"web"}},"NumWECs":2}]`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestDecideHandOver: what another policy selects and does not list yet stays, also if the policy
// is being deleted.
func TestDecideHandOver(t *testing.T) {
	waitsForA := func(s *State) {
		s.HandOver = HandOver{
			Selecting: map[objref.Ref][]string{{Resource: "configmaps", Namespace: "n", Name: "a"}: {"other"}},
			Others:    map[string]Other{"other": {Clusters: []string{"c1"}}},
		}
	}
	deleting := func(s *State) { s.Policy.DeletionTimestamp = &metav1.Time{Time: noon} }
	cases := map[string]struct {
		change      func(*State)
		want        string
		wantWaiting int
	}{
		"Nobody":           {func(s *State) { s.Selected.Matches = nil }, "set", 0},
		"OneStays":         {func(s *State) { waitsForA(s); s.Selected.Matches = nil }, "set a", 1},
		"Selected":         {waitsForA, "", 0},
		"Deleted":          {deleting, "delete policy-deleted", 0},
		"DeletedOneStays":  {func(s *State) { waitsForA(s); deleting(s) }, "set a", 1},
		"DeletedOneIsLeft": {func(s *State) { waitsForA(s); deleting(s); s.First = someBinding("a") }, "", 1},
		"DeletedDebounced": {func(s *State) { waitsForA(s); deleting(s); s.WaitSet = time.Second }, "", 1},
		"DeletedAlready":   {func(s *State) { waitsForA(s); deleting(s); s.First.DeletionTimestamp = s.Policy.DeletionTimestamp }, "delete policy-deleted", 0},
		"DeletedOverflowOnly": {func(s *State) {
			waitsForA(s)
			deleting(s)
			s.Overflow, s.First = []*controlv1alpha1.Binding{s.First}, nil
		}, "", 1},
		"DeletedAnnotated": {func(s *State) {
			deleting(s)
			s.Policy.Annotations = map[string]string{controlv1alpha1.AnnotationOnRemoval: "orphan"}
		}, "annotations a b, delete policy-deleted", 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := someState("a", "b")
			s.First = someBinding("a", "b")
			tc.change(s)
			d := Decide(s)
			var got []string
			for _, w := range d.Writes {
				if w.After == nil {
					got = append(got, "delete "+w.Reason)
					continue
				}
				text := w.Reason
				for _, c := range w.After.Spec.Workload.NamespaceScope {
					text += " " + c.Name
				}
				got = append(got, text)
			}
			if text := strings.Join(got, ", "); text != tc.want || len(d.RetainedSince) != tc.wantWaiting {
				t.Errorf("writes %q, %d objects wait; want %q, %d", text, len(d.RetainedSince), tc.want, tc.wantWaiting)
			}
			if tc.wantWaiting > 0 && (d.UpToDate || d.After == 0) {
				t.Errorf("up to date %t, again in %s", d.UpToDate, time.Duration(d.After))
			}
		})
	}
}

// TestHandOverIsReported after a while, and the message does not change all the time.
func TestHandOverIsReported(t *testing.T) {
	s := someState("a", "b")
	s.First = someBinding("a", "b")
	d := Decision{Retained: Retained{Objects: map[objref.Ref]string{}}, RetainedSince: map[objref.Ref]time.Time{}}
	message := func(now time.Time) string {
		s.Now = now
		status, _ := Status(s, &d, Result{Bindings: s.Bindings()})
		if c := meta.FindStatusCondition(status.Conditions, "Synced"); c.Reason == controlv1alpha1.ReasonHandOver {
			return c.Message
		}
		return ""
	}
	changes, last := 0, ""
	for i := range 300 { // an object comes to wait every 100 ms
		now := noon.Add(time.Duration(i) * 100 * time.Millisecond)
		ref := objref.Ref{Resource: "configmaps", Namespace: "n", Name: fmt.Sprint(i)}
		d.Retained.Objects[ref], d.RetainedSince[ref] = "other", now
		if got := message(now); got != last {
			changes, last = changes+1, got
		}
		if now.Sub(noon) < 10*time.Second && last != "" {
			t.Fatalf("after %s: %s", now.Sub(noon), last)
		}
	}
	if changes != 2 {
		t.Errorf("the message changed %d times in 30 s, last to %q", changes, last)
	}
}
