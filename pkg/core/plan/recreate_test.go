package plan_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/test/agentmodel"
)

var (
	job   = objref.Ref{Group: "batch", Resource: "jobs", Namespace: "web", Name: "migrate"}
	claim = objref.Ref{Resource: "persistentvolumeclaims", Namespace: "web", Name: "data"}
)

// made is an object in the WDS.
type made struct {
	uid types.UID
	// fixed is a field that cannot be changed, edits how often others were.
	fixed, edits int
	orphan       bool
}

// recreations is a WDS whose objects are re-created, and a cluster.
type recreations struct {
	t       *testing.T
	m       *mailbox
	c       *agentmodel.Cluster
	want    map[objref.Ref]*made
	content map[transform.Hash]made
	limits  packing.Limits
	uids    int
	trace   []string
	// obstacles are what the agent meets with objects.
	obstacles map[objref.Ref]agentmodel.Obstacle
	// other is another Binding with works in the same mailbox, nil if there is none.
	other *recreations
	// applied are the UIDs of what was applied to each object of the cluster, by its UID there.
	applied map[int]map[types.UID]bool
	// reported are the UIDs of what was reported applied last, by the UIDs in the cluster.
	reported map[int]types.UID
}

func newRecreations(t *testing.T, limits packing.Limits) *recreations {
	t.Helper()
	r := &recreations{
		t: t, c: agentmodel.New(), want: map[objref.Ref]*made{}, content: map[transform.Hash]made{}, limits: limits,
		m:       &mailbox{works: map[string]*plan.Work{}, sources: map[transform.Hash]types.UID{}, withdrawn: map[transform.Hash]bool{}, repacks: limits.Repack},
		applied: map[int]map[types.UID]bool{}, reported: map[int]types.UID{}, obstacles: map[objref.Ref]agentmodel.Obstacle{},
	}
	return r
}

func (r *recreations) create(ref objref.Ref, fixed int) {
	r.uids++
	r.want[ref] = &made{uid: types.UID(fmt.Sprintf("u%d", r.uids)), fixed: fixed}
}

