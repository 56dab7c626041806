package plan_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// stored is the object in a cluster, as an API server keeps it: the fields of its data, and who
// owns each. TestIgnoredFields in test/integration/workagent compares what follows with a real one.
type stored struct {
	uid    int
	fields map[string]string
	owners map[string]map[string]bool
}

// somebody is a field manager of the cluster.
const somebody = "somebody"

// change lets somebody write a field with an update.
func (l *stored) change(field, value string) {
	if l.fields[field] != value {
		l.owners[field] = map[string]bool{somebody: true}
	}
	l.fields[field] = value
}

// apply applies fields server-side. It returns the managers that own others of the same fields.
func (l *stored) apply(manager string, force bool, fields map[string]string) (conflicts []string) {
	for field, value := range fields {
		for owner := range l.owners[field] {
			if owner != manager && l.fields[field] != value {
				conflicts = append(conflicts, owner)
			}
		}
	}
	if len(conflicts) > 0 && !force {
		return conflicts
	}
	for field, owners := range l.owners {
		if _, applied := fields[field]; owners[manager] && !applied {
			delete(owners, manager)
			if len(owners) == 0 {
				delete(l.owners, field)
				delete(l.fields, field)
			}
		}
	}
	for field, value := range fields {
		if l.fields[field] != value || l.owners[field] == nil {
			l.owners[field] = map[string]bool{}
		}
		l.fields[field] = value
		l.owners[field][manager] = true
	}
	return nil
}

// scene is an object that is delivered to one cluster.
type scene struct {
	t       *testing.T
	name    string
	m       *mailbox
	texts   map[transform.Hash][]byte
	content map[string]string // what is desired
	ignored map[string]bool
	live    *stored
	uids    int
	// strict: the cluster creates no object without the field c.
	strict bool
	// lacked are the fields that were removed in the WDS before the cluster left them alone: they
	// may go.
	lacked map[string]bool
	trace  []string
}

var fieldsOf = []string{"a", "b", "c"}

func newScene(t *testing.T, name string) *scene {
	t.Helper()
	return &scene{
		t: t, name: name, m: &mailbox{works: map[string]*plan.Work{}}, texts: map[transform.Hash][]byte{},
		content: map[string]string{"a": "1", "b": "1", "c": "1"}, ignored: map[string]bool{}, lacked: map[string]bool{},
	}
}

func (s *scene) note(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf(format, args...))
}

func (s *scene) fail(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("%s: %s\n%s", s.name, fmt.Sprintf(format, args...), strings.Join(s.trace, "\n"))
}

