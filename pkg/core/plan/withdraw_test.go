package plan_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// agent is a cluster and its work agent, which applies first, and notes and reports afterwards, if
// it can. It releases a deleted work of which its cache has no account, and leaves in the cluster
// what it applied of it, as OCM's does. The cache has its account of a work at the latest when the
// agent looks at the work again.
type agent struct {
	owners map[objref.Ref]map[types.UID]bool // of the objects in the cluster
	lives  map[objref.Ref]int                // how often each was created
	noted  map[types.UID]map[objref.Ref]int  // of each work which lives are known to be there
	cached map[types.UID]bool                // whether the cache has the account of a work
}

// look lets the agent look at the work, in which it cannot create what fails. It returns what it
// created.
func (a *agent) look(m *mailbox, work *plan.Work, notes bool, fails func() bool) []objref.Ref {
	var created []objref.Ref
	now := map[objref.Ref]int{}
	if _, again := a.cached[work.UID]; again {
		a.cached[work.UID] = true
	} else {
		a.cached[work.UID] = false // the account exists from now on
	}
	next := *work
	next.Begun = true
	next.Items = slices.Clone(work.Items)
	m.works[work.Name] = &next
	for i := range next.Items {
		item := &next.Items[i]
		item.State = plan.Applied
		switch {
		case item.Observe:
		case a.owners[item.Ref] != nil:
			a.owners[item.Ref][work.UID] = true
		case fails():
			item.State = plan.Failed
		default:
			created = append(created, item.Ref)
			a.owners[item.Ref] = map[types.UID]bool{work.UID: true}
			a.lives[item.Ref]++
		}
		if a.owners[item.Ref] != nil {
			now[item.Ref] = a.lives[item.Ref]
		}
	}
	for ref, life := range a.noted[work.UID] {
		// One that is not the one that was noted is not deleted.
		if _, there := now[ref]; !there && (a.lives[ref] == life || len(a.owners[ref]) > 1) {
			a.disown(ref, work.UID)
		}
	}
	if notes {
		a.noted[work.UID] = now
		m.note(&next)
	} else {
		for i := range next.Items {
			next.Items[i].State = work.Items[i].State
		}
	}
	return created
}

func (a *agent) disown(ref objref.Ref, uid types.UID) {
	delete(a.owners[ref], uid)
	if len(a.owners[ref]) == 0 {
		delete(a.owners, ref)
	}
}

// collect takes along what works owned that are gone.
func (a *agent) collect(m *mailbox) {
	there := map[types.UID]bool{}
	for _, work := range m.works {
		there[work.UID] = true
	}
	for ref, owners := range a.owners {
		for uid := range owners {
			if !there[uid] && a.cached[uid] && a.noted[uid] != nil {
				a.disown(ref, uid)
			}
		}
	}
}

// TestNothingIsLeftBehind runs random histories with an agent that often fails after it has applied
// an object, before it has noted this. In the end the cluster holds exactly the desired objects. It
// never creates an object that is not desired.
func TestNothingIsLeftBehind(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 11))
		limits := someLimits(random)
		m := &mailbox{works: map[string]*plan.Work{}, repacks: limits.Repack}
		a := &agent{
			owners: map[objref.Ref]map[types.UID]bool{}, lives: map[objref.Ref]int{}, noted: map[types.UID]map[objref.Ref]int{},
			cached: map[types.UID]bool{},
		}
		want := map[objref.Ref]string{}
		sometimes := func() bool { return random.IntN(2) == 0 }
		always, never := func() bool { return true }, func() bool { return false }
		look := func(notes, fails func() bool) {
			for _, name := range slices.Sorted(maps.Keys(m.works)) {
				for _, ref := range a.look(m, m.works[name], notes(), fails) {
					if _, wanted := want[ref]; !wanted && !neededBy(want, ref) {
						t.Fatalf("seed %d: the cluster created %s, which is not desired", seed, ref)
					}
				}
			}
			a.collect(m)
		}
		for step := range 40 {
			for range random.IntN(4) {
				if ref := randomRef(random); random.IntN(2) == 0 {
					delete(want, ref)
				} else {
					want[ref] = strings.Repeat(fmt.Sprint(random.IntN(10)), 140)
				}
			}
			run(t, m, desired(want, nil, nil, limits), fmt.Sprintf("seed %d step %d", seed, step))
			if random.IntN(3) > 0 {
				look(sometimes, sometimes)
			}
		}
		for range 10 {
			look(always, never)
			run(t, m, desired(want, nil, nil, limits), fmt.Sprintf("seed %d at the end", seed))
		}
		maps.DeleteFunc(a.owners, func(ref objref.Ref, _ map[types.UID]bool) bool {
			_, wanted := want[ref]
			return !wanted && neededBy(want, ref) // it may stay
		})
		refs := func(keys []objref.Ref) []objref.Ref { slices.SortFunc(keys, objref.Compare); return keys }
		if diff := cmp.Diff(refs(slices.Collect(maps.Keys(want))), refs(slices.Collect(maps.Keys(a.owners)))); diff != "" {
			t.Fatalf("seed %d: the cluster holds (-want +got):\n%s", seed, diff)
		}
	}
}