// object returns an object as it is delivered.
func (r *recreations) object(ref objref.Ref) plan.Object {
	of := *r.want[ref]
	o, err := transform.Pipeline{}.Apply(ref, map[string]any{
		"apiVersion": schema.GroupVersion{Group: ref.Group, Version: "v1"}.String(), "kind": "Kind", "metadata": map[string]any{
			"name": ref.Name, "namespace": ref.Namespace, "annotations": map[string]any{"starling.io/source-generation": "0/" + string(of.uid)},
		},
		"fixed": int64(of.fixed), "edits": int64(of.edits),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.content[o.Hash] = of
	gone, err := transform.Withdrawn(ref, o.Kind, of.uid)
	if err != nil {
		r.t.Fatal(err)
	}
	r.m.sources[o.Hash], r.m.sources[gone.Hash], r.m.withdrawn[gone.Hash] = of.uid, of.uid, true
	return plan.Object{Object: o, Known: true, Options: plan.Options{Orphan: of.orphan}}
}

// deliver plans and writes until nothing is to be done, and returns the last plan.
func (r *recreations) deliver() plan.Plan {
	r.t.Helper()
	var objects []plan.Object
	for ref := range r.want {
		objects = append(objects, r.object(ref))
	}
	r.meet()
	d := plan.NewDesired(objects, r.limits)
	built := plan.Build(d, r.m.current())
	for i := range built.Actions {
		r.log(built.Actions[i].String())
		if work := r.m.works[built.Actions[i].Name]; work != nil && work.Begun && built.Actions[i].Verb == plan.Delete {
			leaving := *work
			leaving.Deleting = true
			r.m.works[work.Name] = &leaving
			continue
		}
		r.m.do(r.t, &built.Actions[i])
	}
	return built
}

// meet tells the Binding what the other one has.
func (r *recreations) meet() {
	if r.other == nil {
		return
	}
	leaving := func(ref objref.Ref) bool { return r.want[ref] == nil }
	lists := func(ref objref.Ref) bool { return r.other.want[ref] != nil }
	peer := &plan.Peer{Binding: "other", Works: r.other.m.list(), Lists: lists}
	for _, work := range peer.Works {
		work.Binding = peer.Binding
	}
	r.m.owners, r.m.siblings = plan.Owners{}, peer.Works
	r.m.owners.Add(peer, leaving)
	for _, item := range plan.Items(r.m.list()) {
		if leaving(item.Ref) && lists(item.Ref) {
			r.m.owners.AddListed(peer, item.Ref)
		}
	}
}

// look lets the agent look at all works in some order. It refuses to change what is fixed.
func (r *recreations) look(order []string, until agentmodel.Until) {
	r.t.Helper()
	for _, name := range order {
		work := r.m.works[name]
		if work == nil {
			continue
		}
		if work.Deleting {
			delete(r.m.works, name)
			continue
		}
		meets := func(ref objref.Ref) agentmodel.Obstacle {
			at := slices.IndexFunc(work.Items, func(i plan.Item) bool { return i.Ref == ref })
			if at < 0 {
				return agentmodel.None // see "exceptions" in docs/design/0004-transport.md
			}
			if has := r.c.Objects[ref]; has != nil && !work.Items[at].Observe && r.content[has.Hash].fixed != r.content[work.Items[at].Hash].fixed {
				return max(agentmodel.Refused, r.obstacles[ref])
			}
			return r.obstacles[ref]
		}
		look(r.c, r.m, work, until, meets)
		next := *r.m.works[name]
		next.Items = slices.Clone(next.Items)
		for i := range next.Items {
			item := &next.Items[i]
			has := r.c.Objects[item.Ref]
			if until != agentmodel.Applied { // it has reported
				item.Immutable, item.Missing, item.UID = item.State == plan.Failed && r.obstacles[item.Ref] == agentmodel.None, has == nil, ""
			}
			if has == nil {
				continue
			}
			item.UID = fmt.Sprint(has.UID)
			if r.applied[has.UID] == nil {
				r.applied[has.UID] = map[types.UID]bool{}
			}
			of := r.content[has.Hash].uid
			r.applied[has.UID][of] = true
			if until != agentmodel.Applied && item.State == plan.Applied && item.Source == of {
				r.reported[has.UID] = of
			}
		}
		r.m.works[name] = &next
	}
	r.c.Collect(func(uid types.UID) bool {
		works := r.m.list()
		if r.other != nil {
			works = append(works, r.other.m.list()...)
		}
		return slices.ContainsFunc(works, func(w *plan.Work) bool { return w.UID == uid })
	})
}

// log notes what happens for a test that fails.
func (r *recreations) log(what string) {
	r.trace = append(r.trace, what)
	if r.other != nil {
		r.other.trace = append(r.other.trace, "  of the other: "+what)
	}
}

// meetAnything puts something in the way of the agent, or takes it away.
func (r *recreations) meetAnything(random *rand.Rand, refs []objref.Ref) {
	ref, obstacle := refs[random.IntN(len(refs))], agentmodel.Obstacle(random.IntN(int(agentmodel.Forbidden)+1))
	if random.IntN(3) > 0 {
		obstacle = agentmodel.None
	}
	if obstacle == agentmodel.NotServed && r.c.Objects[ref] != nil {
		return // with its kind an object goes
	}
	r.obstacles[ref] = obstacle
	r.log(fmt.Sprintf("obstacle %d for %s", obstacle, ref))
}

func (r *recreations) names() []string {
	var names []string
	for name := range r.m.works {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// settle lets all arrive.
func (r *recreations) settle() {
	r.t.Helper()
	for range 12 {
		r.look(r.names(), agentmodel.Accounted)
		r.deliver()
	}
}

func (r *recreations) fail(format string, args ...any) {
	r.t.Helper()
	for work, item := range plan.Items(r.m.list()) {
		r.trace = append(r.trace, fmt.Sprintf("%s generation %d listed %v: %s of %s, state %d, reported %t, missing %t, withdrawn %t, %s",
			work.Name, work.Generation, work.Listed, item.Ref, item.Source, item.State, item.Reported, item.Missing, item.Withdrawn, item.StageText()))
	}
	r.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(r.trace, "\n"))
}

// TestRecreated: what becomes in a cluster of an object that is re-created while its agent is away.
func TestRecreated(t *testing.T) {
	for name, tc := range map[string]struct {
		ref    objref.Ref
		fixed  int  // of the new one; that of the former one is 1
		orphan bool // both
		was    bool // delivered before what is delivered named its object
		// wantNew: the cluster has deleted the former one, and created the new one. Otherwise it
		// has updated it, or has refused that.
		wantNew, wantRefused bool
	}{
		"Updated":            {ref: nginx, fixed: 1},
		"CannotBeUpdated":    {ref: nginx, fixed: 2, wantNew: true},
		"RunsOnce":           {ref: job, fixed: 1, wantNew: true},
		"RunsOnceChanged":    {ref: job, fixed: 2, wantNew: true},
		"IsToStay":           {ref: nginx, fixed: 2, orphan: true, wantRefused: true},
		"TakesData":          {ref: claim, fixed: 2, wantRefused: true},
		"ClaimUpdated":       {ref: claim, fixed: 1},
		"FormerUnknown":      {ref: nginx, fixed: 2, was: true, wantRefused: true},
		"FormerUnknownOfJob": {ref: job, fixed: 1, was: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecreations(t, packing.Limits{Count: 10, Bytes: 9999})
			r.create(settings, 1)
			r.create(tc.ref, 1)
			r.want[tc.ref].orphan = tc.orphan
			r.deliver()
			r.settle()
			former := r.c.Objects[tc.ref].UID
			if tc.was {
				for _, work := range r.m.works {
					for i := range work.Items {
						work.Items[i].Source = ""
					}
				}
			}
			r.create(tc.ref, tc.fixed)
			r.want[tc.ref].orphan = tc.orphan
			r.deliver()
			r.settle()
			has := r.c.Objects[tc.ref]
			if has == nil || (has.UID != former) != tc.wantNew {
				r.fail("the cluster has %+v, had the UID %d", has, former)
			}
			if arrived := r.content[has.Hash] == *r.want[tc.ref]; arrived == tc.wantRefused {
				r.fail("the cluster has %+v, want %+v: %t", r.content[has.Hash], *r.want[tc.ref], !tc.wantRefused)
			}
			for _, item := range plan.Items(r.m.list()) {
				if item.Stage != (plan.Stage{}) && !tc.wantRefused {
					r.fail("%s is at %s in the end", item.Ref, item.StageText())
				}
			}
			if built := r.deliver(); len(built.Leaving) > 0 && !tc.wantRefused {
				r.fail("leaving in the end: %+v", built.Leaving)
			}
		})
	}
}

// TestRecreatedSteps: what is written, one plan for each line.
func TestRecreatedSteps(t *testing.T) {
	r := newRecreations(t, packing.Limits{Count: 10, Bytes: 9999})
	r.create(settings, 1)
	r.create(nginx, 1)
	r.deliver()
	r.settle()
	r.trace = nil
	r.create(nginx, 2)
	r.deliver()
	for range 8 {
		r.trace = append(r.trace, "agent")
		r.look(r.names(), agentmodel.Accounted)
		r.deliver()
	}
	want := []string{
		"patch cluster1/uid-1-0 (edit): ~[1] deployments.apps web/nginx, rest",
		"agent",
		`create cluster1/uid-1-1 (place): +deployments.apps web/nginx stage{"former":"u2"} observe`,
		"agent",
		"patch cluster1/uid-1-0 (remove): ~[1] deployments.apps web/nginx, rest",
		"agent",
		"patch cluster1/uid-1-0 (remove): -[1] deployments.apps web/nginx, rest",
		"agent",
		"patch cluster1/uid-1-1 (edit): ~[0] deployments.apps web/nginx, rest",
		"agent", "agent", "agent", "agent",
	}
	if diff := gocmp.Diff(want, r.trace); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRecreationHistories runs random histories of objects that are created, edited, re-created and
// deleted, with an agent that is away at times and ends at times before it has reported. No object
// is deleted in the cluster that it has reported to be of the object that the WDS has, or that is
// to stay. In the end the cluster has what the WDS has, and of what runs once never one that was
// another before; where one is to stay, only after somebody has deleted that.
func TestRecreationHistories(t *testing.T) {
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 28))
		r := newRecreations(t, someLimits(random))
		refs := []objref.Ref{settings, nginx, job, {Resource: "services", Namespace: "web", Name: "front"}, {Resource: "pods", Namespace: "web", Name: "one"}}
		orphans := seed >= 300
		r.c.Deleted = func(ref objref.Ref, _ types.UID) {
			r.trace = append(r.trace, "  deleted "+ref.String())
		}
		has := map[objref.Ref]agentmodel.Object{}
		for step := range 40 {
			for range random.IntN(3) {
				ref := refs[random.IntN(len(refs))]
				of := r.want[ref]
				switch n := random.IntN(6); {
				case of == nil, n < 2:
					r.create(ref, random.IntN(2))
					r.want[ref].orphan = orphans && runsOnce(ref) && random.IntN(2) == 0
				case n == 2 && (!orphans || !runsOnce(ref)): // what stays after it has left its work is not known any more
					delete(r.want, ref)
				default:
					of.edits++
				}
				r.trace = append(r.trace, fmt.Sprintf("%d: %s is %+v", step, ref, r.want[ref]))
			}
			r.deliver()
			r.meetAnything(random, refs)
			if random.IntN(3) == 0 {
				continue
			}
			order := r.names()
			random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			for ref, o := range r.c.Objects {
				has[ref] = *o
			}
			r.look(order[:random.IntN(len(order)+1)], agentmodel.Until(2*random.IntN(2)))
			for ref, was := range has {
				now, wanted := r.c.Objects[ref], r.want[ref]
				if wanted != nil && r.reported[was.UID] == wanted.uid && (now == nil || now.UID != was.UID) {
					r.fail("seed %d: %s was deleted, and is wanted", seed, ref)
				}
				if r.content[was.Hash].orphan && (now == nil || now.UID != was.UID) {
					r.fail("seed %d: %s was deleted, and is to stay", seed, ref)
				}
			}
			clear(has)
		}
		clear(r.obstacles)
		r.settle()
		r.settle()
		for _, h := range r.deliver().Leaving {
			if h.Kept {
				delete(r.c.Objects, h.Ref)
			}
		}
		r.settle()
		for _, ref := range refs {
			now, wanted := r.c.Objects[ref], r.want[ref]
			switch {
			case wanted == nil && now != nil:
				r.fail("seed %d: %s is left", seed, ref)
			case wanted == nil:
			case now == nil || r.content[now.Hash] != *wanted:
				r.fail("seed %d: the cluster has %+v of %s, want %+v", seed, now, ref, wanted)
			case runsOnce(ref) && len(r.applied[now.UID]) > 1:
				r.fail("seed %d: %s was updated, and runs once: %v", seed, ref, r.applied[now.UID])
			}
		}
		if built := r.deliver(); len(built.Actions)+len(built.Leaving) > 0 {
			r.fail("seed %d: not settled: %+v", seed, built)
		}
	}
}

