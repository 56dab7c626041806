package binding

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// TestConditionsAreNotEarly: after an edit of a policy, no condition that is True has the new
// generation before the Binding follows the edit and the transport-controller has observed that.
// kubectl wait compares generations.
func TestConditionsAreNotEarly(t *testing.T) {
	show := func(status *controlv1alpha1.BindingPolicyStatus) string {
		if status == nil {
			return "nothing"
		}
		var shown []string
		for _, kind := range []string{"Synced", "Ready", "Delivered", "Applied", "Healthy"} {
			if c := meta.FindStatusCondition(status.Conditions, kind); c != nil {
				shown = append(shown, fmt.Sprintf("%s=%s/%d", kind, c.Status, c.ObservedGeneration))
			}
		}
		return strings.Join(shown, " ")
	}
	const before = "Synced=True/3 Ready=True/3 Delivered=True/3 Applied=True/3"
	fails := func(r *Result) { r.Bindings[0].Status.Conditions[1].Status = metav1.ConditionFalse }
	for name, tc := range map[string]struct {
		change func(*State, *Decision, *Result)
		want   string
	}{
		"AllIsUpToDate":  {func(*State, *Decision, *Result) {}, "Synced=True/4 Ready=True/4 Delivered=True/4 Applied=True/4"},
		"NotWrittenYet":  {func(_ *State, d *Decision, _ *Result) { d.Waits = true }, "nothing"},
		"NotObservedYet": {func(_ *State, _ *Decision, r *Result) { r.Bindings[0].Generation++ }, "Synced=True/4 Ready=False/4 Delivered=True/3 Applied=True/3"},
		"Settling":       {func(_ *State, _ *Decision, r *Result) { r.Bindings[0].Generation++; r.Settling = time.Second }, "Synced=True/4 Ready=False/4 Delivered=True/3 Applied=True/3"},
		"WorseMeanwhile": {func(_ *State, _ *Decision, r *Result) { r.Bindings[0].Generation++; fails(r) }, "Synced=True/4 Ready=False/4 Delivered=True/3 Applied=False/3"},
		"Invalid":        {func(s *State, _ *Decision, _ *Result) { s.Invalid = []string{"x"} }, "Synced=False/4 Ready=False/4 Delivered=True/3 Applied=True/3"},
		"Blocked":        {func(_ *State, d *Decision, _ *Result) { d.Blocked = &Loss{} }, "Synced=False/4 Ready=False/4 Delivered=True/3 Applied=True/3"},
		"WriteFailed":    {func(_ *State, _ *Decision, r *Result) { r.Err = fmt.Errorf("no") }, "Synced=False/4 Ready=False/4 Delivered=True/3 Applied=True/3"},
		"KindIsNotServed": {func(s *State, _ *Decision, _ *Result) {
			s.NotServed.NoVersion, s.MissingSince = []string{"x"}, noon.Add(-time.Hour)
		}, "Synced=Unknown/4 Ready=Unknown/4 Delivered=True/3 Applied=True/3"},
		"NeverReported": {func(s *State, _ *Decision, r *Result) { s.Policy.Status.Conditions, r.Bindings[0].Generation = nil, 9 }, "Synced=True/4 Ready=False/4"},
		"OverflowIsBehind": {func(_ *State, _ *Decision, r *Result) {
			other := someBinding("b")
			other.Generation++
			r.Bindings = append(r.Bindings, other)
		}, "Synced=True/4 Ready=False/4 Delivered=True/3 Applied=True/3"},
		"BindingIsReplaced": {func(_ *State, _ *Decision, r *Result) { r.Bindings[0].Status = controlv1alpha1.BindingStatus{} }, "Synced=True/4 Ready=False/4 Delivered=True/3 Applied=True/3"},
	} {
		t.Run(name, func(t *testing.T) {
			s := someState("a")
			s.First = someBinding("a")
			status, _ := Status(s, &Decision{}, Result{Bindings: []*controlv1alpha1.Binding{s.First}})
			if got := show(status); got != before {
				t.Fatalf("before the edit: %s", got)
			}
			s.Policy.Status = *status
			s.Policy.Generation++
			d, r := Decision{}, Result{Bindings: []*controlv1alpha1.Binding{s.First.DeepCopy()}}
			tc.change(s, &d, &r)
			d.MissingSince = s.MissingSince
			after, _ := Status(s, &d, r)
			if got := show(after); got != tc.want {
				t.Errorf("after the edit: %s\nwant: %s", got, tc.want)
			}
		})
	}
}

// TestEditWaitsForItsWrite: an edit that comes soon after another one changes the Binding a moment
// later. What was reported of the Binding is not about the edit until then.
func TestEditWaitsForItsWrite(t *testing.T) {
	s := someState("a", "b")
	s.First = someBinding("a")
	s.WaitSet = 50 * time.Millisecond
	d := Decide(s)
	status, after := Status(s, &d, Result{Bindings: []*controlv1alpha1.Binding{s.First}})
	if status != nil || after != Soonest(s.WaitSet) || len(d.Writes) > 0 {
		t.Errorf("status %+v, again after %s, writes %v", status, time.Duration(after), d.Writes)
	}
	s.WaitSet = 0
	d = Decide(s)
	written := d.Writes[0].After.DeepCopy()
	written.Generation = s.First.Generation + 1
	status, _ = Status(s, &d, Result{Bindings: []*controlv1alpha1.Binding{written}})
	ready := meta.FindStatusCondition(status.Conditions, controlv1alpha1.BindingPolicyConditionReady)
	if diff := cmp.Diff(metav1.ConditionFalse, ready.Status); diff != "" {
		t.Errorf("written and not observed: Ready (-want +got):\n%s", diff)
	}
}
