package mailboxes

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
)

func refOf(name string) objref.Ref {
	return objref.Ref{Resource: "services", Namespace: "n", Name: name}
}

// report returns the WorkStatus that the agent of a cluster writes for a service.
func report(cluster, name, version, status string) *controlv1alpha1.WorkStatus {
	ref := refOf(name)
	ws := &controlv1alpha1.WorkStatus{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster, Name: corestatus.ReportName(ref), ResourceVersion: version,
			Labels: map[string]string{controlv1alpha1.LabelWDSUID: "uid"},
		},
		Spec: controlv1alpha1.WorkStatusSpec{SourceRef: controlv1alpha1.SourceRef{Resource: ref.Resource, Namespace: ref.Namespace, Name: ref.Name}},
	}
	if status != "" {
		ws.Status = &runtime.RawExtension{Raw: []byte(status)}
	}
	return ws
}

// statusOf is what stores of these tests keep.
type statusOf struct{ cluster, object, status string }

func reduce(ws *controlv1alpha1.WorkStatus) Kept[statusOf] {
	kept := statusOf{cluster: ws.Namespace, object: ws.Spec.SourceRef.Name}
	if ws.Status != nil {
		kept.status = string(ws.Status.Raw)
	}
	return Kept[statusOf]{Value: &kept, Bytes: len(kept.object) + len(kept.status)}
}

// follower learns what a Store keeps from its calls only.
type follower struct {
	t  *testing.T
	mu sync.Mutex

	objects map[string]string // the status, by cluster and object
	partial map[string]bool
	listed  int
	missing int // how often WorkStatuses were not served
}

func follow(t *testing.T, limits Limits) (*Store[statusOf], *follower) {
	t.Helper()
	f := &follower{t: t, objects: map[string]string{}, partial: map[string]bool{}}
	return New(Config[statusOf]{
		WDS: "uid", Limits: limits, Reduce: reduce, Changed: f.changed, Partial: f.turns,
		Listed: func() { f.count(&f.listed) }, NotServed: func() { f.count(&f.missing) },
	}), f
}

func (f *follower) count(what *int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*what++
}

func (f *follower) changed(before, after *statusOf) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if before != nil {
		name := before.cluster + "/" + before.object
		if was, known := f.objects[name]; !known || was != before.status {
			f.t.Errorf("%s was not reported as %q before", name, before.status)
		}
		delete(f.objects, name)
	}
	if after != nil {
		f.objects[after.cluster+"/"+after.object] = after.status
	}
}

func (f *follower) turns(cluster string, partial bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.partial[cluster] == partial {
		f.t.Errorf("%s: partial is reported twice as %t", cluster, partial)
	}
	f.partial[cluster] = partial
}

// kept is what a Store has, as a follower learns it.
func kept(s *Store[statusOf]) map[string]string {
	all := map[string]string{}
	for cluster := range s.clusters {
		for _, value := range s.Of(cluster) {
			all[value.cluster+"/"+value.object] = value.status
		}
	}
	return all
}

func refills(s *Store[statusOf]) bool {
	select {
	case <-s.refill:
		return true
	default:
		return false
	}
}

