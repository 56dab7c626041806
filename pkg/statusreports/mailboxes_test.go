package statusreports

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/inventory"
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
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: corestatus.ReportName(ref), ResourceVersion: version},
		Spec:       controlv1alpha1.WorkStatusSpec{SourceRef: controlv1alpha1.SourceRef{Resource: ref.Resource, Namespace: ref.Namespace, Name: ref.Name}},
	}
	if status != "" {
		ws.Status = &runtime.RawExtension{Raw: []byte(status)}
	}
	return ws
}

// TestMailboxIsBounded: a cluster that reports more, or more bytes, than are read of one cluster
// has effect on nothing but its own reports, which are unknown then.
func TestMailboxIsBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		limits limits
		status string
	}{
		"ByCount": {limits: limits{reports: 20, bytes: 1 << 20}, status: `{}`},
		"BySize":  {limits: limits{reports: 1000, bytes: 20 << 10}, status: `{"a":"` + strings.Repeat("x", 1000) + `"}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReader(home{its: "its1", state: inventory.Accepted})
			boxes := r.add("its1", tc.limits)
			boxes.synced = true
			var errs []error
			for i := range 100 {
				errs = append(errs, boxes.Add(report("greedy", fmt.Sprint(i), "1", tc.status)))
			}
			errs = append(errs, boxes.Add(report("modest", "0", "1", tc.status)))
			box := boxes.clusters["greedy"]
			if len(box.reports) > 20 || len(box.reports) < 18 || box.bytes > tc.limits.bytes {
				t.Errorf("%d reports with %d bytes are kept", len(box.reports), box.bytes)
			}
			refused := 100 - len(box.reports)
			if diff := cmp.Diff(map[string]float64{"greedy": float64(refused)}, r.refusals()); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			for _, want := range []struct {
				cluster, object string
				got, known      bool
			}{
				{"greedy", "0", true, true},
				{"greedy", "99", false, false},
				{"greedy", "other", false, false},
				{"modest", "0", true, true},
				{"modest", "99", false, true},
			} {
				got, known := r.Get(refOf(want.object), want.cluster)
				if (got != nil) != want.got || known != want.known {
					t.Errorf("report of %s on %s: found %t, known %t", want.cluster, want.object, got != nil, known)
				}
			}
			// With room again, what was refused is read; and then everything is known.
			select {
			case <-boxes.refill:
				t.Error("read again without room")
			default:
			}
			for i := range 95 {
				errs = append(errs, boxes.Delete(report("greedy", fmt.Sprint(i), "1", tc.status)))
			}
			select {
			case <-boxes.refill:
			default:
				t.Error("not read again with room")
			}
			page := []controlv1alpha1.WorkStatus{*report("modest", "0", "1", tc.status)}
			for i := 95; i < 100; i++ {
				page = append(page, *report("greedy", fmt.Sprint(i), "1", tc.status))
			}
			boxes.list(page, true)
			errs = append(errs, boxes.Replace(nil, ""))
			if got, _ := r.Get(refOf("99"), "greedy"); got == nil {
				t.Error("not reported after it was read again")
			}
			if got, known := r.Get(refOf("other"), "greedy"); got != nil || !known {
				t.Errorf("a report that does not exist: found %t, known %t", got != nil, known)
			}
			if len(r.refusals()) > 0 {
				t.Errorf("still refused: %v", r.refusals())
			}
			for _, err := range errs {
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestMailboxesCount: in any order of events, what is kept is counted right and within the limits,
// and what is not kept was refused.
func TestMailboxesCount(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		r := newReader(home{its: "its1", state: inventory.Accepted})
		boxes := r.add("its1", limits{reports: 8, bytes: 400})
		exists := map[string]*controlv1alpha1.WorkStatus{}
		for step := range 300 {
			name := fmt.Sprint(rnd.IntN(20))
			ws := report("c", name, fmt.Sprint(step), strings.Repeat("x", rnd.IntN(100)))
			var err error
			switch _, was := exists[name]; {
			case rnd.IntN(60) == 0:
				var page []controlv1alpha1.WorkStatus
				for _, ws := range exists {
					page = append(page, *ws)
				}
				boxes.list(page, true)
				err = boxes.Replace(nil, "")
			case was && rnd.IntN(2) == 0:
				delete(exists, name)
				err = boxes.Delete(ws)
			case was:
				exists[name] = ws
				err = boxes.Update(ws)
			default:
				exists[name] = ws
				err = boxes.Add(ws)
			}
			box := boxes.clusters["c"]
			if box == nil {
				box = &mailbox{}
			}
			bytes := 0
			for _, kept := range box.reports {
				bytes += sizeOf(kept)
			}
			if err != nil || len(box.reports)+box.refused != len(exists) || bytes != box.bytes || len(box.reports) > 8 || bytes > 400 {
				t.Fatalf("seed %d, step %d: %d reports of %d and %d bytes, %d refused of %d: %v",
					seed, step, len(box.reports), bytes, box.bytes, box.refused, len(exists), err)
			}
		}
	}
}
