package rollout_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
}

// place is a cluster with its mailbox.
type place struct {
	delivered int64 // the edit in the mailbox
	reported  bool  // on the work as it is
	applied   int64 // the edit in the cluster
	at        time.Duration
	status    int64 // the edit of which the status was reported
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
	for _, p := range m.clusters {
		if p.applied != p.status && m.now-p.at > rollout.Settle-time.Second { // an agent is quicker than that
			p.status = p.applied
		}
	}
	names := []string{"c1", "c2", "c3"}
	p := m.clusters[names[r.IntN(len(names))]]
	switch does := r.IntN(40); {
	case does == 0:
		m.edit++
		return true
	case does < 20 && p.delivered != m.edit:
		p.delivered, p.reported = m.edit, false
	case does < 39 && !p.reported:
		p.reported = true
		if !refused(p.delivered) && p.applied != p.delivered {
			p.applied, p.at = p.delivered, m.now
		}
	case does == 39:
		p.status = p.applied
	}
	return false
}

// facts are what can be read of the model.
func (m *model) facts(t *testing.T) *rollout.Facts {
	w := situations.NewWorld(t)
	w.Live = foresight.Known(m.live(m.edit))
	for name, p := range m.clusters {
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
	return facts(w)
}

// TestArrivedIsTrue: what a rollout says to have arrived is in every cluster, and what it says to
// have failed was refused there or is not healthy.
func TestArrivedIsTrue(t *testing.T) {
	t.Parallel()
	said := map[rollout.Result]int{}
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 1))
		goal := rollout.Stages()[r.IntN(3)]
		m := &model{edit: 1, clusters: map[string]*place{}, named: r.IntN(2) == 0}
		for _, name := range []string{"c1", "c2", "c3"} {
			m.clusters[name] = &place{delivered: 1, reported: true, applied: 1, status: 1, at: -time.Hour}
		}
		tracker := rollout.NewTracker(goal)
		for range 250 {
			if m.step(r) {
				tracker = rollout.NewTracker(goal)
			}
			s := tracker.Look(situations.Now.Add(m.now), m.facts(t))
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
	failed := false
	for name, p := range m.clusters {
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
