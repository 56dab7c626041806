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

// TestContest has one object that we want with content 1, and what others have of it.
func TestContest(t *testing.T) {
	const nothing = ""
	one, two := transform.HashOf([]byte("1")), transform.HashOf([]byte("2"))
	theirs := func(wds, work, uid types.UID, item plan.Item) plan.Owner {
		return plan.OwnerOf(&plan.Work{Name: string(work), UID: uid, Created: 20, Foreign: plan.WDS{UID: wds, Name: string(wds)}}, &item)
	}
	claim := plan.Options{Observe: true}
	delivers := theirs("wds2", "w", "m", plan.Item{Hash: two})
	claims := theirs("wds2", "w", "m", plan.Item{Hash: two, Options: claim})
	cases := map[string]struct {
		own     *plan.Item // ours, in a work of the same age and a smaller UID
		created int64
		owners  []plan.Owner
		want    string // the options that we come to
		against string
	}{
		"NobodyElse":            {nil, 0, nil, nothing, nothing},
		"SameBytes":             {nil, 0, []plan.Owner{theirs("wds2", "w", "m", plan.Item{Hash: one})}, nothing, nothing},
		"TheyDeliver":           {nil, 0, []plan.Owner{delivers}, "observe", "w"},
		"TheyClaim":             {nil, 0, []plan.Owner{claims}, "observe", "w"},
		"WeDeliver":             {&plan.Item{Hash: one}, 30, []plan.Owner{claims}, nothing, "w, ours"},
		"WeClaim":               {&plan.Item{Hash: one, Options: plan.Options{Observe: true}}, 10, []plan.Owner{delivers}, "observe", "w"},
		"BothDeliverWeEarlier":  {&plan.Item{Hash: one}, 20, []plan.Owner{delivers}, nothing, "w, ours"},
		"BothDeliverWeLater":    {&plan.Item{Hash: one}, 21, []plan.Owner{delivers}, "createOnly orphan", "w"},
		"BothDeliverSmallerUID": {&plan.Item{Hash: one}, 20, []plan.Owner{theirs("wds2", "w", "a", plan.Item{Hash: two})}, "createOnly orphan", "w"},
		"BothClaimWeEarlier":    {&plan.Item{Hash: one, Options: plan.Options{Observe: true}}, 20, []plan.Owner{claims}, nothing, "w, ours"},
		"BothClaimWeLater":      {&plan.Item{Hash: one, Options: plan.Options{Observe: true}}, 21, []plan.Owner{claims}, "observe", "w"},
		"ThreeAndOneOfOurMind": {nil, 0, []plan.Owner{
			claims, theirs("wds3", "w", "m", plan.Item{Hash: one}),
		}, nothing, "w, ours"},
		"ThreeAndTheOtherDelivers": {nil, 0, []plan.Owner{
			theirs("wds2", "v", "m", plan.Item{Hash: two}), theirs("wds3", "w", "m", plan.Item{Hash: one}),
		}, "observe", "v"},
		"AnotherBindingOfOursDelivers": {nil, 0, []plan.Owner{claims, plan.OwnerOf(&plan.Work{Name: "ours", Created: 30, UID: "o"}, &plan.Item{Hash: one})}, nothing, "w, ours"},
		"LettingGoIsUnderWay":          {&plan.Item{Hash: one, Options: plan.Options{CreateOnly: true, Orphan: true}}, 30, []plan.Owner{delivers}, "createOnly orphan", "w"},
		"LetGo": {
			&plan.Item{Hash: one, Options: plan.Options{CreateOnly: true, Orphan: true}, State: plan.Applied}, 30,
			[]plan.Owner{delivers},
			"observe", "w",
		},
		"LettingGoInVain": {
			&plan.Item{Hash: one, Options: plan.Options{CreateOnly: true, Orphan: true}, State: plan.Applied}, 30,
			[]plan.Owner{claims},
			nothing, "w, ours",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := &mailbox{works: map[string]*plan.Work{}, owners: plan.Owners{settings: tc.owners}}
			if tc.own != nil {
				tc.own.Ref = settings
				m.works["uid-1-0"] = &plan.Work{
					Mailbox: "cluster1", Name: "uid-1-0", UID: "b", Created: tc.created, Wave: 1, Items: []plan.Item{*tc.own},
				}
			}
			p := plan.Build(plan.NewDesired([]plan.Object{object(settings, "1")}, packing.Limits{Count: 1, Bytes: 100}), m.current())
			for i := range p.Actions {
				m.do(t, &p.Actions[i])
			}
			against := make([]string, 0, 1)
			for _, c := range p.Conflicts {
				text := c.With.Work.Name
				if c.Ours {
					text += ", ours"
				}
				against = append(against, text)
			}
			got := m.works["uid-1-0"].Items[0].Options
			if diff := cmp.Diff([]string{tc.want, tc.against}, []string{words(got), strings.Join(against, "; ")}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func words(o plan.Options) string {
	var all []string
	for _, flag := range []struct {
		set  bool
		name string
	}{{o.CreateOnly, "createOnly"}, {o.Orphan, "orphan"}, {o.Observe, "observe"}} {
		if flag.set {
			all = append(all, flag.name)
		}
	}
	return strings.Join(all, " ")
}

// TestWaitForOthersOfOurs takes out an object that another Binding of ours is about to deliver, and
// one that none is.
func TestWaitForOthersOfOurs(t *testing.T) {
	for name, build := range map[string]func(*plan.Current) plan.Plan{
		"Removed": func(now *plan.Current) plan.Plan { return plan.Build(&plan.Desired{}, now) },
		"Unlisted": func(c *plan.Current) plan.Plan {
			return plan.Build(plan.NewDesired(nil, packing.Limits{Count: 1, Bytes: 100}), c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := &mailbox{works: map[string]*plan.Work{}}
			all := []plan.Object{object(settings, "1"), object(role, "1"), object(namespace, "1")}
			for range 3 {
				run(t, m, plan.NewDesired(all, packing.Limits{Count: 9, Bytes: 100}), name)
				m.report(every, plan.Applied)
			}
			m.owners = plan.Owners{settings: {{Binding: "other"}}}
			p := build(m.current())
			for i := range p.Actions {
				m.do(t, &p.Actions[i])
			}
			if diff := cmp.Diff(map[objref.Ref]bool{settings: true, namespace: true}, placed(m)); diff != "" {
				t.Errorf("while the other has not delivered it (-want +got):\n%s", diff)
			}
			if want := []plan.HandOver{{Ref: settings, To: plan.Owner{Binding: "other"}, Waits: true}}; !cmp.Equal(want, p.Leaving) {
				t.Errorf("leaving %+v, want %+v", p.Leaving, want)
			}
			if again := build(m.current()); len(again.Actions) > 0 {
				t.Errorf("planned again: %s", trace(again.Actions))
			}
			m.owners = nil
			p = build(m.current())
			for i := range p.Actions {
				m.do(t, &p.Actions[i])
			}
			if len(placed(m)) > 0 {
				t.Errorf("when it has: %v", placed(m))
			}
		})
	}
}

// TestLeaving takes out an object that others are to have, or have.
func TestLeaving(t *testing.T) {
	w := &plan.Work{Name: "w", UID: "m"}
	foreign := &plan.Work{Name: "w", UID: "m", Foreign: plan.WDS{UID: "wds2", Name: "two"}}
	claim, orphaned := plan.Options{Observe: true}, plan.Options{Orphan: true}
	with := func(o plan.Owner, change func(*plan.Owner)) []plan.Owner { change(&o); return []plan.Owner{o} }
	package1 := func(o *plan.Owner) { o.Source = "package 1" }
	left := func(o *plan.Owner) { o.Leaving = true }
	claims := []plan.Owner{plan.OwnerOf(foreign, &plan.Item{Options: claim})}
	pending := plan.OwnerOf(w, &plan.Item{})
	applied := plan.OwnerOf(w, &plan.Item{State: plan.Applied})
	claimed := plan.OwnerOf(w, &plan.Item{Options: claim})
	cases := map[string]struct {
		item   plan.Item
		owners []plan.Owner
		want   string // what happens to the work, or which options the object has then
	}{
		"NobodyWantsIt":       {plan.Item{}, nil, "deleted"},
		"SomebodyClaimsIt":    {plan.Item{Seen: true, State: plan.Applied}, claims, "createOnly orphan"},
		"NotReportedYet":      {plan.Item{Options: plan.Options{CreateOnly: true, Orphan: true}}, claims, "createOnly orphan"},
		"CannotBeReleased":    {plan.Item{Options: plan.Options{CreateOnly: true, Orphan: true}, State: plan.Failed}, claims, "createOnly orphan"},
		"Released":            {plan.Item{Options: plan.Options{CreateOnly: true, Orphan: true}, State: plan.Applied}, claims, "deleted"},
		"OrphanedByItsUser":   {plan.Item{Options: orphaned, State: plan.Applied}, claims, "deleted"},
		"OrphanedButNotYet":   {plan.Item{Options: orphaned}, claims, "orphan"},
		"WeOnlyClaim":         {plan.Item{Options: claim}, claims, "deleted"},
		"TheyDeliverIt":       {plan.Item{Seen: true}, []plan.Owner{plan.OwnerOf(foreign, &plan.Item{})}, "createOnly orphan"},
		"TheyDeliverItUnseen": {plan.Item{}, []plan.Owner{plan.OwnerOf(foreign, &plan.Item{})}, "stays"},

		"OrphanedAndAway":        {plan.Item{Options: orphaned, Seen: true}, nil, "orphan"},
		"OrphanedAndReportedOld": {plan.Item{Options: orphaned, Seen: true, Reported: true}, nil, "orphan"},
		"OrphanedAndRefused":     {plan.Item{Options: orphaned, Seen: true, State: plan.Failed}, nil, "orphan"},
		"OrphanedAndNotServed": {
			plan.Item{Options: orphaned, Seen: true, State: plan.Failed, Message: "the server doesn't have a resource type \"A\""}, nil, "deleted",
		},
		"OrphanedInForce":       {plan.Item{Options: orphaned, Seen: true, State: plan.Applied}, nil, "deleted"},
		"OrphanedNeverSeen":     {plan.Item{Options: orphaned}, nil, "deleted"},
		"OrphanedAndSilent":     {plan.Item{Options: orphaned, State: plan.Silent}, nil, "deleted"},
		"OrphanedOursLeaves":    {plan.Item{Options: orphaned, Seen: true}, with(applied, left), "orphan"},
		"OrphanedOursKeepsIt":   {plan.Item{Options: orphaned, Seen: true}, []plan.Owner{applied}, "deleted"},
		"OursListed":            {plan.Item{}, []plan.Owner{{Binding: "b"}}, "stays"},
		"OursPending":           {plan.Item{}, []plan.Owner{pending}, "stays"},
		"OursFailed":            {plan.Item{}, []plan.Owner{plan.OwnerOf(w, &plan.Item{State: plan.Failed})}, "stays"},
		"OursFailedAfterwards":  {plan.Item{}, []plan.Owner{plan.OwnerOf(w, &plan.Item{State: plan.Failed, Reported: true})}, "deleted"},
		"OursSilent":            {plan.Item{}, []plan.Owner{plan.OwnerOf(w, &plan.Item{State: plan.Silent})}, "deleted"},
		"OursApplied":           {plan.Item{}, []plan.Owner{applied}, "deleted"},
		"OursAppliedButOrphans": {plan.Item{Seen: true}, []plan.Owner{plan.OwnerOf(w, &plan.Item{State: plan.Applied, Options: orphaned})}, "createOnly orphan"},
		"OursLeavesToo":         {plan.Item{}, with(pending, left), "deleted"},
		"OursClaims":            {plan.Item{}, []plan.Owner{claimed}, "stays"},
		"OursClaimsFromThem":    {plan.Item{Seen: true}, append(claims, claimed), "createOnly orphan"},
		"OursListedAndThem":     {plan.Item{}, append(claims, plan.Owner{Binding: "b"}), "stays"},
		"ReleasedOursListedAndThem": {
			plan.Item{Options: plan.Options{CreateOnly: true, Orphan: true}, State: plan.Applied}, append(claims, plan.Owner{Binding: "b"}), "createOnly orphan",
		},
		"OursAppliedAndThem":   {plan.Item{Seen: true}, append(claims, applied), "createOnly orphan"},
		"OneOfOursIsLate":      {plan.Item{}, []plan.Owner{applied, {Binding: "b"}}, "stays"},
		"WeOnlyClaimAndOurs":   {plan.Item{Options: claim}, []plan.Owner{pending}, "deleted"},
		"WeClaimAndOursListed": {plan.Item{Options: claim}, append(claims, plan.Owner{Binding: "b"}), "observe"},

		"PackageListed":    {plan.Item{}, with(plan.Owner{Binding: "b"}, package1), "stays"},
		"PackageClaims":    {plan.Item{Seen: true}, with(claimed, package1), "createOnly orphan"},
		"PackageApplied":   {plan.Item{Seen: true}, with(applied, package1), "createOnly orphan"},
		"PackageLeavesToo": {plan.Item{}, with(with(applied, package1)[0], left), "deleted"},
	}
	for name, tc := range cases {
		for _, way := range []string{"Unlisted", "Removed"} {
			t.Run(name+way, func(t *testing.T) {
				tc.item.Ref = settings
				m := &mailbox{
					works: map[string]*plan.Work{"uid-1-0": {
						Mailbox: "cluster1", Name: "uid-1-0", UID: "b", Wave: 1, Items: []plan.Item{tc.item},
					}},
					owners: plan.Owners{settings: tc.owners},
				}
				var p plan.Plan
				if way == "Removed" {
					p = plan.Build(&plan.Desired{}, m.current())
				} else {
					p = plan.Build(plan.NewDesired(nil, packing.Limits{Count: 1, Bytes: 100}), m.current())
				}
				for i := range p.Actions {
					m.do(t, &p.Actions[i])
				}
				got := "deleted"
				if work := m.works["uid-1-0"]; work != nil {
					if got = words(work.Items[0].Options); work.Items[0].Options == tc.item.Options && got == "" {
						got = "stays"
					}
				}
				if got != tc.want {
					t.Errorf("got %q, want %q", got, tc.want)
				}
				if waits := len(p.Leaving) == 1 && p.Leaving[0].Ref == settings; waits != (tc.want != "deleted") {
					t.Errorf("leaving: %+v", p.Leaving)
				}
				if failed := len(p.Leaving) == 1 && p.Leaving[0].Failed != nil; failed != (tc.item.State == plan.Failed && tc.want != "deleted") {
					t.Errorf("leaving: %+v", p.Leaving)
				}
			})
		}
	}
}

// side is one WDS at one mailbox.
type side struct {
	mailbox
	wds  plan.WDS
	want map[objref.Ref]string
}

// sides are several WDSes at one mailbox, and its cluster.
type sides struct {
	t       *testing.T
	all     []*side
	clock   int64
	cluster *agentmodel.Cluster
	limits  packing.Limits
	// left are the objects that were taken out of a work while others had them, with those who have
	// had them since.
	left map[objref.Ref]map[types.UID]map[types.UID]bool
}

func (s *sides) owners(of *side) plan.Owners {
	owners := plan.Owners{}
	for _, other := range s.all {
		for _, name := range slices.Sorted(maps.Keys(other.works)) {
			work := other.works[name]
			if other == of || work.Deleting {
				continue
			}
			foreign := *work
			foreign.Foreign = other.wds
			owners.Add(&plan.Peer{WDS: other.wds, Binding: work.Binding, Works: []*plan.Work{&foreign}}, func(objref.Ref) bool { return true })
		}
	}
	return owners
}

// plan makes one side look once; it returns what it did.
func (s *sides) plan(i int) plan.Plan {
	w := s.all[i]
	w.owners = s.owners(w)
	var objects []plan.Object
	for ref, content := range w.want {
		objects = append(objects, object(ref, content))
	}
	p := plan.Build(plan.NewDesired(objects, s.limits), w.current())
	for i := range p.Actions {
		a := &p.Actions[i]
		before := w.works[a.Name]
		w.do(s.t, a)
		after := w.works[a.Name]
		s.clock++
		if a.Verb == plan.Create {
			after.Created, after.UID = s.clock/3, types.UID(fmt.Sprint(w.wds.UID, "-", after.UID)) // some are of the same second
			continue
		}
		for _, item := range before.Items {
			stays := after != nil && slices.ContainsFunc(after.Items, func(o plan.Item) bool { return o.Ref == item.Ref && !o.Withdrawn })
			if stays || item.Withdrawn {
				continue // what was withdrawn has left
			}
			if s.left[item.Ref] == nil {
				s.left[item.Ref] = map[types.UID]map[types.UID]bool{}
			}
			s.left[item.Ref][before.UID] = map[types.UID]bool{}
			for _, owner := range w.owners[item.Ref] {
				s.left[item.Ref][before.UID][owner.WDS.UID] = true
			}
			if !placed(&w.mailbox)[item.Ref] {
				for _, holders := range s.left[item.Ref] {
					delete(holders, w.wds.UID)
				}
			}
		}
	}
	return p
}

// agent makes the agent look at some of the works.
func (s *sides) agent(which func() bool) {
	exists := map[types.UID]bool{}
	for _, w := range s.all {
		for _, name := range slices.Sorted(maps.Keys(w.works)) {
			work := w.works[name]
			if exists[work.UID] = true; which() {
				look(s.cluster, &w.mailbox, work, agentmodel.Accounted, func(objref.Ref) agentmodel.Obstacle { return agentmodel.None })
			}
		}
	}
	s.cluster.Collect(func(uid types.UID) bool { return exists[uid] || !which() })
}

func newSides(t *testing.T, limits packing.Limits, names ...string) *sides {
	s := &sides{t: t, limits: limits, left: map[objref.Ref]map[types.UID]map[types.UID]bool{}, cluster: agentmodel.New()}
	s.cluster.Deleted = func(ref objref.Ref, uid types.UID) {
		if len(s.left[ref][uid]) > 0 {
			t.Errorf("%s was deleted by %s, though %v had it all the time since it left", ref, uid, s.left[ref][uid])
		}
	}
	for _, name := range names {
		s.all = append(s.all, &side{
			mailbox: mailbox{works: map[string]*plan.Work{}}, wds: plan.WDS{UID: types.UID(name), Name: name}, want: map[objref.Ref]string{},
		})
	}
	return s
}

// settle lets all look and answer until nothing happens any more.
func (s *sides) settle() {
	for range 30 {
		s.agent(func() bool { return true })
		n := 0
		for i := range s.all {
			n += len(s.plan(i).Actions)
		}
		if n == 0 {
			for range 2 { // what was written last is applied last
				s.agent(func() bool { return true })
			}
			return
		}
	}
	s.t.Error("does not come to rest")
}

// check checks that of the contents that are wanted of each object one is delivered and in the
// cluster, that all others are claims, and that both sides know.
func (s *sides) check(when string) {
	s.t.Helper()
	refs := map[objref.Ref]bool{}
	for ref := range s.cluster.Objects {
		refs[ref] = true
	}
	for _, w := range s.all {
		for ref := range w.want {
			refs[ref] = true
		}
	}
	for ref := range refs {
		contents, delivered := map[string]bool{}, map[transform.Hash]bool{}
		for i, w := range s.all {
			content, wanted := w.want[ref]
			told := slices.ContainsFunc(s.plan(i).Conflicts, func(c plan.Conflict) bool { return c.Ref == ref })
			differ := slices.ContainsFunc(s.all, func(o *side) bool { other, ok := o.want[ref]; return ok && other != content })
			if wanted {
				contents[content] = true
				if told != differ {
					s.t.Errorf("%s: %s: %s reports a conflict: %v, want %v", when, ref, w.wds.Name, told, differ)
				}
			}
			for _, work := range w.works {
				for _, item := range work.Items {
					switch {
					case item.Ref != ref:
					case !wanted || item.Hash != transform.HashOf([]byte(content)) || item.Options != plan.Options{} && item.Options != plan.Options{Observe: true}:
						s.t.Errorf("%s: %s: %s holds %+v, wants %q", when, ref, w.wds.Name, item, content)
					case !item.Observe:
						delivered[item.Hash] = true
					}
				}
			}
		}
		o := s.cluster.Objects[ref]
		switch {
		case len(contents) == 0 && o != nil && len(o.Owners) > 0:
			s.t.Errorf("%s: %s exists, and no WDS wants it", when, ref)
		case len(contents) > 0 && (len(delivered) != 1 || o == nil || !delivered[o.Hash]):
			s.t.Errorf("%s: %s: %d contents are wanted, %d delivered; in the cluster is %+v", when, ref, len(contents), len(delivered), o)
		}
	}
}

// TestSidesAgree lets three WDSes want, edit and leave the same few objects at random, with an
// agent that looks at works in any order and late. After each quiet there is one delivery of each
// object, everybody else claims it, and everybody knows; and no object is deleted for having left
// one of them while another one had a stake in it.
func TestSidesAgree(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 11))
		s := newSides(t, packing.Limits{Count: 1 + random.IntN(3), Bytes: 60}, "a", "b", "c")
		for step := range 12 {
			for range 1 + random.IntN(4) {
				w := s.all[random.IntN(len(s.all))]
				ref := objref.Ref{Resource: "configmaps", Namespace: "web", Name: fmt.Sprint(random.IntN(3))}
				if random.IntN(3) == 0 {
					delete(w.want, ref)
				} else {
					w.want[ref] = strings.Repeat(fmt.Sprint(random.IntN(2)), 1+random.IntN(2)*40)
				}
				for range random.IntN(5) {
					if random.IntN(2) == 0 {
						s.agent(func() bool { return random.IntN(2) == 0 })
					} else {
						s.plan(random.IntN(len(s.all)))
					}
				}
			}
			if random.IntN(2) == 0 {
				s.settle()
				s.check(fmt.Sprintf("seed %d step %d", seed, step))
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestHandOverKeepsTheObject follows one object from one WDS to another, and counts the writes of
// each.
func TestHandOverKeepsTheObject(t *testing.T) {
	s := newSides(t, packing.Limits{Count: 10, Bytes: 1000}, "a", "b")
	a, b := s.all[0], s.all[1]
	a.want[settings] = "1"
	s.settle()
	first := s.cluster.Objects[settings].UID
	b.want[settings] = "2"
	s.settle()
	s.check("both want it")
	if got := s.cluster.Objects[settings]; got.Hash != transform.HashOf([]byte("1")) || got.UID != first {
		t.Errorf("in the cluster is %+v, want what was there", got)
	}
	delete(a.want, settings)
	writes := map[string][]string{}
	for range 5 {
		for i, w := range s.all {
			for _, action := range s.plan(i).Actions {
				writes[w.wds.Name] = append(writes[w.wds.Name], action.String())
			}
		}
		s.agent(func() bool { return true })
	}
	want := map[string][]string{
		"a": {"patch cluster1/uid-1-0 (edit): rest", "delete cluster1/uid-1-0 (remove)"},
		"b": {"patch cluster1/uid-1-0 (edit): rest, claims"},
	}
	if diff := cmp.Diff(want, writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	s.check("one has left")
	if got := s.cluster.Objects[settings]; got == nil || got.UID != first || got.Hash != transform.HashOf([]byte("2")) || len(got.Owners) != 1 {
		t.Errorf("in the cluster is %+v, want the same object with the other's content", got)
	}
	delete(b.want, settings)
	s.settle()
	s.check("both have left")
}

// TestOwnsWhileOthersLeave: an object that is to be orphaned, or claimed, is owned until another
// Binding has left it, which may do so because this one owns it.
func TestOwnsWhileOthersLeave(t *testing.T) {
	orphaned := object(settings, "1")
	orphaned.Orphan = true
	edited := object(settings, "2")
	edited.Orphan = true
	w := &plan.Work{Name: "w", UID: "m", Created: 20}
	theirs := plan.OwnerOf(w, &plan.Item{State: plan.Applied})
	leaving, writing := theirs, theirs
	leaving.Leaving, writing.Writing = true, true
	foreign := plan.OwnerOf(&plan.Work{Name: "f", UID: "f", Created: 1, Foreign: plan.WDS{UID: "wds2"}}, &plan.Item{Hash: transform.Hash{1}})
	cases := map[string]struct {
		desired []plan.Object
		owners  []plan.Owner
		want    string
	}{
		"NobodyLeaves":         {[]plan.Object{orphaned}, []plan.Owner{theirs}, "orphan"},
		"OneLeaves":            {[]plan.Object{orphaned}, []plan.Owner{leaving}, ""},
		"OneMayLeave":          {[]plan.Object{orphaned}, []plan.Owner{writing}, ""},
		"OneLeavesAndAnEdit":   {[]plan.Object{edited}, []plan.Owner{leaving}, ""},
		"ContestLost":          {[]plan.Object{object(settings, "1")}, []plan.Owner{foreign}, "createOnly orphan"},
		"ContestLostOneLeaves": {[]plan.Object{object(settings, "1")}, []plan.Owner{foreign, leaving}, ""},
		"ToThem":               {nil, []plan.Owner{foreign}, "createOnly orphan"},
		"ToThemOneMayLeave":    {nil, []plan.Owner{foreign, withLeaving(writing)}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := &mailbox{works: map[string]*plan.Work{}}
			limits := packing.Limits{Count: 9, Bytes: 100}
			run(t, m, plan.NewDesired([]plan.Object{object(settings, "1")}, limits), name)
			m.report(every, plan.Applied)
			m.works["uid-1-0"].Created = 30
			m.owners = plan.Owners{settings: tc.owners}
			p := plan.Build(plan.NewDesired(tc.desired, limits), m.current())
			for i := range p.Actions {
				m.do(t, &p.Actions[i])
			}
			item := &m.works["uid-1-0"].Items[0]
			if got := words(item.Options); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if want := tc.want == "" && tc.desired != nil; p.Postponed != want {
				t.Errorf("postponed: %v, want %v", p.Postponed, want)
			}
			if again := plan.Build(plan.NewDesired(tc.desired, limits), m.current()); len(again.Actions) > 0 {
				t.Errorf("planned again: %s", trace(again.Actions))
			}
		})
	}
}

func withLeaving(o plan.Owner) plan.Owner {
	o.Leaving = true
	return o
}

// TestOwnsAgain: the reports of an object from before it was owned again prove nothing.
func TestOwnsAgain(t *testing.T) {
	m := &mailbox{works: map[string]*plan.Work{}}
	limits := packing.Limits{Count: 9, Bytes: 100}
	orphaned := object(settings, "1")
	orphaned.Orphan = true
	run(t, m, plan.NewDesired([]plan.Object{orphaned}, limits), "orphaned")
	m.report(every, plan.Applied)
	for _, content := range []string{"1", "2"} {
		run(t, m, plan.NewDesired([]plan.Object{object(settings, content)}, limits), "owned again")
		if m.works["uid-1-0"].Items[0].Reported {
			t.Errorf("with content %s: it is reported before the cluster has answered", content)
		}
		run(t, m, plan.NewDesired([]plan.Object{orphaned}, limits), "orphaned again")
		m.report(every, plan.Applied)
	}
}

// TestMoveToOrphan: an object that moves to another work, which orphans it, is released by the
// first one before it leaves that.
func TestMoveToOrphan(t *testing.T) {
	m := &mailbox{works: map[string]*plan.Work{}}
	limits := packing.Limits{Count: 10, Bytes: 100}
	long := strings.Repeat("x", 60)
	run(t, m, plan.NewDesired([]plan.Object{object(settings, "1"), object(nginx, "1")}, limits), "place")
	m.report(every, plan.Applied)
	grown, orphaned := object(settings, long), object(nginx, long)
	grown.Orphan, orphaned.Orphan = true, true
	desired := plan.NewDesired([]plan.Object{grown, orphaned}, limits)
	for i := range 6 {
		before := m.works["uid-1-0"]
		p := plan.Build(desired, m.current())
		for i := range p.Actions {
			m.do(t, &p.Actions[i])
		}
		for _, item := range before.Items {
			gone := !slices.ContainsFunc(m.works["uid-1-0"].Items, func(o plan.Item) bool { return o.Ref == item.Ref })
			if gone && (!item.Orphan || item.State != plan.Applied) {
				t.Errorf("%s left its work with %+v", item.Ref, item)
			}
		}
		m.report(func(w *plan.Work) bool { return i > 3 || w.Name != "uid-1-0" }, plan.Applied) // the first work is late
	}
	if len(m.works) != 2 {
		t.Errorf("%d works, want 2", len(m.works))
	}
}
