package rollout_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/foresight/explain"
	"github.com/starlinghq/starling/pkg/core/foresight/rollout"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/test/situations"
)

// model is an object on its way to clusters, one step of one of the parts at a time.
type model struct {
	edit     int64 // what the WDS has
	clusters map[string]*place
	now      time.Duration
	// named: reports say which generation they are of.
	named bool
	// policy: the rollout is that of a policy, and not that of the object.
	policy bool
	// generation is that of the policy, observed the one that the binding-controller has observed.
	generation, observed int64
}

// place is a cluster with its mailbox.
type place struct {
	// selected by the policy; moved: by the label of the cluster, and not by an edit of the policy.
	selected, moved bool
	listed          bool  // in the Binding
	down            bool  // its status add-on does not run
	delivered       int64 // the edit in the mailbox
	reported        bool  // on the work as it is
	applied         int64 // the edit in the cluster
	status          int64 // the edit of which the status was reported
}

// healthy says what becomes of an edit in a cluster.
func healthy(edit int64) bool { return edit%2 == 1 }

// refused: the cluster does not take the edit.
func refused(edit int64) bool { return edit%6 == 0 }

func (m *model) live(edit int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "web", "namespace": "shop", "uid": "u1", "generation": edit, "labels": map[string]any{"app": "web"}},
		"spec":     map[string]any{"replicas": edit},
	}}
}

// step lets one part do something.
func (m *model) step(r *rand.Rand) (edited bool) {
	m.now += time.Duration(r.IntN(150)) * time.Millisecond
	if r.IntN(50) == 0 {
		m.now += time.Minute // agents may be as slow as they like
	}
	names := []string{"c1", "c2", "c3", "c4"}
	p := m.clusters[names[r.IntN(len(names))]]
	switch does := r.IntN(40); {
	case does == 0:
		m.edit++
		return true
	case does == 1 && !p.selected: // the policy is edited, or the label of the cluster
		p.selected, p.moved = true, r.IntN(2) == 0
		if !p.moved {
			m.generation++
		}
		return !p.moved
	case does == 2 && p.selected && r.IntN(2) == 0:
		if !p.moved {
			m.generation++
		}
		p.selected, p.moved = false, false
		return true
	case does < 5:
		m.observed = m.generation
		for _, p := range m.clusters {
			p.listed = p.selected
		}
	case does < 20 && !p.listed && p.delivered > 0:
		*p = place{selected: p.selected, moved: p.moved, down: p.down}
	case does < 20 && p.listed && p.delivered != m.edit:
		p.delivered, p.reported = m.edit, false
	case does < 38 && p.delivered > 0 && !p.reported:
		p.reported = true
		if !refused(p.delivered) && p.applied != p.delivered {
			p.applied = p.delivered
		}
	case does == 38 && r.IntN(4) == 0:
		p.down = !p.down
	case does == 39 && !p.down:
		p.status = p.applied
	}
	return false
}

