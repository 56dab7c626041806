package plan_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/test/agentmodel"
)

// successors returns the owners of what one mailbox has, in the other one to which the name of the
// cluster has passed.
func successors(from, to *mailbox, want map[objref.Ref]string) plan.Owners {
	passing := map[objref.Ref]bool{}
	for _, item := range plan.Items(from.list()) {
		passing[item.Ref] = true
	}
	lists := func(ref objref.Ref) bool { _, wanted := want[ref]; return wanted }
	works := to.list()
	for i := range works {
		work := *works[i]
		work.Binding = "b"
		works[i] = &work
	}
	peer := plan.Peer{Binding: "b", Works: works, Lists: lists}
	owners := plan.Owners{}
	owners.Add(&peer, func(ref objref.Ref) bool { return passing[ref] })
	for ref := range passing {
		if lists(ref) {
			owners.AddListed(&peer, ref)
		}
	}
	return owners
}

// TestPassed: the name of a cluster passes from one mailbox to another one. Then nothing stays in
// the first, and the cluster of the other gets everything. If that is the same machine, no object
// that is wanted all the time is deleted there; if it is another one, the first one keeps nothing,
// unless it is cut off. Then nothing stays in works that nobody may ever remove.
func TestPassed(t *testing.T) {
	for seed := range uint64(150) {
		random := rand.New(rand.NewPCG(seed, 23))
		same, cut := random.IntN(2) == 0, random.IntN(2) == 0
		limits := someLimits(random)
		limits.Repack = false
		first := &mailbox{works: map[string]*plan.Work{}}
		second := &mailbox{works: map[string]*plan.Work{}, uids: 1000}
		machines := map[*mailbox]*agentmodel.Cluster{first: agentmodel.New(), second: agentmodel.New()}
		if same {
			machines[second] = machines[first]
		}
		want, dropped := map[objref.Ref]string{}, map[objref.Ref]bool{}
		for range 12 {
			want[randomRef(random)] = strings.Repeat(fmt.Sprint(random.IntN(10)), 140)
		}
		desired := func() *plan.Desired {
			var objects []plan.Object
			for ref, content := range want {
				objects = append(objects, object(ref, content))
			}
			return plan.NewDesired(objects, limits)
		}
		hinders := false
		looks := func(m *mailbox, until func() agentmodel.Until) {
			for _, name := range slices.Sorted(maps.Keys(m.works)) {
				obstacles, far := map[objref.Ref]agentmodel.Obstacle{}, until()
				if far == agentmodel.Applied || hinders {
					for _, item := range m.works[name].Items {
						if random.IntN(10) == 0 {
							obstacles[item.Ref] = someObstacle(random, machines[m], item.Ref)
						}
					}
				}
				look(machines[m], m, m.works[name], far, func(ref objref.Ref) agentmodel.Obstacle { return obstacles[ref] })
			}
			machines[m].Collect(func(uid types.UID) bool {
				ofOtherHub := (len(uid) > 3) != (m == second) // that is for the other agent
				return ofOtherHub || slices.ContainsFunc(m.list(), func(w *plan.Work) bool { return w.UID == uid })
			})
		}
		fully := func() agentmodel.Until { return agentmodel.Accounted }
		randomly := func() agentmodel.Until { return agentmodel.Until(2 * random.IntN(2)) }
		for range 6 {
			run(t, first, desired(), fmt.Sprintf("seed %d before", seed))
			looks(first, fully)
		}
		machines[second].Deleted = func(ref objref.Ref, uid types.UID) {
			if _, wanted := want[ref]; wanted && same && !dropped[ref] {
				t.Fatalf("seed %d: %s was deleted for work %s", seed, ref, uid)
			}
		}
		step := func(until func() agentmodel.Until) {
			if random.IntN(3) > 0 || until() == agentmodel.Accounted {
				run(t, second, desired(), fmt.Sprintf("seed %d", seed))
			}
			if random.IntN(3) > 0 {
				looks(second, until)
			}
			now := first.current()
			now.Owners, now.Passed, now.Unattended = successors(first, second, want), true, cut
			built := plan.Build(&plan.Desired{}, now)
			for i := range built.Actions {
				a := &built.Actions[i]
				if work := first.works[a.Name]; a.Verb == plan.Delete && work.Begun {
					for _, item := range work.Items {
						if !item.Withdrawn {
							t.Fatalf("seed %d: %s, and the work has %s", seed, a, item.Ref)
						}
					}
				}
				first.do(t, a)
			}
			if !cut && random.IntN(3) > 0 {
				looks(first, until)
			}
		}
		hinders = true
		for range 20 {
			for range random.IntN(3) {
				ref := randomRef(random)
				if random.IntN(2) == 0 {
					delete(want, ref)
					dropped[ref] = true
				} else {
					want[ref] = strings.Repeat(fmt.Sprint(random.IntN(10)), 140)
				}
			}
			step(randomly)
		}
		hinders = false
		for range 40 {
			step(fully)
		}
		if len(first.works) > 0 {
			t.Fatalf("seed %d: %d works are left in the first mailbox: %+v", seed, len(first.works), first.list()[0])
		}
		for ref := range want {
			if machines[second].Objects[ref] == nil {
				t.Fatalf("seed %d: %s is missing in the cluster", seed, ref)
			}
		}
		if left := len(machines[first].Objects); !same && !cut && left > 0 {
			t.Fatalf("seed %d: the first machine keeps %d objects", seed, left)
		}
	}
}