func runsOnce(ref objref.Ref) bool { return ref == job || ref.Resource == "pods" }

// TestWaitingIsNoClaim: what a work says of a manifest that waits is what is read from it.
func TestWaitingIsNoClaim(t *testing.T) {
	r := newRecreations(t, packing.Limits{Count: 10, Bytes: 9999})
	r.create(job, 1)
	r.deliver()
	r.settle()
	r.create(job, 1)
	built := r.deliver()
	at := slices.IndexFunc(built.Actions, func(a plan.Action) bool { return a.Verb == plan.Create })
	if at < 0 {
		r.fail("nothing waits")
	}
	for i, item := range r.m.sourced(items(built.Actions[at].After)) {
		if entry := &built.Actions[at].After[i]; entry.Claim() || item.Claim() {
			r.fail("%s is written as a claim: %t; read as one: %t", item.Ref, entry.Claim(), item.Claim())
		}
	}
}

// TestRecreatedWithOrphan: what runs once is another one than that which is to stay in the cluster.
// So it waits until somebody deletes that: nobody else does, not with the work either.
func TestRecreatedWithOrphan(t *testing.T) {
	for name, orphan := range map[string][2]bool{ // the former one, and the new one
		"Both": {true, true}, "TheFormer": {true, false}, "TheNew": {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecreations(t, packing.Limits{Count: 10, Bytes: 9999})
			r.create(settings, 1)
			r.create(job, 1)
			r.want[job].orphan = orphan[0]
			r.deliver()
			r.settle()
			former := *r.c.Objects[job]
			r.create(job, 1)
			r.want[job].orphan = orphan[1]
			r.deliver()
			r.settle()
			if has := r.c.Objects[job]; has == nil || has.UID != former.UID || has.Hash != former.Hash || len(has.Owners) > 0 {
				r.fail("the cluster has %+v, had %+v", has, former)
			}
			if built := r.deliver(); len(built.Leaving) != 1 || !built.Leaving[0].Former || !built.Leaving[0].Kept {
				r.fail("no text: %+v", built.Leaving)
			}
			delete(r.c.Objects, job)
			r.settle()
			if has := r.c.Objects[job]; has == nil || r.content[has.Hash] != *r.want[job] {
				r.fail("the cluster has %+v after the former one was deleted", has)
			}
			if built := r.deliver(); len(built.Leaving)+len(built.Actions) > 0 {
				r.fail("not settled: %+v", built)
			}
		})
	}
}

