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
)

// agent is a cluster and its work agent, which applies first, and notes and reports afterwards, if it can.
type agent struct {
	owners map[objref.Ref]map[types.UID]bool // of the objects in the cluster
	lives  map[objref.Ref]int                // how often each was created
	noted  map[types.UID]map[objref.Ref]int  // of each work which lives are known to be there
}

// look lets the agent look at the work, in which it cannot create what fails. It returns what it created.
func (a *agent) look(m *mailbox, work *plan.Work, notes bool, fails func() bool) []objref.Ref {
	var created []objref.Ref
	now := map[objref.Ref]int{}
	next := *work
	next.Items = slices.Clone(work.Items)
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
		m.works[work.Name] = &next
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
			if !there[uid] {
				a.disown(ref, uid)
			}
		}
	}
}

// TestNothingIsLeftBehind runs random histories past an agent that often fails between applying and noting: in the end the cluster
// holds what is wanted, and nothing else. Nor does it ever create what nobody wants.
func TestNothingIsLeftBehind(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 11))
		limits := packing.Limits{Count: 1 + random.IntN(6), Bytes: 300 + random.IntN(600)}
		m := &mailbox{works: map[string]*plan.Work{}}
		a := &agent{
			owners: map[objref.Ref]map[types.UID]bool{}, lives: map[objref.Ref]int{}, noted: map[types.UID]map[objref.Ref]int{},
		}
		want := map[objref.Ref]string{}
		sometimes := func() bool { return random.IntN(2) == 0 }
		always, never := func() bool { return true }, func() bool { return false }
		look := func(notes, fails func() bool) {
			for _, name := range slices.Sorted(maps.Keys(m.works)) {
				for _, ref := range a.look(m, m.works[name], notes(), fails) {
					if _, wanted := want[ref]; !wanted {
						t.Fatalf("seed %d: the cluster created %s, which nobody wants", seed, ref)
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
		refs := func(keys []objref.Ref) []objref.Ref { slices.SortFunc(keys, objref.Compare); return keys }
		if diff := cmp.Diff(refs(slices.Collect(maps.Keys(want))), refs(slices.Collect(maps.Keys(a.owners)))); diff != "" {
			t.Fatalf("seed %d: the cluster holds (-want +got):\n%s", seed, diff)
		}
	}
}

// withdrawnIn tells whether an object is only withdrawn in all works that hold it.
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
	site := m.site()
	site.Copies = map[objref.Ref]plan.Copy{
		settings: {Work: same, Hash: object(settings, "1").Hash},
		secret:   {Work: other, Hash: object(secret, "2").Hash},
		role:     {Work: other, Hash: object(role, "2").Hash},
	}
	for name, desired := range map[string][]plan.Object{"Some": {object(role, "1")}, "All": nil} {
		p := plan.Build(plan.NewDesired(desired, limits), site)
		if diff := cmp.Diff([]*plan.Work{other}, p.Outdated); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if p := plan.Build(plan.NewDesired([]plan.Object{object(settings, "1"), object(secret, "1"), object(role, "1")}, limits), site); p.Outdated != nil {
		t.Errorf("nothing leaves, and %v is outdated", p.Outdated)
	}
}
