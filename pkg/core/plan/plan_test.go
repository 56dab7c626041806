package plan_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/test/golden"
)

// mailbox is a mailbox that carries out Actions as a plugin must.
type mailbox struct {
	works  map[string]*plan.Work
	uids   int
	listed map[types.UID]map[objref.Ref]report // what the destination listed last of each work
	proven map[types.UID]int64                 // the generation from which on that proves something
	hold   plan.Hold
	owners plan.Owners
	// orphans is Current.Orphans.
	orphans func(objref.Ref) (orphan, known bool)
	// siblings are works of other Bindings.
	siblings []*plan.Work
	// prefix distinguishes the names of works from those of another Binding.
	prefix string
	// dependents are what others have of the kinds of CustomResourceDefinitions.
	dependents plan.Dependents
	// repacks: works lose objects to others, a few at a time.
	repacks bool
	// sources are the UIDs that contents name.
	sources map[transform.Hash]types.UID
	// withdrawn are the contents of objects that were withdrawn and name their sources.
	withdrawn map[transform.Hash]bool
}

func (m *mailbox) list() []*plan.Work {
	works := make([]*plan.Work, 0, len(m.works))
	for _, work := range m.works { // random order: it must not matter
		works = append(works, work)
	}
	return works
}

// current is the mailbox as it is planned on.
func (m *mailbox) current() *plan.Current {
	return &plan.Current{
		Mailbox: "cluster1", Prefix: "uid" + m.prefix, Works: m.list(), Hold: m.hold, Owners: m.owners, Siblings: m.siblings, Dependents: m.dependents,
		Orphans: m.orphans,
	}
}

func hashOf(items []plan.Item) transform.Hash {
	var b strings.Builder
	for _, item := range items {
		fmt.Fprint(&b, item.Ref, item.Hash, item.Options)
	}
	return transform.HashOf([]byte(b.String()))
}

func items(entries []plan.Entry) []plan.Item {
	items := make([]plan.Item, len(entries))
	for i, e := range entries {
		items[i] = plan.Item{
			Ref: e.Ref, Kind: e.Kind, Version: "v1", Hash: e.Hash, Size: e.Size, Options: e.Options, Withdrawn: e.Hash == withdrawn(e.Ref, e.Kind),
		}
	}
	return items
}

// sourced fills in which objects the items are of.
func (m *mailbox) sourced(items []plan.Item) []plan.Item {
	for i := range items {
		items[i].Source = m.sources[items[i].Hash]
		items[i].Withdrawn = items[i].Withdrawn || m.withdrawn[items[i].Hash]
	}
	return items
}

func withdrawn(ref objref.Ref, kind string) transform.Hash {
	object, err := transform.Withdrawn(ref, schema.GroupVersionKind{Group: ref.Group, Version: "v1", Kind: kind}, "")
	if err != nil {
		return transform.Hash{0xff} // an item without a kind is none that was withdrawn
	}
	return object.Hash
}

