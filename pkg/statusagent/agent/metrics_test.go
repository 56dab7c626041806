package agent

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/testutil"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/metrics"
)

// TestActivation: a stage ends with the status that is about the change.
func TestActivation(t *testing.T) {
	object := func(generation, observed int64, status string) *reported {
		r := &reported{ObjectMeta: metav1.ObjectMeta{Generation: generation}, applied: true, observed: observed}
		if status != "" {
			r.status = []byte(status)
		}
		return r
	}
	foreign := object(2, 2, "x")
	foreign.applied = false
	metrics.Register(activation, reporting)
	for name, tc := range map[string]struct {
		// states follow each other at intervals of a second; the first is what was there.
		states []*reported
		loose  bool // held by no work
		slow   time.Duration
		want   []float64
	}{
		"Created":         {states: []*reported{nil, object(1, 0, ""), object(1, 1, "a")}, want: []float64{1}},
		"CreatedAtOnce":   {states: []*reported{nil, object(1, 0, ""), object(1, 0, "a")}, want: []float64{1}},
		"Edited":          {states: []*reported{object(1, 1, "a"), object(2, 1, "a"), object(2, 1, "b"), object(2, 2, "b")}, want: []float64{2}},
		"EditedAgain":     {states: []*reported{object(1, 1, "a"), object(2, 1, "a"), object(3, 1, "a"), object(3, 2, "b"), object(3, 3, "c")}, want: []float64{2}},
		"WithoutObserved": {states: []*reported{object(1, 0, "a"), object(2, 0, "a"), object(2, 0, "a"), object(2, 0, "b"), object(2, 0, "c")}, want: []float64{2}},
		"StatusOnly":      {states: []*reported{object(1, 1, "a"), object(1, 1, "b")}},
		"NeverObserved":   {states: []*reported{nil, object(1, 0, ""), object(1, 0, "")}},
		"Deleted":         {states: []*reported{object(1, 1, "a"), object(2, 1, "a"), nil, object(1, 0, ""), object(1, 1, "a")}, want: []float64{1}},
		"Late":            {states: []*reported{object(1, 1, "a"), object(2, 1, "a"), object(2, 2, "b")}, slow: patience + time.Second},
		"NotHeld":         {states: []*reported{object(1, 1, "a"), object(2, 1, "a"), object(2, 2, "b")}, loose: true},
		"NotApplied":      {states: []*reported{object(1, 1, "a"), foreign}},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
			a := &Agent{config: Config{Cluster: t.Name(), Clock: clock}, changed: map[objref.Ref]change{}}
			observed := func() float64 {
				sum, err := testutil.GetHistogramMetricValue(activation.WithLabelValues(t.Name()))
				if err != nil {
					t.Fatal(err)
				}
				return sum
			}
			var got []float64
			sum := observed()
			for i := range tc.states[1:] {
				clock.Step(max(time.Second, tc.slow))
				a.recordActivation(objref.Ref{Name: "x"}, tc.states[i], tc.states[i+1], !tc.loose)
				if now := observed(); now != sum {
					got = append(got, now-sum)
					sum = now
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("observed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLags(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	a := &Agent{config: Config{Cluster: "c", Clock: clock}, since: map[string]time.Time{}}
	if diff := cmp.Diff(map[string]float64{"c": 0}, a.lags()); diff != "" {
		t.Errorf("nothing waits (-want +got):\n%s", diff)
	}
	a.since["one"] = clock.Now()
	clock.Step(2 * time.Second)
	a.since["two"] = clock.Now()
	clock.Step(time.Second)
	if diff := cmp.Diff(map[string]float64{"c": 3}, a.lags()); diff != "" {
		t.Errorf("two wait (-want +got):\n%s", diff)
	}
}
