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
	corebinding "github.com/starlinghq/starling/pkg/core/binding"
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

// someBinding is the Binding that decide makes for the policy and those names, as the transport has carried it out.
func someBinding(names ...string) *controlv1alpha1.Binding {
	in := someInput(names...)
	in.binding = nil
	b := decide(in).writes[0].after
	b.UID, b.Generation, b.ResourceVersion = "binding", 2, "20"
	b.Status.ObservedGeneration = 2
	for _, c := range []string{controlv1alpha1.BindingConditionDelivered, controlv1alpha1.BindingConditionApplied} {
		meta.SetStatusCondition(&b.Status.Conditions, metav1.Condition{Type: c, Status: metav1.ConditionTrue, Reason: c})
	}
	return b
}

func someInput(names ...string) *input {
	return &input{
		policy:        somePolicy(),
		selected:      selectedNames(names...),
		isUnread:      func(schema.GroupResource) bool { return false },
		unreadCluster: func(string) bool { return false },
		byItself:      func(objref.Ref) bool { return false },
		withOthers:    func(objref.Ref) bool { return false },
		maxSize:       corebinding.DefaultMaxSize,
		taken:         func(string) bool { return false },
		now:           noon,
	}
}

func TestDecide(t *testing.T) {
	cases := map[string]struct {
		reason     string
		change     func(*input)
		wantWrite  string // reason, and names of objects
		wantFinal  bool
		wantAfter  time.Duration
		wantSettle bool
	}{
		"AsItShouldBe": {"no write", func(*input) {}, "", false, 0, true},
		"New": {"created at once, after the finalizer", func(in *input) {
			in.binding, in.policy.Finalizers = nil, nil
			in.waitSet = time.Hour
		}, "placed a b", true, 0, false},
		"Added":      {"after quiet, at once", func(in *input) { in.selected = selectedNames("a", "b", "c") }, "set a b c", false, 0, false},
		"Removed":    {"likewise", func(in *input) { in.selected = selectedNames("a") }, "set a", false, 0, false},
		"UnderLoad":  {"changes gather", func(in *input) { in.selected, in.waitSet = selectedNames("a"), 30*time.Millisecond }, "", false, 30 * time.Millisecond, false},
		"Version":    {"a version is followed", func(in *input) { in.selected.Matches[0].ResourceVersion = "2" }, "versions a b", false, 0, false},
		"VersionTwo": {"but not often", func(in *input) { in.selected.Matches[0].ResourceVersion, in.waitVersions = "2", time.Second }, "", false, time.Second, false},
		"VersionAndSet": {"with others it goes along", func(in *input) {
			in.selected, in.waitVersions = selectedNames("a", "c"), time.Second
		}, "set a c", false, 0, false},
		"Invalid": {"the Binding stays", func(in *input) { in.invalid, in.selected = []string{"x"}, match.Snapshot{} }, "", false, 0, false},
		"Taken":   {"somebody else's Binding stays", func(in *input) { in.binding.OwnerReferences, in.selected = nil, match.Snapshot{} }, "", false, 0, false},
		"Leaving": {"a Binding that goes is not changed", func(in *input) {
			in.binding.DeletionTimestamp, in.selected = &metav1.Time{Time: noon}, match.Snapshot{}
		}, "", false, 0, false},
		"Unread": {"what is unread stays, what is known follows", func(in *input) {
			in.selected = match.Snapshot{}
			in.unread = []string{"configmaps"}
			in.isUnread = func(gr schema.GroupResource) bool { return gr.Resource == "configmaps" }
		}, "set a b", false, patienceUnread, false},
		"Annotated": {"the policy's annotations are handed on, also if nothing else is to be done", func(in *input) {
			in.isSettled = true
			in.policy.Annotations = map[string]string{controlv1alpha1.AnnotationApply: "server-side"}
		}, "annotations a b", false, 0, false},
		"AnnotatedAndEqual": {"likewise", func(in *input) {
			in.policy.Annotations = map[string]string{controlv1alpha1.AnnotationApply: "server-side"}
		}, "annotations a b", false, 0, false},
		"Settled": {"nothing is computed", func(in *input) { in.isSettled, in.selected = true, match.Snapshot{} }, "", false, 0, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := someInput("a", "b")
			in.binding = someBinding("a", "b")
			tc.change(in)
			p := decide(in)
			got := ""
			for _, change := range p.writes {
				got += change.reason
				for _, c := range change.after.Spec.Workload.NamespaceScope {
					got += " " + c.Name
				}
			}
			if got != tc.wantWrite || p.addFinalizer != tc.wantFinal || p.after.duration() != tc.wantAfter || p.settled != tc.wantSettle {
				t.Errorf("%s: write %q, finalizer %t, after %s, settled %t; want %q %t %s %t", tc.reason,
					got, p.addFinalizer, p.after.duration(), p.settled, tc.wantWrite, tc.wantFinal, tc.wantAfter, tc.wantSettle)
			}
			if len(p.writes) > 0 && in.binding != nil && p.writes[0].after.ResourceVersion != in.binding.ResourceVersion {
				t.Error("an update without the version that it was decided on")
			}
		})
	}
}