func (s *scene) desired() *plan.Desired {
	data := map[string]any{}
	for field, value := range s.content {
		data[field] = value
	}
	o, err := transform.Pipeline{}.Apply(settings, map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": settings.Name, "namespace": settings.Namespace}, "data": data,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	paths := []string{}
	for _, field := range slices.Sorted(maps.Keys(s.ignored)) {
		paths = append(paths, ".data."+field)
	}
	object, err := plan.Object{Object: o, Known: true, Options: plan.Options{IgnoredFields: strings.Join(paths, "\n")}}.Ignoring()
	if err != nil {
		s.t.Fatal(err)
	}
	return plan.NewDesired([]plan.Object{object}, packing.Limits{Count: 9, Bytes: 9999})
}

// deliver plans and writes, and returns the number of writes.
func (s *scene) deliver() int {
	s.t.Helper()
	d := s.desired()
	settled := s.settledOn()
	for _, work := range s.m.works {
		if settled != "" && work.Items[0].State == plan.Applied {
			clear(s.lacked)
		}
	}
	actions := plan.Build(d, s.m.current()).Actions
	for i := range actions {
		a := &actions[i]
		s.note("%s", a)
		for _, e := range a.After {
			if e.Object != nil {
				s.texts[e.Hash] = e.Object.JSON
			}
		}
		for _, c := range a.Changes {
			s.texts[c.Object.Hash] = c.Object.JSON
		}
		s.m.do(s.t, a)
	}
	if again := plan.Build(d, s.m.current()).Actions; len(again) > 0 {
		s.fail("planned again: %s", &again[0])
	}
	for _, field := range fieldsOf {
		if _, has := s.content[field]; !has && (settled == "" || settled != s.settledOn()) {
			s.lacked[field] = true
		}
	}
	return len(actions)
}

// settledOn returns the fields that the work leaves out, "" if it does not do so yet.
func (s *scene) settledOn() string {
	for _, work := range s.m.works {
		if o := &work.Items[0].Options; o.Stage.Begun && !o.Unsettled() {
			return o.IgnoredFields
		}
	}
	return ""
}

// look lets the agent apply the work and, unless it is cut off, report.
func (s *scene) look(reports bool) {
	s.t.Helper()
	for name, work := range s.m.works {
		next := *work
		next.Items = slices.Clone(work.Items)
		item := &next.Items[0]
		state, message := s.apply(item)
		s.note("  applied %v by %s (force %t): %v %s -> %+v", string(s.texts[item.Hash]), item.Manager(), !item.Careful(), state, message, s.live)
		if !reports {
			continue
		}
		item.State, item.Message = state, message
		item.Missing = s.live == nil
		if item.UID = ""; s.live != nil && item.Stage.Begun {
			item.UID = fmt.Sprint(s.live.uid)
		}
		s.m.note(&next)
		s.m.works[name] = &next
	}
}

// apply applies an item as OCM's agent does, and checks that no ignored field changes.
func (s *scene) apply(item *plan.Item) (plan.State, string) {
	var manifest struct {
		Data map[string]string `json:"data"`
	}
	if err := json.Unmarshal(s.texts[item.Hash], &manifest); err != nil {
		s.t.Fatal(err)
	}
	if s.live == nil {
		if _, complete := manifest.Data["c"]; s.strict && !complete {
			return plan.Failed, "Required value"
		}
		s.uids++
		s.live = &stored{uid: s.uids, fields: map[string]string{}, owners: map[string]map[string]bool{}}
		s.live.apply(item.Manager(), true, manifest.Data)
		return plan.Applied, ""
	}
	before, owners := maps.Clone(s.live.fields), map[string]map[string]bool{}
	for field := range s.live.owners {
		owners[field] = maps.Clone(s.live.owners[field])
	}
	conflicts := s.live.apply(item.Manager(), !item.Careful(), manifest.Data)
	for _, field := range fieldsOf {
		value, had := before[field]
		now, has := s.live.fields[field]
		if !had || !slices.Contains(strings.Split(item.IgnoredFields, "\n"), ".data."+field) || item.Stage.Again {
			continue
		}
		if !has && !s.lacked[field] {
			s.fail("the ignored field %s is removed", field)
		}
		if owners[field][somebody] && has && now != value {
			s.fail("the ignored field %s of somebody is changed from %s to %s", field, value, now)
		}
	}
	if len(conflicts) > 0 && item.Careful() {
		return plan.Failed, `Apply failed with conflicts: conflicts with "` + strings.Join(conflicts, `" and "`) + `"`
	}
	return plan.Applied, ""
}

// settle delivers and reports until nothing is to be done.
func (s *scene) settle() {
	s.t.Helper()
	for range 40 {
		s.look(true)
		if s.deliver() == 0 {
			s.look(true)
			if s.deliver() == 0 {
				return
			}
		}
	}
	s.fail("each report leads to another write")
}

// check compares what the cluster has with what is desired.
func (s *scene) check() {
	s.t.Helper()
	if item := s.m.works["uid-1-0"].Items[0]; item.Stage.Refused != "" || item.Unsettled() {
		s.fail("the item is %+v", item)
	}
	got, want := map[string]string{}, map[string]string{}
	for _, field := range fieldsOf {
		value, has := s.live.fields[field]
		desired, wanted := s.content[field]
		if !s.ignored[field] && wanted {
			want[field] = desired
		}
		if !s.ignored[field] && has && (wanted || !s.live.owners[field][somebody]) { // what others add stays
			got[field] = value
		}
		for owner := range s.live.owners[field] {
			if strings.HasPrefix(owner, "work-agent.") && !s.ignored[field] {
				s.fail("%s still owns %s", owner, field)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.fail("the fields that are not ignored (-want +got):\n%s", diff)
	}
}

// TestStageHistories runs random histories: edits, options that come and go, somebody who changes
// or deletes the object between any two steps, an agent that is slow, away, or cannot report, and a
// transport that remembers nothing. No ignored field that the cluster has is ever removed, or taken
// from somebody; all others arrive, and go. In the end nothing more is written.
func TestStageHistories(t *testing.T) {
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 30))
		s := newScene(t, fmt.Sprint("seed ", seed))
		s.strict = seed%2 == 0
		for step := range 60 {
			field := fieldsOf[random.IntN(3)]
			switch random.IntN(14) {
			case 0:
				s.note("edit %s", field)
				s.content[field] = fmt.Sprint(step)
			case 1:
				if field != "c" {
					s.note("remove %s", field)
					delete(s.content, field)
				}
			case 2:
				if field != "c" {
					s.ignored[field] = !s.ignored[field]
					s.note("ignore %s: %t", field, s.ignored[field])
					maps.DeleteFunc(s.ignored, func(_ string, ignored bool) bool { return !ignored })
				}
			case 3:
				if s.live != nil {
					s.note("somebody changes %s", field)
					s.live.change(field, fmt.Sprint("s", step))
				}
			case 4:
				if random.IntN(3) == 0 {
					s.note("somebody deletes it")
					s.live = nil
				}
			case 5, 6, 7, 8:
				s.deliver()
			case 9, 10, 11, 12:
				s.look(true)
			default:
				s.look(false)
			}
		}
		s.deliver()
		s.settle()
		s.check()
		before := maps.Clone(s.live.fields)
		s.note("a last edit")
		s.content["c"] = "last"
		if n := s.deliver(); n != 1 {
			s.fail("the edit cost %d writes", n)
		}
		s.settle()
		s.check()
		for field := range s.ignored {
			if s.live.fields[field] != before[field] {
				s.fail("the ignored field %s changed from %q to %q", field, before[field], s.live.fields[field])
			}
		}
		s.note("it is re-created")
		s.live = nil
		s.look(true)
		s.deliver()
		s.settle()
		s.check()
		for field := range s.ignored {
			if s.live.fields[field] != s.content[field] {
				s.fail("the ignored field %s is %q in the new object, want %q", field, s.live.fields[field], s.content[field])
			}
		}
		s.note("nothing is ignored")
		clear(s.ignored)
		s.deliver()
		s.settle()
		s.check()
		if item := s.m.works["uid-1-0"].Items[0]; item.Options != (plan.Options{}) {
			s.fail("the options are left: %+v", item.Options)
		}
	}
}