// TestRecreatedAfterOrphan: the name of an object that stays in the cluster is used again, after it
// has left its work, and before the cluster has reported that. Nobody deletes the former one, so
// nobody waits for that.
func TestRecreatedAfterOrphan(t *testing.T) {
	r := newRecreations(t, packing.Limits{Count: 10, Bytes: 9999})
	r.create(settings, 1)
	r.create(job, 1)
	r.want[job].orphan = true
	r.deliver()
	r.settle()
	delete(r.want, job)
	r.deliver()
	r.create(job, 1)
	r.deliver()
	r.settle()
	if built := r.deliver(); len(built.Leaving) > 0 {
		r.fail("the new Job waits for the end of an orphan: %+v", built.Leaving)
	}
}

// twoBindings returns two Bindings of one WDS.
func twoBindings(t *testing.T, limits packing.Limits) [2]*recreations {
	t.Helper()
	a, b := newRecreations(t, limits), newRecreations(t, limits)
	b.c, b.content, b.applied, b.reported = a.c, a.content, a.applied, a.reported
	b.m.uids, b.m.prefix = 1000, "other"
	b.m.sources, b.m.withdrawn, b.obstacles = a.m.sources, a.m.withdrawn, a.obstacles
	a.other, b.other = b, a
	return [2]*recreations{a, b}
}

