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
	"github.com/starlinghq/starling/test/agentmodel"
)

// look lets the agent look at the work, with what is in its way. It returns what it created.
func look(c *agentmodel.Cluster, m *mailbox, work *plan.Work, until agentmodel.Until, meets func(objref.Ref) agentmodel.Obstacle) []objref.Ref {
	created, next := c.Sync(work, until, meets)
	if next != nil {
		m.note(next)
	} else {
		same := *work
		next = &same
	}
	next.Begun, next.ResourceVersion = true, "begun"
	m.works[work.Name] = next
	return created
}

// someObstacle returns a random obstacle to apply an object. A kind that is not served has no
// objects.
func someObstacle(random *rand.Rand, c *agentmodel.Cluster, ref objref.Ref) agentmodel.Obstacle {
	obstacle := []agentmodel.Obstacle{agentmodel.Refused, agentmodel.NotServed, agentmodel.Forbidden}[random.IntN(3)]
	if obstacle == agentmodel.NotServed && c.Objects[ref] != nil {
		return agentmodel.Refused
	}
	return obstacle
}

// TestNothingIsLeftBehind runs random histories with an agent that often ends after it has applied
// an object, before it has noted this, and that often cannot apply or read an object: so it does
// not note the others of the work either. In the end the cluster holds exactly the desired objects,
// and those that were to be orphaned: none of them was ever deleted. It never creates an object
// that is not desired, except one that it has had and that is to be orphaned.
func TestNothingIsLeftBehind(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 11))
		limits := someLimits(random)
		m := &mailbox{works: map[string]*plan.Work{}, repacks: limits.Repack}
		c := agentmodel.New()
		want, orphan := map[objref.Ref]string{}, map[objref.Ref]bool{}
		stays := map[objref.Ref]bool{}    // what has left and is to stay in the cluster
		released := map[objref.Ref]bool{} // what was to be orphaned at some time: the cluster may own it no more
		unsure := map[objref.Ref]bool{}   // what has left when it was not known whether the cluster had it, without the option
		asked := map[objref.Ref]bool{}    // what was to be orphaned when it was wanted last
		m.orphans = func(ref objref.Ref) (orphan, known bool) { return asked[ref], true }
		c.Deleted = func(ref objref.Ref, uid types.UID) {
			if stays[ref] {
				t.Fatalf("seed %d: %s was deleted for %s, and is to be orphaned", seed, ref, uid)
			}
		}
		desire := func(when string) {
			var objects []plan.Object
			for ref, content := range want {
				o := object(ref, content)
				o.Orphan = orphan[ref]
				asked[ref], released[ref] = o.Orphan, released[ref] || o.Orphan
				objects = append(objects, o)
			}
			run(t, m, plan.NewDesired(objects, limits), when)
		}
		obstacles := map[objref.Ref]agentmodel.Obstacle{}
		meets := func(ref objref.Ref) agentmodel.Obstacle {
			recorded := slices.ContainsFunc(m.list(), func(w *plan.Work) bool { return c.Lists(w.UID)[ref] })
			if obstacles[ref] > agentmodel.Refused && (c.Objects[ref] != nil || recorded) {
				return agentmodel.None // see "exceptions" in docs/design/0004-transport.md
			}
			return obstacles[ref]
		}
		lookAll := func(until func() agentmodel.Until) {
			for _, name := range slices.Sorted(maps.Keys(m.works)) {
				for _, ref := range look(c, m, m.works[name], until(), meets) {
					if _, wanted := want[ref]; !wanted && !neededBy(want, ref) && !stays[ref] && !unsure[ref] {
						t.Fatalf("seed %d: the cluster created %s, which is not desired", seed, ref)
					}
				}
			}
			c.Collect(func(uid types.UID) bool {
				return slices.ContainsFunc(m.list(), func(w *plan.Work) bool { return w.UID == uid })
			})
		}
		for step := range 40 {
			for range random.IntN(4) {
				switch ref := randomRef(random); random.IntN(5) {
				case 0, 1:
					if _, wanted := want[ref]; wanted && asked[ref] {
						stays[ref] = c.Objects[ref] != nil
						unsure[ref] = cameWithout(m, ref)
					}
					delete(want, ref)
				case 2:
					if _, wanted := want[ref]; wanted {
						orphan[ref] = !orphan[ref]
					}
				default:
					want[ref] = strings.Repeat(fmt.Sprint(random.IntN(10)), 140)
					delete(stays, ref)
					delete(unsure, ref)
				}
			}
			desire(fmt.Sprintf("seed %d step %d", seed, step))
			clear(obstacles)
			for range random.IntN(6) {
				obstacles[randomRef(random)] = agentmodel.Obstacle(random.IntN(4))
			}
			if random.IntN(3) > 0 {
				lookAll(func() agentmodel.Until { return agentmodel.Until(2 * random.IntN(2)) })
			}
		}
		clear(obstacles)
		for range 10 {
			lookAll(func() agentmodel.Until { return agentmodel.Accounted })
			desire(fmt.Sprintf("seed %d at the end", seed))
		}
		maps.DeleteFunc(c.Objects, func(ref objref.Ref, o *agentmodel.Object) bool {
			_, wanted := want[ref]
			return !wanted && (neededBy(want, ref) || released[ref] && len(o.Owners) == 0) // it may stay
		})
		refs := func(keys []objref.Ref) []objref.Ref { slices.SortFunc(keys, objref.Compare); return keys }
		if diff := cmp.Diff(refs(slices.Collect(maps.Keys(want))), refs(slices.Collect(maps.Keys(c.Objects)))); diff != "" {
			t.Fatalf("seed %d: the cluster holds (-want +got):\n%s", seed, diff)
		}
	}
}