func (m *mailbox) do(t *testing.T, a *plan.Action) {
	t.Helper()
	work := m.works[a.Name]
	if a.Verb == plan.Create {
		if work != nil {
			t.Fatalf("%s: the work exists", a)
		}
		m.uids++
		after := m.sourced(items(a.After))
		m.works[a.Name] = &plan.Work{
			Mailbox: a.Mailbox, Name: a.Name, UID: types.UID(fmt.Sprint(m.uids)), Generation: 1, Wave: a.Wave, ResourceVersion: "new",
			Items: after, Recorded: hashOf(after), Actual: hashOf(after),
		}
		for i, e := range a.After {
			if e.Object == nil || !e.Object.Known || e.Object.Hash != e.Hash {
				t.Fatalf("%s: entry %d has no content", a, i)
			}
		}
		return
	}
	if guarded := a.Verb == plan.Patch; work == nil || work.UID != a.UID || a.ResourceVersion != "" && work.ResourceVersion != a.ResourceVersion ||
		guarded && (work.Generation != a.Generation || work.Recorded != a.Recorded) {
		t.Fatalf("%s: the guards do not hold for %+v", a, work)
	}
	next := *work
	switch a.Verb {
	case plan.Delete:
		delete(m.works, a.Name)
		return
	case plan.Nudge:
		next.Nudges = a.Nudges
	case plan.Patch:
		manifests := slices.Clone(work.Items)
		for _, c := range a.Changes {
			if c.Op != plan.OpRemove && !c.Object.Known {
				t.Fatalf("%s: writes %s, whose content is not known", a, c.Ref)
			}
			switch c.Op {
			case plan.OpReplace, plan.OpRemove:
				if manifests[c.At].Ref != c.Ref {
					t.Fatalf("%s: position %d holds %s", a, c.At, manifests[c.At].Ref)
				}
				if c.Op == plan.OpRemove {
					manifests = slices.Delete(manifests, c.At, c.At+1)
				} else {
					manifests[c.At].Hash = c.Object.Hash
				}
			case plan.OpInsert:
				manifests = slices.Insert(manifests, c.At, plan.Item{Ref: c.Ref, Hash: c.Object.Hash})
			}
		}
		next.Generation++
		next.Items = m.sourced(items(a.After))
		if a.Unproven {
			if m.proven == nil {
				m.proven = map[types.UID]int64{}
			}
			m.proven[work.UID] = next.Generation
		}
		if slices.ContainsFunc(a.Changes, func(c plan.Change) bool { return c.Op == plan.OpRemove }) {
			next.Left = a.Left
		}
		m.account(&next)
		if !slices.EqualFunc(manifests, next.Items, func(x, y plan.Item) bool { return x.Ref == y.Ref && x.Hash == y.Hash }) {
			t.Fatalf("%s: the changes do not lead to After:\n%s", a, cmp.Diff(next.Items, manifests))
		}
		if len(next.Items) == 0 {
			t.Fatalf("%s: leaves an empty work", a)
		}
		if !a.Rest && !sameFlags(work.Items, next.Items) {
			t.Fatalf("%s: flags change, and the rest is not written", a)
		}
		next.Recorded, next.Actual = hashOf(next.Items), hashOf(next.Items)
	case plan.Create:
	}
	m.works[a.Name] = &next
}

// report is what a destination reported about an object.
type report struct {
	generation int64
	applied    bool
	unread     bool // some object of the work
}

// note notes what the destination lists of a work.
func (m *mailbox) note(work *plan.Work) {
	if m.listed == nil {
		m.listed = map[types.UID]map[objref.Ref]report{}
	}
	m.listed[work.UID] = map[objref.Ref]report{}
	unread := work.Unread() != nil || slices.ContainsFunc(work.Items, func(i plan.Item) bool { return i.Unreadable })
	for i := range work.Items {
		m.listed[work.UID][work.Items[i].Ref] = report{work.Generation, work.Items[i].State == plan.Applied, unread}
	}
	m.account(work)
}

// account fills in what follows from what the destination lists of a work.
func (m *mailbox) account(work *plan.Work) {
	listed := maps.Clone(m.listed[work.UID])
	for i := range work.Items {
		item := &work.Items[i]
		r, ok := listed[item.Ref]
		item.Seen = ok
		item.Reported = ok && r.generation >= m.proven[work.UID] && (r.applied || item.Withdrawn) && !r.unread
		delete(listed, item.Ref)
	}
	work.Listed, work.Behind = slices.Collect(maps.Keys(listed)), false
	for _, r := range m.listed[work.UID] {
		work.Behind = work.Behind || r.unread
	}
	left := maps.Clone(work.Left)
	maps.DeleteFunc(left, func(key string, _ types.UID) bool {
		return !work.Behind && !slices.ContainsFunc(work.Listed, func(ref objref.Ref) bool { return plan.LeftKey(ref) == key })
	})
	work.Left = left
}

func sameFlags(a, b []plan.Item) bool {
	flagged := func(items []plan.Item) map[objref.Ref]plan.Options {
		flags := map[objref.Ref]plan.Options{}
		for _, item := range items {
			if item.Options != (plan.Options{}) {
				flags[item.Ref] = item.Options
			}
		}
		return flags
	}
	return cmp.Equal(flagged(a), flagged(b))
}