// settleBoth lets all arrive that two Bindings deliver.
func settleBoth(both [2]*recreations) {
	for range 15 {
		for _, r := range both {
			r.look(r.names(), agentmodel.Accounted)
			r.deliver()
		}
	}
}

// TestRecreatedForTwoBindings: what runs once is another one in the cluster, for each Binding that
// lists it.
func TestRecreatedForTwoBindings(t *testing.T) {
	for name, lists := range map[string][2][2]bool{ // which of the two, before and after
		"BothDo":        {{true, true}, {true, true}},
		"TheOtherDoes":  {{true, false}, {false, true}},
		"TheOtherJoins": {{true, false}, {true, true}},
		"OneLeaves":     {{true, true}, {false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			both := twoBindings(t, packing.Limits{Count: 10, Bytes: 9999})
			list := func(uid types.UID, lists [2]bool) {
				for i, r := range both {
					delete(r.want, job)
					if lists[i] {
						r.want[job] = &made{uid: uid}
					}
				}
			}
			list("u1", lists[0])
			settleBoth(both)
			former := both[0].c.Objects[job].UID
			list("u2", lists[1])
			settleBoth(both)
			if has := both[0].c.Objects[job]; has == nil || has.UID == former || both[0].content[has.Hash].uid != "u2" {
				both[0].fail("the cluster has %+v, had the UID %d", has, former)
			}
			for _, r := range both {
				if built := r.deliver(); len(built.Leaving)+len(built.Actions) > 0 {
					r.fail("not settled: %+v", built)
				}
			}
		})
	}
}