// cameWithout reports whether a work has an object on which the cluster has not reported, and that
// came without the option to orphan it.
func cameWithout(m *mailbox, ref objref.Ref) bool {
	for _, item := range plan.Items(m.list()) {
		if item.Ref == ref && !item.Seen && !item.Orphan {
			return true
		}
	}
	return false
}

// TestOrphanedBeforeTheReport: where the cluster has not reported on an object yet, it may have it
// without the option that came later. Then the object leaves only when the cluster has reported
// that the option is in force. What came with the option does not wait for that.
func TestOrphanedBeforeTheReport(t *testing.T) {
	limits := packing.Limits{Count: 9, Bytes: 100}
	orphaned := object(settings, "1")
	orphaned.Orphan = true
	for name, first := range map[string]plan.Object{"Later": object(settings, "1"), "FromTheStart": orphaned} {
		t.Run(name, func(t *testing.T) {
			m := &mailbox{works: map[string]*plan.Work{}, orphans: func(objref.Ref) (orphan, known bool) { return true, true }}
			run(t, m, plan.NewDesired([]plan.Object{first}, limits), "placed")
			m.works["uid-1-0"].Begun = true
			run(t, m, plan.NewDesired([]plan.Object{orphaned}, limits), "orphaned")
			var got []string
			for range 4 {
				run(t, m, plan.NewDesired(nil, limits), "removed")
				state := "gone"
				if work := m.works["uid-1-0"]; work != nil {
					item := work.Items[0]
					state = fmt.Sprintf("withdrawn %t, orphaned %t", item.Withdrawn, item.Orphan)
				}
				got = append(got, state)
				m.report(every, plan.Applied)
			}
			want := map[string][]string{
				"Later":        {"withdrawn false, orphaned false", "withdrawn false, orphaned true", "gone", "gone"},
				"FromTheStart": {"withdrawn true, orphaned false", "gone", "gone", "gone"},
			}
			if diff := cmp.Diff(want[name], got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestMovedBeforeTheReport: an object that is to be orphaned moves to another work, and the cluster
// has reported only on that one. It may have the object of the first work without the option.
func TestMovedBeforeTheReport(t *testing.T) {
	small, large := strings.Repeat("s", 40), strings.Repeat("l", 120)
	limits := packing.Limits{Count: 9, Bytes: 200}
	kept := func(content string) *plan.Desired {
		objects := []plan.Object{object(settings, content), object(secret, content)}
		for i := range objects {
			objects[i].Orphan = content == large
		}
		return plan.NewDesired(objects, limits)
	}
	m := &mailbox{works: map[string]*plan.Work{}, orphans: func(objref.Ref) (orphan, known bool) { return true, true }}
	run(t, m, kept(small), "placed")
	if len(m.works) != 1 {
		t.Fatalf("%d works", len(m.works))
	}
	m.works["uid-1-0"].Begun = true
	run(t, m, kept(large), "moved")
	m.report(func(w *plan.Work) bool { return w.Name != "uid-1-0" }, plan.Applied)
	run(t, m, kept(large), "arrived")
	if len(m.works) != 2 {
		t.Fatalf("%d works: nothing moved", len(m.works))
	}
	run(t, m, plan.NewDesired(nil, limits), "removed")
	for _, item := range m.works["uid-1-0"].Items {
		if item.Withdrawn {
			t.Errorf("%s is withdrawn: the cluster would delete it", item.Ref)
		}
	}
	for range 4 {
		m.report(every, plan.Applied)
		run(t, m, plan.NewDesired(nil, limits), "removed")
	}
	if len(m.works) > 0 {
		t.Errorf("left: %v", m.works)
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

// TestWithdrawalFromAWork: what leaves a work that the agent has not begun leaves only if it still
// has not.
func TestWithdrawalFromAWork(t *testing.T) {
	limits := packing.Limits{Count: 9, Bytes: 500}
	for name, tc := range map[string]struct {
		begun   bool
		desired []plan.Object
		want    string
	}{
		"NotBegun": {desired: []plan.Object{object(secret, "1")}, want: "7"},
		"Begun":    {begun: true, desired: []plan.Object{object(secret, "1")}},
		"Edited":   {desired: []plan.Object{object(settings, "2"), object(secret, "1")}},
	} {
		t.Run(name, func(t *testing.T) {
			m := &mailbox{works: map[string]*plan.Work{}}
			run(t, m, plan.NewDesired([]plan.Object{object(settings, "1"), object(secret, "1")}, limits), "place")
			work := m.works["uid-1-0"]
			work.Begun, work.ResourceVersion = tc.begun, "7"
			actions := plan.Build(plan.NewDesired(tc.desired, limits), m.current()).Actions
			if len(actions) != 1 || actions[0].Verb != plan.Patch || actions[0].ResourceVersion != tc.want {
				t.Errorf("got %+v, want a patch at version %q", actions, tc.want)
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