// report makes the destination answer for some works.
func (m *mailbox) report(of func(*plan.Work) bool, state plan.State) {
	for _, name := range slices.Sorted(maps.Keys(m.works)) {
		work := m.works[name]
		if !of(work) {
			continue
		}
		next := *work
		next.Items = slices.Clone(work.Items)
		for i := range next.Items {
			next.Items[i].State = state
		}
		if state != plan.Pending {
			m.note(&next)
		}
		m.works[name] = &next
	}
}

func object(ref objref.Ref, content string) plan.Object {
	return plan.Object{
		Object: transform.Object{
			Ref: ref, Kind: schema.GroupVersionKind{Version: "v1", Kind: "Kind-of-" + ref.Resource},
			JSON: []byte(content), Hash: transform.HashOf([]byte(content)),
		},
		Known: true,
	}
}

var (
	namespace = objref.Ref{Resource: "namespaces", Name: "web"}
	nginx     = objref.Ref{Group: "apps", Resource: "deployments", Namespace: "web", Name: "nginx"}
	settings  = objref.Ref{Resource: "configmaps", Namespace: "web", Name: "settings"}
	secret    = objref.Ref{Resource: "secrets", Namespace: "web", Name: "key"}
	role      = objref.Ref{Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "reader"}
	crd       = objref.Ref{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: "widgets.example.com"}
	widget    = objref.Ref{Group: "example.com", Resource: "widgets", Name: "w"}
)

func every(*plan.Work) bool { return true }