// TestRecreationHistoriesOfTwoBindings does the same as TestRecreationHistories with objects that
// one or both of two Bindings list, which changes at any time.
func TestRecreationHistoriesOfTwoBindings(t *testing.T) {
	refs := []objref.Ref{nginx, job, {Resource: "pods", Namespace: "web", Name: "one"}}
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 29))
		both := twoBindings(t, someLimits(random))
		uids, exists, kept := 0, map[objref.Ref]*made{}, map[objref.Ref]types.UID{}
		list := func(r *recreations, ref objref.Ref, lists bool) {
			delete(r.want, ref)
			if lists && exists[ref] != nil {
				r.want[ref] = exists[ref]
			} else {
				delete(kept, ref)
			}
		}
		trace := func(format string, args ...any) {
			for _, r := range both {
				r.trace = append(r.trace, fmt.Sprintf(format, args...))
			}
		}
		for step := range 40 {
			for range random.IntN(3) {
				ref := refs[random.IntN(len(refs))]
				switch n := random.IntN(8); {
				case exists[ref] == nil, n < 2:
					uids++
					exists[ref] = &made{uid: types.UID(fmt.Sprintf("u%d", uids)), fixed: random.IntN(2)}
					kept[ref] = exists[ref].uid
					for _, r := range both {
						if r.want[ref] != nil || random.IntN(2) == 0 {
							list(r, ref, true)
						}
					}
				case n == 2:
					delete(exists, ref)
					for _, r := range both {
						list(r, ref, false)
					}
				case n < 6:
					list(both[random.IntN(2)], ref, random.IntN(2) == 0)
				default:
					exists[ref].edits++
				}
				trace("%d: %s is %+v, listed %t, %t", step, ref, exists[ref], both[0].want[ref] != nil, both[1].want[ref] != nil)
			}
			for _, at := range random.Perm(2)[:random.IntN(3)] {
				r := both[at]
				r.deliver()
				r.meetAnything(random, refs)
				if random.IntN(3) == 0 {
					continue
				}
				order := r.names()
				random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
				has := map[objref.Ref]agentmodel.Object{}
				for ref, o := range r.c.Objects {
					has[ref] = *o
				}
				r.look(order[:random.IntN(len(order)+1)], agentmodel.Until(2*random.IntN(2)))
				for ref, was := range has {
					if now := r.c.Objects[ref]; kept[ref] != "" && r.reported[was.UID] == kept[ref] && (now == nil || now.UID != was.UID) {
						r.fail("seed %d: %s was deleted, and is wanted", seed, ref)
					}
				}
			}
		}
		clear(both[0].obstacles)
		settleBoth(both)
		settleBoth(both)
		for _, ref := range refs {
			now, a, b := both[0].c.Objects[ref], both[0].want[ref], both[1].want[ref]
			switch wanted := cmp.Or(a, b); {
			case wanted == nil && now != nil:
				both[0].fail("seed %d: %s is left: %+v", seed, ref, now)
			case wanted == nil:
			case now == nil || both[0].content[now.Hash] != *wanted:
				both[0].fail("seed %d: the cluster has %+v of %s, want %+v", seed, now, ref, wanted)
			case runsOnce(ref) && len(both[0].applied[now.UID]) > 1:
				both[0].fail("seed %d: %s was updated, and runs once: %v", seed, ref, both[0].applied[now.UID])
			}
		}
		for _, r := range both {
			if built := r.deliver(); len(built.Actions)+len(built.Leaving) > 0 {
				r.fail("seed %d: not settled: %+v", seed, built)
			}
		}
	}
}

// TestAwaitedByAnother: a Binding that lists a re-created object does not need the former one.
func TestAwaitedByAnother(t *testing.T) {
	r := newRecreations(t, packing.Limits{Count: 10, Bytes: 9999})
	r.create(job, 1)
	r.deliver()
	r.settle()
	other := &plan.Work{Name: "other", Binding: "other", Items: []plan.Item{{
		Ref: job, Kind: "Job", Version: "v1", State: plan.Applied, Withdrawn: true,
		Options: plan.Options{Observe: true, Stage: plan.Stage{Begun: true, Former: "u1"}},
	}}}
	owners := plan.Owners{}
	owners.Add(&plan.Peer{Binding: "other", Works: []*plan.Work{other}, Lists: func(objref.Ref) bool { return true }}, func(objref.Ref) bool { return true })
	owners.AddListed(&plan.Peer{Binding: "other"}, job)
	r.m.owners = owners
	delete(r.want, job)
	if built := r.deliver(); len(built.Leaving) > 0 || len(built.Actions) == 0 {
		t.Errorf("waits for one that waits: %+v", built)
	}
}

func TestIsImmutable(t *testing.T) {
	for _, refusal := range []struct {
		text string
		want bool
	}{
		{`Deployment.apps "web" is invalid: spec.selector: Invalid value: {"matchLabels":{"app":"x"}}: field is immutable`, true},
		{`StatefulSet.apps "db" is invalid: spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals' are forbidden`, true},
		{`Service "web" is invalid: spec.clusterIPs[0]: Invalid value: ["10.0.0.1"]: may not change once set`, true},
		{`RoleBinding.rbac.authorization.k8s.io "b" is invalid: roleRef: Invalid value: {}: cannot change roleRef`, true},
		{`StorageClass.storage.k8s.io "fast" is invalid: provisioner: Forbidden: updates to provisioner are forbidden.`, true},
		{`Pod "p" is invalid: spec: Forbidden: pod updates may not change fields other than ` + "`spec.containers[*].image`", true},
		{`ConfigMap "c" is invalid: data: Forbidden: field is immutable when ` + "`immutable` is set", true},
		{`admission webhook "x" denied the request: no`, false},
		{`deployments.apps "web" is forbidden: exceeded quota`, false},
		{"", false},
	} {
		if got := plan.IsImmutable(refusal.text); got != refusal.want {
			t.Errorf("%q: %t", refusal.text, got)
		}
	}
}