// facts are what can be read of the model.
func (m *model) facts(t *testing.T, tracker *rollout.Tracker) *rollout.Facts {
	w := situations.NewWorld(t)
	w.Live = foresight.Known(m.live(m.edit))
	w.Selecting.Generation, w.Selecting.Status.ObservedGeneration = m.generation, m.observed
	w.Selecting.Spec.ClusterSelectors[0].MatchLabels["env"] = "prod"
	w.Binding.Spec.Destinations = nil
	for name, p := range m.clusters {
		cluster := situations.ClusterOf(name)
		cluster.Labels = map[string]string{"env": "test"}
		switch {
		case p.moved:
			cluster.Labels["env"] = "prod"
		case p.selected:
			cluster.Labels["env"] = name
			w.Selecting.Spec.ClusterSelectors = append(w.Selecting.Spec.ClusterSelectors, metav1.LabelSelector{MatchLabels: map[string]string{"env": name}})
		}
		if p.down {
			cluster.AddOn.Value.Available.Status = metav1.ConditionFalse
		}
		w.Clusters.Value[name] = cluster
		if p.listed {
			w.Binding.Spec.Destinations = append(w.Binding.Spec.Destinations, controlv1alpha1.Destination{ClusterID: name})
		}
		if p.delivered == 0 {
			w.Mailboxes[name] = &explain.Mailbox{}
			continue
		}
		work := situations.WorkOf(t, w.Binding, name, w.Ref, m.live(p.delivered))
		switch {
		case !p.reported:
			work.Items[0].State = plan.Pending
		case refused(p.delivered):
			work.Items[0].State, work.Items[0].Reason, work.Items[0].Message = plan.Failed, "AppliedManifestFailed", "admission webhook denied the request"
		}
		report := &status.Report{Generation: p.status, Status: map[string]any{
			"observedGeneration": p.status, "replicas": p.status, "updatedReplicas": p.status, "readyReplicas": p.status, "availableReplicas": p.status,
		}}
		if !healthy(p.status) {
			report.Status["conditions"] = []any{map[string]any{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}}
		}
		if m.named {
			report.Source = status.Source{UID: "u1", Generation: p.status}
		}
		w.Mailboxes[name] = &explain.Mailbox{Works: foresight.Known([]*plan.Work{work})}
		w.Mailboxes[name].Reports.Value = map[objref.Ref]*status.Report{w.Ref: report}
	}
	if m.policy {
		return ofPolicy(w, tracker)
	}
	return facts(w)
}

// TestArrivedIsTrue: what a rollout says to have arrived is in every cluster that is selected and
// in no other, and what it says to have failed was refused there or is not healthy.
func TestArrivedIsTrue(t *testing.T) {
	t.Parallel()
	said := map[rollout.Result]int{}
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 1))
		goal := rollout.Stages()[r.IntN(3)]
		m := &model{edit: 1, clusters: map[string]*place{"c4": {}}, named: r.IntN(2) == 0, policy: r.IntN(2) == 0, generation: 1, observed: 1}
		for _, name := range []string{"c1", "c2", "c3"} {
			m.clusters[name] = &place{selected: true, listed: true, delivered: 1, reported: true, applied: 1, status: 1}
		}
		tracker := rollout.NewTracker(goal)
		for range 250 {
			if m.step(r) {
				tracker = rollout.NewTracker(goal)
			}
			s := tracker.Look(situations.Now.Add(m.now), m.facts(t, tracker))
			checkCounts(t, string(goal), s)
			said[s.Result]++
			m.check(t, seed, goal, s)
		}
	}
	for _, result := range []rollout.Result{rollout.Waiting, rollout.Arrived, rollout.Failed} {
		if said[result] < 100 {
			t.Errorf("%s was said %d times: the test says little of it", result, said[result])
		}
	}
}

func (m *model) check(t *testing.T, seed uint64, goal rollout.Stage, s *rollout.Status) {
	t.Helper()
	failed := !slices.ContainsFunc(slices.Collect(maps.Values(m.clusters)), func(p *place) bool { return p.selected }) // a policy of no cluster is a mistake
	for name, p := range m.clusters {
		if !p.selected {
			if s.Result == rollout.Arrived && p.delivered > 0 {
				t.Fatalf("seed %d: edit %d is said to be %s, and has not left %s: %+v", seed, m.edit, goal, name, p)
			}
			continue
		}
		there := p.delivered == m.edit
		if goal != rollout.Delivered {
			there = there && p.applied == m.edit
		}
		if goal == rollout.Healthy {
			there = there && healthy(m.edit)
		}
		if s.Result == rollout.Arrived && !there {
			t.Fatalf("seed %d: edit %d is said to be %s, and is not in %s: %+v", seed, m.edit, goal, name, p)
		}
		failed = failed || p.delivered == m.edit && refused(m.edit) || !healthy(m.edit)
	}
	if s.Result == rollout.Failed && !failed {
		t.Fatalf("seed %d: edit %d is said to have failed: %+v", seed, m.edit, s.Late)
	}
}