// TestMailboxIsBounded: a cluster that reports more, or more bytes, than are kept of one cluster
// has effect on nothing but its own reports, which are unknown then.
func TestMailboxIsBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		limits Limits
		status string
	}{
		"ByCount": {limits: Limits{Reports: 20, Bytes: 1 << 20}, status: `{}`},
		"BySize":  {limits: Limits{Reports: 1000, Bytes: 20 << 10}, status: `{"a":"` + strings.Repeat("x", 1000) + `"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s, f := follow(t, tc.limits)
			do := func(err error) {
				t.Helper()
				if err != nil {
					t.Error(err)
				}
			}
			expect := func(cluster, object string, wantFound, wantKnown bool) {
				t.Helper()
				if got, known := s.Get(refOf(object), cluster); (got != nil) != wantFound || known != wantKnown {
					t.Errorf("report of %s on %s: found %t, known %t", cluster, object, got != nil, known)
				}
			}
			expect("modest", "0", false, false)
			do(s.Replace(nil, ""))
			expect("modest", "0", false, true)
			for i := range 100 {
				do(s.Add(report("greedy", fmt.Sprint(i), "1", tc.status)))
			}
			do(s.Add(report("modest", "0", "1", tc.status)))
			box := s.clusters["greedy"]
			if len(box.reports) > 20 || len(box.reports) < 18 || box.bytes > tc.limits.Bytes {
				t.Errorf("%d reports with %d bytes are kept", len(box.reports), box.bytes)
			}
			if diff := cmp.Diff(map[string]float64{"greedy": float64(100 - len(box.reports))}, s.Refused()); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			expect("greedy", "0", true, true)
			expect("greedy", "99", false, false)
			expect("greedy", "other", false, false)
			expect("modest", "0", true, true)
			expect("modest", "99", false, true)
			if !f.partial["greedy"] || f.partial["modest"] {
				t.Errorf("partial: %v", f.partial)
			}
			if refills(s) {
				t.Error("listed again without room")
			}
			// With room again, what was refused is listed; and then everything is known.
			for i := range 95 {
				do(s.Delete(report("greedy", fmt.Sprint(i), "1", tc.status)))
			}
			if !refills(s) {
				t.Error("not listed again with room")
			}
			left := []any{report("modest", "0", "1", tc.status)}
			for i := 95; i < 100; i++ {
				left = append(left, report("greedy", fmt.Sprint(i), "1", tc.status))
			}
			do(s.Replace(left, ""))
			expect("greedy", "99", true, true)
			expect("greedy", "other", false, true)
			if len(s.Refused()) > 0 || f.partial["greedy"] {
				t.Errorf("still refused: %v, partial %t", s.Refused(), f.partial["greedy"])
			}
			if diff := cmp.Diff(kept(s), f.objects); diff != "" {
				t.Errorf("followed (-kept +followed):\n%s", diff)
			}
		})
	}
}

// TestBackAndForth: a cluster that goes beyond the limits and back is partial until the next list,
// so that its readers have no work with each step.
func TestBackAndForth(t *testing.T) {
	s, f := follow(t, Limits{Reports: 1, Bytes: 1 << 10})
	steps := 0
	s.config.Partial = func(cluster string, partial bool) {
		steps++
		f.turns(cluster, partial)
	}
	one, two := report("c", "1", "1", ""), report("c", "2", "1", "")
	do := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Error(err)
			}
		}
	}
	do(s.Replace([]any{one}, ""))
	for range 10 {
		do(s.Add(two), s.Delete(two))
		if _, known := s.Get(refOf("2"), "c"); known {
			t.Error("it is known whether there is a report before the next list")
		}
	}
	if !refills(s) {
		t.Error("not listed again when nothing is refused any more")
	}
	do(s.Replace([]any{one}, ""))
	if _, known := s.Get(refOf("2"), "c"); !known || steps != 2 {
		t.Errorf("known %t; turned %d times, want twice", known, steps)
	}
	// A mailbox that is emptied is known after the next list, too.
	do(s.Add(two), s.Delete(two), s.Delete(one), s.Replace(nil, ""))
	if _, known := s.Get(refOf("2"), "c"); !known || steps != 4 || len(s.clusters) > 0 {
		t.Errorf("known %t; turned %d times, want 4 times; %d mailboxes are left", known, steps, len(s.clusters))
	}
}

// TestByHand: a WorkStatus that does not have the name of its object takes no room.
func TestByHand(t *testing.T) {
	s, f := follow(t, Limits{Reports: 1, Bytes: 1 << 10})
	forged := report("c", "1", "1", "")
	forged.Name = "by-hand"
	for _, do := range []func() error{
		func() error { return s.Add(forged) },
		func() error { return s.Update(forged) },
		func() error { return s.Delete(forged) },
		func() error { return s.Replace([]any{forged, report("c", "2", "1", "")}, "") },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"c/2"}, slices.Collect(maps.Keys(f.objects))); diff != "" || len(s.Refused()) > 0 {
		t.Errorf("refused %v; kept (-want +got):\n%s", s.Refused(), diff)
	}
}

// TestStoreCounts: in any order of events, what is kept is counted right and within the limits,
// what is not kept was refused, and who follows the calls knows the same.
func TestStoreCounts(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		s, f := follow(t, Limits{Reports: 8, Bytes: 400})
		exists := map[string]*controlv1alpha1.WorkStatus{}
		for step := range 300 {
			name := fmt.Sprint(rnd.IntN(20))
			ws := report("c", name, fmt.Sprint(step), strings.Repeat("x", rnd.IntN(100)))
			var err error
			switch _, was := exists[name]; {
			case rnd.IntN(60) == 0:
				var all []any
				for _, ws := range exists {
					all = append(all, ws)
				}
				err = s.Replace(all, "")
			case was && rnd.IntN(2) == 0:
				delete(exists, name)
				err = s.Delete(ws)
			case was:
				exists[name] = ws
				err = s.Update(ws)
			default:
				exists[name] = ws
				err = s.Add(ws)
			}
			box := s.clusters["c"]
			if box == nil {
				box = &mailbox[statusOf]{}
			}
			bytes := 0
			for _, report := range box.reports {
				bytes += reduce(&controlv1alpha1.WorkStatus{
					Spec:   controlv1alpha1.WorkStatusSpec{SourceRef: controlv1alpha1.SourceRef{Name: report.value.object}},
					Status: &runtime.RawExtension{Raw: []byte(report.value.status)},
				}).Bytes
			}
			if err != nil || len(box.reports)+box.refused != len(exists) || bytes != box.bytes || len(box.reports) > 8 || bytes > 400 {
				t.Fatalf("seed %d, step %d: %d reports of %d and %d bytes, %d refused of %d: %v",
					seed, step, len(box.reports), bytes, box.bytes, box.refused, len(exists), err)
			}
			if diff := cmp.Diff(kept(s), f.objects); diff != "" || f.partial["c"] != box.partial || box.refused > 0 && !box.partial {
				t.Fatalf("seed %d, step %d: partial %t, refused %d; followed: partial %t (-kept +followed):\n%s",
					seed, step, box.partial, box.refused, f.partial["c"], diff)
			}
		}
	}
}

// TestSeveralWDSes: of the reports for several WDSes, those count that name ours, and as long as
// they do. The agent writes that; what else is on the report does not matter.
func TestSeveralWDSes(t *testing.T) {
	s, f := follow(t, Limits{Reports: 1, Bytes: 1 << 10})
	labelled := func(label, uids string) *controlv1alpha1.WorkStatus {
		ws := report("c", "1", label+uids, "")
		ws.Labels = map[string]string{controlv1alpha1.LabelWDSUID: label}
		ws.Annotations = map[string]string{controlv1alpha1.AnnotationWDSUIDs: uids}
		return ws
	}
	for _, step := range []struct {
		label, uids string
		want        bool
	}{
		{"uid", "", true},
		{controlv1alpha1.SeveralWDSes, "other,uid", true},
		{controlv1alpha1.SeveralWDSes, "other,uid-2", false},
		{controlv1alpha1.SeveralWDSes, "other,uid,third", true},
		{"other", "uid", false},
		{controlv1alpha1.SeveralWDSes, "", false},
		{"uid", "other", true},
	} {
		for what, do := range map[string]func() error{
			"update": func() error { return s.Update(labelled(step.label, step.uids)) },
			"list":   func() error { return s.Replace([]any{labelled(step.label, step.uids)}, "") },
		} {
			if err := do(); err != nil {
				t.Fatal(err)
			}
			if _, got := f.objects["c/1"]; got != step.want {
				t.Errorf("%s: label %q, annotation %q: kept %t, want %t", what, step.label, step.uids, got, step.want)
			}
		}
	}
	if len(s.Refused()) > 0 {
		t.Errorf("refused: %v", s.Refused())
	}
}