// TestDeletionOfAWork: what a work holds is withdrawn before the work is deleted, unless the agent
// has not begun, or there is none.
func TestDeletionOfAWork(t *testing.T) {
	limits := packing.Limits{Count: 9, Bytes: 500}
	for name, tc := range map[string]struct {
		begun, unattended bool
		state             plan.State
		want              string
		version           string
	}{
		"NotBegun": {want: "delete cluster1/uid-1-0 (remove)", version: "7"},
		"Begun":    {begun: true, want: "patch cluster1/uid-1-0 (remove): ~[0] " + settings.String() + ", rest"},
		"Failed":   {begun: true, state: plan.Failed, want: "patch cluster1/uid-1-0 (remove): ~[0] " + settings.String() + ", rest"},
		"Reported": {begun: true, state: plan.Applied, want: "patch cluster1/uid-1-0 (remove): ~[0] " + settings.String() + ", rest"},
		"NoAgent":  {begun: true, unattended: true, want: "delete cluster1/uid-1-0 (remove)"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &mailbox{works: map[string]*plan.Work{}}
			run(t, m, plan.NewDesired([]plan.Object{object(settings, "1")}, limits), "place")
			work := m.works["uid-1-0"]
			work.Begun, work.ResourceVersion = tc.begun, "7"
			if tc.state != plan.Pending {
				m.report(every, tc.state)
			}
			now := m.current()
			now.Unattended = tc.unattended
			actions := plan.Build(&plan.Desired{}, now).Actions
			if len(actions) != 1 || actions[0].String() != tc.want || actions[0].ResourceVersion != tc.version {
				t.Errorf("got %+v, want %q at version %q", actions, tc.want, tc.version)
			}
		})
	}
}

// withdrawnIn reports whether all works that hold an object only withdraw it.
func withdrawnIn(m *mailbox, ref objref.Ref) bool {
	for _, work := range m.works {
		if !work.Deleting && slices.ContainsFunc(work.Items, func(item plan.Item) bool { return item.Ref == ref && !item.Withdrawn }) {
			return false
		}
	}
	return true
}

// TestOutdated: what leaves outdates what others of ours deliver if it is not the same.
func TestOutdated(t *testing.T) {
	m := &mailbox{works: map[string]*plan.Work{}}
	limits := packing.Limits{Count: 9, Bytes: 500}
	run(t, m, plan.NewDesired([]plan.Object{object(settings, "1"), object(secret, "1"), object(role, "1")}, limits), "place")
	m.report(every, plan.Applied)
	same, other := &plan.Work{Name: "same"}, &plan.Work{Name: "other"}
	copied := func(work *plan.Work, content string) []plan.Owner {
		return []plan.Owner{plan.OwnerOf(work, &plan.Item{Hash: transform.HashOf([]byte(content)), State: plan.Applied})}
	}
	m.owners = plan.Owners{settings: copied(same, "1"), secret: copied(other, "2"), role: copied(other, "2")}
	for name, desired := range map[string][]plan.Object{"Some": {object(role, "1")}, "All": nil} {
		p := plan.Build(plan.NewDesired(desired, limits), m.current())
		if diff := cmp.Diff([]*plan.Work{other}, p.Outdated); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if p := plan.Build(plan.NewDesired([]plan.Object{object(settings, "1"), object(secret, "1"), object(role, "1")}, limits), m.current()); p.Outdated != nil {
		t.Errorf("nothing leaves, and %v is outdated", p.Outdated)
	}
}