// TestTrace writes the lives of placements as their actions, step by step, for people to read.
func TestTrace(t *testing.T) {
	type step struct {
		what    string
		objects []plan.Object
		event   func(*mailbox)
	}
	roomy := packing.Limits{Count: 100, Bytes: 1000}
	long := strings.Repeat("x", 60)
	unknown := plan.Object{Object: transform.Object{Ref: settings}}
	createOnly := func(o plan.Object) plan.Object { o.CreateOnly = true; return o }
	orphan := func(o plan.Object) plan.Object { o.Orphan = true; return o }

	cases := map[string]struct {
		limits packing.Limits
		steps  []step
	}{
		"life": {roomy, []step{
			{"place a namespace, and what is in it", []plan.Object{object(nginx, "1"), object(namespace, "1"), object(settings, "1"), object(role, "1")}, nil},
			{"nothing happened", []plan.Object{object(nginx, "1"), object(namespace, "1"), object(settings, "1"), object(role, "1")}, nil},
			{"the namespace is there", []plan.Object{object(nginx, "1"), object(namespace, "1"), object(settings, "1"), object(role, "1")}, func(m *mailbox) { m.report(every, plan.Applied) }},
			{"edit one object", []plan.Object{object(nginx, "2"), object(namespace, "1"), object(settings, "1"), object(role, "1")}, nil},
			{"one object goes, one changes", []plan.Object{object(nginx, "2"), object(namespace, "1"), object(role, "2")}, nil},
			{"an object cannot be read", []plan.Object{object(nginx, "2"), object(namespace, "1"), {Object: transform.Object{Ref: role}}}, nil},
			{"it becomes createOnly", []plan.Object{createOnly(object(nginx, "2")), object(namespace, "1"), object(role, "2")}, nil},
			{"only the namespace stays", []plan.Object{object(namespace, "1")}, nil},
			{"all goes", nil, nil},
		}},
		"crd": {roomy, []step{
			{"a kind and its instance", []plan.Object{object(widget, "1"), object(crd, "1")}, nil},
			{"the kind fails", []plan.Object{object(widget, "1"), object(crd, "1")}, func(m *mailbox) { m.report(every, plan.Failed) }},
			{"the kind is there", []plan.Object{object(widget, "1"), object(crd, "1")}, func(m *mailbox) { m.report(every, plan.Applied) }},
		}},
		"orphan": {roomy, []step{
			{"a namespace that must never go", []plan.Object{orphan(object(objref.Ref{Resource: "namespaces", Name: "default"}, "1"))}, nil},
		}},
		"move": {packing.Limits{Count: 10, Bytes: 100}, []step{
			{"two objects in one work", []plan.Object{object(settings, "1"), object(nginx, "1")}, nil},
			{"one grows out of it", []plan.Object{object(settings, long), object(nginx, long)}, nil},
			{"nothing was reported yet", []plan.Object{object(settings, long), object(nginx, long)}, nil},
			{"the new work is applied", []plan.Object{object(settings, long), object(nginx, long)}, func(m *mailbox) { m.report(every, plan.Applied) }},
			{"it grows beyond any work", []plan.Object{object(settings, long+long), object(nginx, long)}, nil},
			{"another one is too large from the start", []plan.Object{object(settings, long), object(nginx, long), object(role, long+long)}, nil},
		}},
		"hold": {roomy, []step{
			{"place", []plan.Object{object(settings, "1"), object(role, "1")}, nil},
			{"hold one, edit both, and a third comes", []plan.Object{object(settings, "2"), object(role, "2"), object(nginx, "1")}, func(m *mailbox) {
				m.hold = holdOf(settings)
			}},
			{"somebody edits what is held", []plan.Object{object(settings, "2"), object(role, "2"), object(nginx, "1")}, func(m *mailbox) {
				work := m.works["uid-1-0"]
				work.Items[slices.IndexFunc(work.Items, func(item plan.Item) bool { return item.Ref == settings })].Hash = transform.Hash{3}
				work.Actual = hashOf(work.Items)
				work.Generation++
			}},
			{"somebody edits something else of the spec", []plan.Object{object(settings, "2"), object(role, "2"), object(nginx, "1")}, func(m *mailbox) {
				m.works["uid-1-0"].Actual = transform.Hash{1}
				m.works["uid-1-0"].Generation++
			}},
			{"hold what is not there, and its namespace", []plan.Object{
				object(settings, "2"), object(role, "2"), object(nginx, "1"), object(namespace, "1"), object(secret, "1"),
			}, func(m *mailbox) { m.hold = holdOf(settings, namespace) }},
			{"all goes but what is held", nil, nil},
			{"release", nil, func(m *mailbox) { m.hold = plan.Hold{} }},
		}},
		"repair": {roomy, []step{
			{"place", []plan.Object{object(settings, "1"), object(role, "1")}, nil},
			{"somebody edits, removes and adds", []plan.Object{object(settings, "1"), object(role, "1")}, func(m *mailbox) {
				work := m.works["uid-1-0"]
				work.Items = []plan.Item{{Ref: settings, Hash: transform.HashOf([]byte("other"))}, {Ref: nginx}}
				work.Actual = hashOf(work.Items)
				work.Generation++
			}},
			{"somebody edits something else of the spec", []plan.Object{object(settings, "1"), object(role, "1")}, func(m *mailbox) {
				m.works["uid-1-0"].Actual = transform.Hash{1}
			}},
			{"somebody edits what cannot be read now", []plan.Object{unknown, object(role, "1")}, func(m *mailbox) {
				work := m.works["uid-1-0"]
				work.Items[1].Hash = transform.Hash{2}
				work.Actual = hashOf(work.Items)
			}},
			{"somebody deletes the work", []plan.Object{object(settings, "1"), object(role, "1")}, func(m *mailbox) {
				m.works["uid-1-0"].Deleting = true
			}},
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := &mailbox{works: map[string]*plan.Work{}}
			var trace strings.Builder
			for _, s := range tc.steps {
				if s.event != nil {
					s.event(m)
				}
				p := plan.Build(plan.NewDesired(s.objects, tc.limits), m.current())
				fmt.Fprintf(&trace, "# %s\n", s.what)
				for i := range p.Actions {
					fmt.Fprintln(&trace, p.Actions[i].String())
					m.do(t, &p.Actions[i])
				}
				for _, w := range p.Waiting {
					fmt.Fprintf(&trace, "waiting: %s for %s\n", w.Ref, w.For)
				}
				for _, ref := range p.TooLarge {
					fmt.Fprintf(&trace, "too large: %s\n", ref)
				}
			}
			golden.Compare(t, "TestTrace/"+name, trace.String())
		})
	}
}

// someLimits returns limits, in half of the cases with a target below them.
func someLimits(random *rand.Rand) packing.Limits {
	limits := packing.Limits{Count: 1 + random.IntN(6), Bytes: 300 + random.IntN(600)}
	if random.IntN(2) == 0 {
		limits.Target = packing.Target{Count: 1 + random.IntN(limits.Count), Bytes: 100 + random.IntN(limits.Bytes)}
		limits.Repack = random.IntN(2) == 0
	}
	return limits
}