// overflowing is the plan for a policy with so large Bindings as hold two of the names each.
func overflowing(change func(*input), names ...string) []string {
	in := someInput(names...)
	in.maxSize = 350
	in.binding = someBinding("a", "b")
	second := someBinding("c", "d")
	second.Name, second.UID = "p--2", "second"
	in.overflow = []*controlv1alpha1.Binding{second}
	in.taken = func(name string) bool { return name == "p" || name == "p--2" }
	change(in)
	var got []string
	for _, c := range decide(in).writes {
		if c.after == nil {
			got = append(got, "delete "+c.before.Name+": "+c.reason)
			continue
		}
		text := c.after.Name + ": " + c.reason
		for _, o := range c.after.Spec.Workload.NamespaceScope {
			text += " " + o.Name
		}
		if _, labelled := c.after.Labels[controlv1alpha1.LabelOverflowOf]; labelled {
			text += " (labelled)"
		}
		got = append(got, text)
	}
	return got
}

func TestDecideOverflow(t *testing.T) {
	nothing := func(*input) {}
	cases := map[string]struct {
		names  string
		change func(*input)
		want   []string
	}{
		"AsItShouldBe":  {"a b c d", nothing, nil},
		"More":          {"a b c d e f g", nothing, []string{"p--3: placed e f (labelled)", "p--4: placed g (labelled)"}},
		"NameTaken":     {"a b c d e", func(in *input) { in.taken = func(name string) bool { return name < "p--4" } }, []string{"p--4: placed e (labelled)"}},
		"RoomInFirst":   {"0 a c d", nothing, []string{"p: set 0 a"}},
		"Empty":         {"a b", nothing, []string{"p--2: set"}},
		"Emptied":       {"a b", func(in *input) { in.overflow[0].Spec.Workload = controlv1alpha1.DownsyncObjectClauses{} }, []string{"delete p--2: empty"}},
		"FirstEmpty":    {"c d", nothing, []string{"p: set"}},
		"FirstDeleted":  {"a b c d", func(in *input) { in.binding = nil }, []string{"p: placed a b"}},
		"SecondLeaving": {"a b c d", func(in *input) { in.overflow[0].DeletionTimestamp = &metav1.Time{Time: noon} }, []string{"p--3: placed c d (labelled)"}},
		"SecondUnread": {"a b", func(in *input) {
			in.isUnread, in.unread = func(schema.GroupResource) bool { return true }, []string{"configmaps"}
		}, nil},
		"Twice": {"a b c d", func(in *input) {
			in.overflow[0].Spec.Workload.NamespaceScope = append(in.overflow[0].Spec.Workload.NamespaceScope, in.binding.Spec.Workload.NamespaceScope[0])
		}, []string{"p--2: set c d"}},
		"Annotated": {"a b c d", func(in *input) {
			in.policy.Annotations = map[string]string{controlv1alpha1.AnnotationApply: "server-side"}
		}, []string{"p: annotations a b", "p--2: annotations c d"}},
		"Clusters": {"a b c d", func(in *input) { in.selected.Clusters = []string{"c2"} }, []string{"p: set a b", "p--2: set c d"}},
		"Versions": {"a b c d", func(in *input) { in.selected.Matches[3].ResourceVersion = "2" }, []string{"p--2: versions c d"}},
		"Paced":    {"a b c d", func(in *input) { in.selected.Matches[3].ResourceVersion, in.waitVersions = "2", time.Second }, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, overflowing(tc.change, strings.Fields(tc.names)...)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReleaseIsSpent: the annotation that released something goes when nothing is left to release, whatever became of an earlier try
// to take it away; and no sooner.
func TestReleaseIsSpent(t *testing.T) {
	dozen := func(n int) (clusters []string) {
		for i := range n {
			clusters = append(clusters, fmt.Sprintf("c%02d", i))
		}
		return clusters
	}
	holding := func(change func(*input)) *input {
		in := someInput("a", "b", "c", "d")
		in.selected.Clusters = dozen(12)
		in.maxSize = 350 + 12*20
		in.binding, in.overflow = nil, nil
		for i, change := range decide(in).writes {
			change.after.ResourceVersion, change.after.UID = "1", types.UID(fmt.Sprint(i))
			if i == 0 {
				in.binding = change.after
			} else {
				in.overflow = append(in.overflow, change.after)
			}
		}
		if len(in.overflow) == 0 {
			t.Fatal("there is no overflow")
		}
		in.valve.Percent, in.valve.Count = 50, -1
		in.valve.Release = "token"
		change(in)
		return in
	}
	away := func(in *input) { in.selected.Matches, in.selected.Clusters = selectedNames("x").Matches, dozen(12) }
	held := decide(holding(away)).held
	if held == nil {
		t.Fatal("nothing is held")
	}
	cases := map[string]struct {
		change               func(*input)
		wantSpent, wantWrite bool
		wantHeld             bool
	}{
		"Settled":    {func(in *input) { in.isSettled = true }, true, false, false},
		"AsItShould": {func(*input) {}, true, false, false},
		"NoneThere":  {func(in *input) { in.valve.Release = "" }, false, false, false},
		"Unread":     {func(in *input) { in.unread = []string{"x"} }, false, false, false},
		"AnotherOne": {away, false, false, true},
		"Released":   {func(in *input) { away(in); in.valve.Release = held.Token }, true, true, false},
		"UnderLoad":  {func(in *input) { away(in); in.valve.Release = held.Token; in.waitSet = time.Second }, false, false, false},
		"HalfWritten": {func(in *input) {
			away(in)
			in.valve.Release, in.binding.Spec.Workload = held.Token, controlv1alpha1.DownsyncObjectClauses{}
			in.valve.Begun = held
		}, true, true, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := decide(holding(tc.change))
			if p.spent != tc.wantSpent || len(p.writes) > 0 != tc.wantWrite || (p.held != nil) != tc.wantHeld {
				t.Errorf("spent %t, %d writes, held %+v; want %t, %t, %t", p.spent, len(p.writes), p.held, tc.wantSpent, tc.wantWrite, tc.wantHeld)
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
			[]string{"False 1; 2; 3; … and 1 more", "True 1; 2; 3; … and 1 more"},
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

// TestStatusShowsWhatTheBindingsSay: conditions, counts and problems of all Bindings are the policy's; of somebody else's none.
func TestStatusShowsWhatTheBindingsSay(t *testing.T) {
	in := someInput("a", "b")
	first, second := someBinding("a"), someBinding("b")
	first.Status.Problems = []string{"c1: a", "c3: a", "… and 3 more"}
	second.Status.Problems = []string{"c2: b"}
	first.Status.Rollup = &controlv1alpha1.Rollup{Objects: 2, Clusters: 3, Copies: 6, Applied: 5, Healthy: 4}
	meta.SetStatusCondition(&second.Status.Conditions, metav1.Condition{Type: "Applied", Status: "False", Reason: "Failed"})
	show := func() string {
		status := statusOf(in, done{binding: in.merged()})
		text := fmt.Sprint(status.Problems)
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
	in.binding, in.overflow = first, []*controlv1alpha1.Binding{second}
	if got, want := show(), "[c1: a c2: b c3: a … and 3 more] Delivered=True/3 Applied=False/3"; got != want {
		t.Errorf("not all have counted:\n got %s\nwant %s", got, want)
	}
	second.Status.Rollup = &controlv1alpha1.Rollup{Objects: 1, Clusters: 3, Copies: 3, Applied: 3, Healthy: 3}
	if got, want := show(), "[c1: a c2: b c3: a … and 3 more] 3 objects, 3 clusters, applied 8/9, healthy 7/9 Delivered=True/3 Applied=False/3"; got != want {
		t.Errorf("all have counted:\n got %s\nwant %s", got, want)
	}
	for i := range 12 {
		second.Status.Problems = append(second.Status.Problems, fmt.Sprintf("c4: %02d", i))
	}
	if got := firstProblems(in.bindings()); len(got) != 11 || got[0] != "c1: a" || got[10] != "… and 8 more" {
		t.Errorf("problems %q", got)
	}
	in.binding, in.overflow = first, nil
	first.OwnerReferences = nil
	if got := show(); got != "[]" {
		t.Errorf("somebody else's Binding: %s", got)
	}
}

func TestStatus(t *testing.T) {
	deleted := metav1.NewTime(noon)
	cases := map[string]struct {
		change func(*input, *done)
		want   []string
	}{
		"Applied":    {func(*input, *done) {}, []string{"True Synced", "True Applied"}},
		"NoBinding":  {func(_ *input, d *done) { d.binding = nil }, []string{"True Synced", "False NotDelivered: the transport has not looked at the Binding yet"}},
		"NoClusters": {func(_ *input, d *done) { d.binding.Spec.Destinations = nil }, []string{"True Synced: the policy selects no clusters", "True Applied"}},
		"NoTransport": {
			func(_ *input, d *done) { d.binding.Status.Conditions = nil },
			[]string{"True Synced", "False NotDelivered: the transport has not reported yet"},
		},
		"Behind": {
			func(_ *input, d *done) { d.binding.Generation++ },
			[]string{"True Synced", "False NotDelivered: the transport has not looked at the Binding yet"},
		},
		"NotApplied": {func(_ *input, d *done) {
			d.binding.Status.Conditions[1].Status = metav1.ConditionFalse
			d.binding.Status.Conditions[1].Message = "c1: no room"
			d.binding.Status.Errors = []string{"c1: no room"}
		}, []string{"True Synced", "False NotApplied: c1: no room", "c1: no room"}},
		"Errors": {
			func(in *input, _ *done) { in.unserved = []string{"z", "a"} },
			[]string{"True Synced", "False Errors: see status.errors", "a", "z"},
		},
		"Invalid": {
			func(in *input, _ *done) { in.invalid = []string{"spec.a: x", "spec.b: y"} },
			[]string{"False InvalidSpec: spec.a: x … and 1 more; the Binding stays as it was", "False NotSynced: see condition Synced", "spec.a: x", "spec.b: y"},
		},
		"Taken": {
			func(in *input, d *done) {
				in.binding.OwnerReferences, d.binding.OwnerReferences = nil, nil
				d.binding.Status.Errors = []string{"theirs"}
			},
			[]string{`False NameTaken: the Binding "p" does not belong to this policy; delete it, or give the policy another name`, "False NotSynced: see condition Synced"},
		},
		"Deleting": {func(in *input, d *done) {
			in.policy.DeletionTimestamp = &deleted
			d.binding.Status.Conditions[0] = metav1.Condition{Type: "Delivered", Status: metav1.ConditionFalse, Reason: controlv1alpha1.ReasonDeleting, Message: "c1 holds works"}
		}, []string{"False Deleting: waiting until the objects have left the clusters: c1 holds works", "False NotSynced: see condition Synced"}},
		"BindingDeleted": {
			func(in *input, _ *done) { in.binding.DeletionTimestamp = &deleted },
			[]string{"False Deleting: somebody deleted the Binding; it is made again when its objects have left the clusters", "False NotSynced: see condition Synced"},
		},
		"WriteFailed": {
			func(_ *input, d *done) { d.err = fmt.Errorf("too large") },
			[]string{"False Failed: cannot write the Binding: too large", "False NotSynced: see condition Synced"},
		},
		"UnreadForAMoment": {func(in *input, _ *done) { in.unread, in.unreadFor = []string{"x"}, time.Second }, nil},
		"Unread": {func(in *input, _ *done) {
			in.unread, in.unreadFor = []string{"a", "b", "c", "d", "e", "f", "g", "h"}, patienceUnread
		}, []string{"Unknown NotObserved: could not be read since the start, and stay as they were: a, b, c, d, e, f … and 2 more", "Unknown NotSynced: see condition Synced"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := someInput("a")
			in.binding = someBinding("a")
			d := done{binding: in.binding.DeepCopy()}
			tc.change(in, &d)
			status := statusOf(in, d)
			var got []string
			if status != nil {
				for _, c := range status.Conditions {
					if slices.Contains(transported, c.Type) {
						continue // the Binding's; see TestMerge
					}
					text := strings.TrimSuffix(fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message), ": ")
					got = append(got, text)
					if c.ObservedGeneration != 3 {
						t.Errorf("%s speaks of generation %d", c.Type, c.ObservedGeneration)
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

func TestStatusDoesNotFlapWhileTheTransportTakesNotice(t *testing.T) {
	in := someInput("a")
	in.binding = someBinding("a")
	applied := statusOf(in, done{binding: in.binding})
	in.policy.Status = *applied
	behind := in.binding.DeepCopy()
	behind.Generation++
	if got := statusOf(in, done{binding: behind, settling: time.Second}); !equalStatus(applied, got) {
		t.Errorf("just written: %+v", got.Conditions)
	}
	if got := statusOf(in, done{binding: behind}); equalStatus(applied, got) {
		t.Error("the transport does not take notice, and nobody is told")
	}
	in.policy.Generation++
	if got := statusOf(in, done{binding: behind, settling: time.Second}); meta.IsStatusConditionTrue(got.Conditions, controlv1alpha1.BindingPolicyConditionReady) {
		t.Error("an edited policy is said to be ready")
	}
}

func TestStatusErrorsAreBounded(t *testing.T) {
	in := someInput()
	in.binding = someBinding()
	d := done{binding: in.binding.DeepCopy()}
	for i := range 50 {
		d.binding.Status.Errors = append(d.binding.Status.Errors, fmt.Sprintf("e%02d", 49-i))
	}
	in.unserved = []string{"e07"}
	got := statusOf(in, d).Errors
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