// TestPassedWaits: what the cluster of the other mailbox has not reported stays as it is.
func TestPassedWaits(t *testing.T) {
	limits := packing.Limits{Count: 9, Bytes: 500}
	want := map[objref.Ref]string{settings: "1"}
	first, second := &mailbox{works: map[string]*plan.Work{}}, &mailbox{works: map[string]*plan.Work{}, uids: 1000}
	run(t, first, plan.NewDesired([]plan.Object{object(settings, "1"), object(secret, "1")}, limits), "place")
	first.works["uid-1-0"].Begun = true
	first.report(every, plan.Applied)
	leaves := "patch cluster1/uid-1-0 (remove): -[1] " + secret.String() + ", rest" // nobody lists it
	for _, tc := range []struct {
		name    string
		do      func()
		waits   bool
		actions string
	}{
		{"Listed", func() {}, true, leaves},
		{"Delivered", func() { run(t, second, plan.NewDesired([]plan.Object{object(settings, "2")}, limits), "place") }, true, leaves},
		{"Failed", func() { second.report(every, plan.Failed) }, true, leaves},
		{"Applied", func() { second.report(every, plan.Applied) }, false, "patch cluster1/uid-1-0 (remove): ~[0] " + settings.String() + ", ~[1] " + secret.String() + ", rest"},
	} {
		tc.do()
		for _, unattended := range []bool{false, true} {
			now := first.current()
			now.Owners, now.Passed, now.Unattended = successors(first, second, want), true, unattended
			built := plan.Build(&plan.Desired{}, now)
			if waits := len(built.Leaving) == 1 && built.Leaving[0].Waits; waits != tc.waits {
				t.Errorf("%s: waits %t, want %t", tc.name, waits, tc.waits)
			}
			if got := trace(built.Actions); got != tc.actions {
				t.Errorf("%s, unattended %t: %s, want %s", tc.name, unattended, got, tc.actions)
			}
		}
	}
}

// TestPassedWithAnOldReport: nobody reports any more what left a work that nobody attends to. So
// that does not keep the work.
func TestPassedWithAnOldReport(t *testing.T) {
	kept := plan.Item{Ref: settings, Kind: "ConfigMap", Version: "v1", State: plan.Applied, Seen: true, Reported: true, Options: plan.Options{Orphan: true}}
	work := &plan.Work{Mailbox: "cluster1", Name: "w", UID: "w", Begun: true, Wave: 1, Items: []plan.Item{kept}, Listed: []objref.Ref{secret}}
	for unattended, want := range map[bool]int{true: 1, false: 0} {
		p := plan.Build(&plan.Desired{}, &plan.Current{Mailbox: "cluster1", Prefix: "p", Works: []*plan.Work{work}, Passed: true, Unattended: unattended})
		deletions := 0
		for i := range p.Actions {
			if p.Actions[i].Verb == plan.Delete {
				deletions++
			}
		}
		if deletions != want || len(p.Actions) != want {
			t.Errorf("unattended %t: %s, want %d deletions", unattended, trace(p.Actions), want)
		}
	}
}