// TestRandomHistories runs objects through random lives: they come, go, change, cannot be read;
// clusters answer or not, and works are edited and deleted behind our back. After each plan a
// second one must be empty; no object that is placed may leave the mailbox; and once all clusters
// have answered, the mailbox holds what is desired, each object once.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(150) {
		random := rand.New(rand.NewPCG(seed, 2))
		limits := someLimits(random)
		m := &mailbox{works: map[string]*plan.Work{}}
		want := map[objref.Ref]string{}
		flags := map[objref.Ref]bool{}
		for step := range 40 {
			for range random.IntN(4) {
				ref := randomRef(random)
				switch random.IntN(4) {
				case 0:
					delete(want, ref)
				case 1:
					flags[ref] = !flags[ref]
				default:
					want[ref] = strings.Repeat(fmt.Sprint(random.IntN(10)), 140+random.IntN(limits.Bytes-130))
				}
			}
			if random.IntN(6) == 0 {
				vandalize(random, m)
			}
			if random.IntN(2) == 0 {
				m.report(func(*plan.Work) bool { return random.IntN(2) == 0 }, plan.State(random.IntN(3)))
			}
			unread := map[objref.Ref]bool{}
			if random.IntN(3) == 0 {
				unread[randomRef(random)] = true
			}
			limits.Repack = limits.Repack != (random.IntN(8) == 0)
			m.repacks = limits.Repack
			before := placed(m)
			run(t, m, desired(want, flags, unread, limits), fmt.Sprintf("seed %d step %d", seed, step))
			for ref := range before {
				if _, wanted := want[ref]; wanted && !placed(m)[ref] {
					t.Fatalf("seed %d step %d: %s was lost", seed, step, ref)
				}
			}
		}
		settle(t, m, desired(want, flags, nil, limits), want, limits, seed)
	}
}

func run(t *testing.T, m *mailbox, d *plan.Desired, when string) int {
	t.Helper()
	first := plan.Build(d, m.current())
	for i := range first.Actions {
		m.do(t, &first.Actions[i])
	}
	second := plan.Build(d, m.current())
	for range 20 {
		if len(second.Actions) == 0 || !m.repacks { // others are repacked after the last ones have arrived
			break
		}
		for i := range second.Actions {
			m.do(t, &second.Actions[i])
		}
		second = plan.Build(d, m.current())
	}
	for i := range second.Actions {
		t.Fatalf("%s: planned\n%s\nand then again: %s", when, trace(first.Actions), &second.Actions[i])
	}
	return len(first.Actions)
}

func trace(actions []plan.Action) string {
	lines := make([]string, len(actions))
	for i := range actions {
		lines[i] = actions[i].String()
	}
	return strings.Join(lines, "\n")
}

func settle(t *testing.T, m *mailbox, d *plan.Desired, want map[objref.Ref]string, limits packing.Limits, seed uint64) {
	t.Helper()
	for range 20 {
		m.report(every, plan.Applied)
		if run(t, m, d, fmt.Sprintf("seed %d at the end", seed)) == 0 {
			break
		}
	}
	got := map[objref.Ref]transform.Hash{}
	for _, work := range m.works {
		if work.Deleting {
			continue
		}
		bytes := 0
		for _, item := range work.Items {
			// Of one that is too large for any work now, nobody can say which of two old contents
			// is the newer: it leaves neither.
			if _, twice := got[item.Ref]; twice && len(want[item.Ref])+packing.Overhead <= limits.Bytes {
				t.Errorf("seed %d: %s is in two works in the end", seed, item.Ref)
			}
			got[item.Ref] = item.Hash
			bytes += item.Size
			if packing.WaveOf(item.Ref.GroupResource()) != work.Wave {
				t.Errorf("seed %d: %s is in a work of wave %d", seed, item.Ref, work.Wave)
			}
		}
		if len(work.Items) > limits.Count || bytes > limits.Bytes {
			t.Errorf("seed %d: work %s holds %d objects of %d bytes, limits are %+v", seed, work.Name, len(work.Items), bytes, limits)
		}
	}
	for ref, content := range want {
		home, inNamespace := want[objref.Ref{Resource: "namespaces", Name: ref.Namespace}]
		tooLarge := len(content)+packing.Overhead > limits.Bytes || inNamespace && len(home)+packing.Overhead > limits.Bytes
		if hash, ok := got[ref]; !tooLarge && (!ok || hash != transform.HashOf([]byte(content))) {
			t.Errorf("seed %d: %s is not as desired in the end (placed: %v)", seed, ref, ok)
		}
	}
	for ref := range got {
		if _, ok := want[ref]; !ok && !neededBy(want, ref) {
			t.Errorf("seed %d: %s is still there in the end", seed, ref)
		}
	}
}

