package binding

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

func TestConditionOfCollectors(t *testing.T) {
	const kind = controlv1alpha1.BindingPolicyConditionCollectors
	available := metav1.Condition{Type: kind, Status: "True", Reason: "ReconcileSuccess", Message: "All StatusCollector(s) are available"}
	missing := func(text string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: "False", Reason: "ReconcileError", Message: text}
	}
	for name, tc := range map[string]struct {
		stored []metav1.Condition
		of     Collectors
		want   []metav1.Condition
	}{
		"NoneNamed":        {of: Collectors{Known: true}},
		"NoneNamedAnyMore": {stored: []metav1.Condition{available}, of: Collectors{Known: true}},
		"Available":        {of: Collectors{Named: true, Known: true}, want: []metav1.Condition{available}},
		"Missing": {
			of:   Collectors{Named: true, Known: true, Missing: []string{"a", "b"}},
			want: []metav1.Condition{missing("Missing StatusCollector(s) [a b]")},
		},
		"Invalid": {
			of:   Collectors{Named: true, Known: true, Missing: []string{"a"}, Invalid: []string{"c"}},
			want: []metav1.Condition{missing("Missing StatusCollector(s) [a]; StatusCollector(s) with errors, see their status.errors: [c]")},
		},
		"NotRead": {stored: []metav1.Condition{available}, of: Collectors{Named: true, Missing: []string{"a"}}, want: []metav1.Condition{available}},
	} {
		t.Run(name, func(t *testing.T) {
			policy := &controlv1alpha1.BindingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
			policy.Status.Conditions = tc.stored
			var got []metav1.Condition
			status, _ := Status(&State{Policy: policy, Collectors: tc.of, Now: time.Unix(1, 0)}, &Decision{}, Result{})
			for _, c := range status.Conditions {
				if c.Type == kind {
					got = append(got, c)
				}
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCollectorsIn(t *testing.T) {
	spec := &controlv1alpha1.BindingPolicySpec{Downsync: []controlv1alpha1.DownsyncPolicyClause{
		{DownsyncModulation: controlv1alpha1.DownsyncModulation{StatusCollectors: []string{"c", "a"}}},
		{DownsyncModulation: controlv1alpha1.DownsyncModulation{StatusCollectors: []string{"b", "c"}}},
	}}
	if diff := cmp.Diff([]string{"a", "b", "c"}, CollectorsIn(spec)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