// neededBy reports whether an object that is wanted would be deleted with this one.
func neededBy(want map[objref.Ref]string, ref objref.Ref) bool {
	for wanted := range want {
		if slices.Contains(plan.Prerequisites(wanted), ref) {
			return true
		}
	}
	return false
}

func randomRef(random *rand.Rand) objref.Ref {
	if random.IntN(6) == 0 {
		return objref.Ref{Resource: "namespaces", Name: fmt.Sprint(random.IntN(3))}
	}
	return objref.Ref{Resource: "configmaps", Namespace: fmt.Sprint(random.IntN(3)), Name: fmt.Sprint(random.IntN(8))}
}

func desired(want map[objref.Ref]string, flags, unread map[objref.Ref]bool, limits packing.Limits) *plan.Desired {
	var objects []plan.Object
	for ref, content := range want {
		o := object(ref, content)
		if unread[ref] {
			o = plan.Object{Object: transform.Object{Ref: ref}}
		}
		o.CreateOnly = flags[ref]
		objects = append(objects, o)
	}
	return plan.NewDesired(objects, limits)
}

func placed(m *mailbox) map[objref.Ref]bool {
	refs := map[objref.Ref]bool{}
	for _, work := range m.works {
		for _, item := range work.Items {
			if !work.Deleting {
				refs[item.Ref] = true
			}
		}
	}
	return refs
}

func vandalize(random *rand.Rand, m *mailbox) {
	if len(m.works) == 0 {
		return
	}
	work := m.works[slices.Sorted(maps.Keys(m.works))[random.IntN(len(m.works))]]
	switch random.IntN(4) {
	case 0:
		delete(m.works, work.Name)
	case 1:
		work.Deleting = true
	case 2:
		work.Generation++
		work.Items = append(work.Items, work.Items[0])
		work.Actual = hashOf(work.Items)
	default:
		work.Generation++
		work.Items[0].Hash = transform.Hash{9}
		work.Actual = hashOf(work.Items)
	}
}

func TestRemoveLeavesWhatIsOnItsWayOut(t *testing.T) {
	actions := plan.Build(&plan.Desired{}, &plan.Current{Mailbox: "cluster1", Works: []*plan.Work{
		{Mailbox: "cluster1", Name: "b", Deleting: true}, {Mailbox: "cluster1", Name: "a", UID: "1"},
	}}).Actions
	if len(actions) != 1 || actions[0].String() != "delete cluster1/a (remove)" || actions[0].UID != "1" {
		t.Errorf("Remove() = %v, want the deletion of a alone", actions)
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, n := range []int{1e2, 1e3, 1e4, 1e5} {
		objects := func(edited string) []plan.Object {
			objects := make([]plan.Object, n)
			for i := range objects {
				content := "content"
				if i == n/2 {
					content = edited
				}
				objects[i] = object(objref.Ref{Resource: "configmaps", Namespace: "web", Name: fmt.Sprint(i)}, content)
			}
			return objects
		}
		limits := packing.Limits{Count: 500, Bytes: 512000}
		m := &mailbox{works: map[string]*plan.Work{}}
		p := plan.Build(plan.NewDesired(objects(""), limits), m.current())
		for i := range p.Actions {
			m.do(&testing.T{}, &p.Actions[i])
		}
		now := m.current()
		edited := plan.NewDesired(objects("edited"), limits)
		b.Run(fmt.Sprintf("edit-%d", n), func(b *testing.B) {
			for b.Loop() {
				if p := plan.Build(edited, now); len(p.Actions) != 1 {
					b.Fatalf("%d actions, want 1", len(p.Actions))
				}
			}
		})
	}
}
