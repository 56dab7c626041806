package plan_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// holdOf holds these objects.
func holdOf(refs ...objref.Ref) plan.Hold {
	var entries []string
	for _, ref := range refs {
		entries = append(entries, ref.GroupResource().String()+"/"+ref.Namespace+"/"+ref.Name)
	}
	h, err := plan.ParseHold(strings.Join(entries, ","))
	if err != nil {
		panic(err)
	}
	return h
}

func TestParseHold(t *testing.T) {
	cases := map[string]struct {
		text    string
		want    string
		wantErr string
	}{
		"Nothing":          {"", "", ""},
		"OnlySeparators":   {" ,\n", "", ""},
		"All":              {" * ", "*", ""},
		"AllAndMore":       {"configmaps/web/settings,*", "*", ""},
		"List":             {"namespaces//web, deployments.apps/web/nginx\nconfigmaps/web/settings,", "configmaps/web/settings, namespaces//web, deployments.apps/web/nginx", ""},
		"Twice":            {"namespaces//web,namespaces//web", "namespaces//web", ""},
		"LongGroupAndName": {"clusterroles.rbac.authorization.k8s.io//system:a", "clusterroles.rbac.authorization.k8s.io//system:a", ""},
		"NoSlashes":        {"nginx", "*", `"nginx": want <resource>.<group>/<namespace>/<name>, with nothing between the slashes for an object that has no namespace`},
		"OneSlash":         {"namespaces/web", "*", `"namespaces/web": want <resource>.<group>/<namespace>/<name>, with nothing between the slashes for an object that has no namespace`},
		"Kind":             {"Deployment.apps/web/nginx", "*", `"Deployment.apps/web/nginx": the resource "Deployment" must be a lowercase plural, like deployments`},
		"Group":            {"deployments.Apps/web/nginx", "*", `"deployments.Apps/web/nginx": "Apps" is not an API group`},
		"EmptyGroup":       {"configmaps./web/settings", "*", `"configmaps./web/settings": "" is not an API group`},
		"Namespace":        {"configmaps/we.b/settings", "*", `"configmaps/we.b/settings": "we.b" is not a valid name of a namespace`},
		"Name":             {"configmaps/web/", "*", `"configmaps/web/": "" is not a valid name of an object`},
		"SomeBad":          {"namespaces//web, x, y", "*", `"x": want <resource>.<group>/<namespace>/<name>, with nothing between the slashes for an object that has no namespace` + "\n" + `"y": want <resource>.<group>/<namespace>/<name>, with nothing between the slashes for an object that has no namespace`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := plan.ParseHold(tc.text)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if diff := cmp.Diff([]string{tc.want, tc.wantErr}, []string{got.String(), text}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			again, err := plan.ParseHold(got.String())
			if err != nil || !again.Equal(got) {
				t.Errorf("%q reads as %q, %v", got, again, err)
			}
			if wantAll := tc.want == "*"; got.Holds(objref.Ref{Resource: "anything"}) != wantAll || got.Any() != (tc.want != "") {
				t.Errorf("%q holds the wrong things", got)
			}
		})
	}
}

func FuzzParseHold(f *testing.F) {
	for _, text := range []string{"", "*", "deployments.apps/web/nginx, namespaces//web", "a//", "./,/"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		h, err := plan.ParseHold(text)
		again, errAgain := plan.ParseHold(h.String())
		if err != nil && !h.Equal(plan.HoldAll()) || errAgain != nil || !again.Equal(h) {
			t.Errorf("ParseHold(%q) = %q, %v; read again: %q, %v", text, h, err, again, errAgain)
		}
	})
}

// neededByHeld reports whether a held object in the mailbox is in that Namespace.
func neededByHeld(m *mailbox, namespace objref.Ref) bool {
	for ref := range placed(m) {
		if m.hold.Holds(ref) && ref.Namespace == namespace.Name && namespace.Resource == "namespaces" {
			return true
		}
	}
	return false
}

// heldItems returns what the mailbox holds of held objects: everything of the items that a write
// could change.
func heldItems(m *mailbox) []string {
	var all []string
	for _, work := range m.works {
		for _, item := range work.Items {
			if m.hold.Holds(item.Ref) && !work.Deleting {
				all = append(all, fmt.Sprint(work.UID, item.Ref, item.Hash, item.Size, item.Options))
			}
		}
	}
	slices.Sort(all)
	return all
}

// TestHeldObjectsNeverChange runs random histories with random holds, which come, change and go;
// the Binding may also be removed from the destination and come back. No plan may touch what is
// held, and the rest converges as if nothing were. When all is released, everything converges.
func TestHeldObjectsNeverChange(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 7))
		limits := someLimits(random)
		m := &mailbox{works: map[string]*plan.Work{}, repacks: limits.Repack}
		want := map[objref.Ref]string{}
		flags := map[objref.Ref]bool{}
		for step := range 40 {
			when := fmt.Sprintf("seed %d step %d", seed, step)
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
			switch random.IntN(5) {
			case 0:
				m.hold = plan.HoldAll()
			case 1:
				m.hold = plan.Hold{}
			case 2:
				m.hold = holdOf(randomRef(random), randomRef(random), randomRef(random))
			}
			if random.IntN(6) == 0 {
				vandalize(random, m)
			}
			if random.IntN(2) == 0 {
				m.report(func(*plan.Work) bool { return random.IntN(2) == 0 }, plan.State(random.IntN(3)))
			}
			before, homes := heldItems(m), map[objref.Ref]bool{}
			for ref := range placed(m) {
				homes[ref] = neededByHeld(m, ref)
			}
			if random.IntN(8) == 0 {
				removal := plan.Build(&plan.Desired{}, m.current())
				for i := range removal.Actions {
					m.do(t, &removal.Actions[i])
				}
				if again := plan.Build(&plan.Desired{}, m.current()); len(again.Actions) > 0 {
					t.Fatalf("%s: removed, and then again: %s", when, trace(again.Actions))
				}
				for ref := range placed(m) {
					if !m.hold.Holds(ref) && !neededByHeld(m, ref) && !withdrawnIn(m, ref) {
						t.Fatalf("%s: %s is left by the removal", when, ref)
					}
				}
			} else {
				run(t, m, desired(want, flags, nil, limits), when)
			}
			for ref, needed := range homes {
				if needed && !placed(m)[ref] {
					t.Fatalf("%s: %s was taken from under what is held in it", when, ref)
				}
			}
			if diff := cmp.Diff(before, heldItems(m)); diff != "" {
				t.Fatalf("%s: what is held as %q changed (-before +after):\n%s", when, m.hold, diff)
			}
		}
		converge(t, m, desired(want, flags, nil, limits), fmt.Sprintf("seed %d with holds", seed))
		checkRest(t, m, want, limits, seed)
		m.hold = plan.Hold{}
		settle(t, m, desired(want, flags, nil, limits), want, limits, seed)
	}
}

func converge(t *testing.T, m *mailbox, d *plan.Desired, when string) {
	t.Helper()
	for range 10 {
		m.report(every, plan.Applied)
		if run(t, m, d, when) == 0 {
			return
		}
	}
	t.Errorf("%s: does not come to rest", when)
}

// checkRest checks what is not held, and does not wait for a Namespace that is.
func checkRest(t *testing.T, m *mailbox, want map[objref.Ref]string, limits packing.Limits, seed uint64) {
	t.Helper()
	got := map[objref.Ref]transform.Hash{}
	for _, work := range m.works {
		for _, item := range work.Items {
			if !work.Deleting {
				got[item.Ref] = item.Hash
			}
		}
	}
	for _, ref := range slices.SortedFunc(maps.Keys(want), objref.Compare) {
		home := objref.Ref{Resource: "namespaces", Name: ref.Namespace}
		content, inNamespace := want[home]
		fits := len(want[ref])+packing.Overhead <= limits.Bytes && (!inNamespace || len(content)+packing.Overhead <= limits.Bytes)
		if m.hold.Holds(ref) || m.hold.Holds(home) || !fits {
			continue
		}
		if got[ref] != transform.HashOf([]byte(want[ref])) {
			t.Errorf("seed %d: %s is not held by %q, and not as desired", seed, ref, m.hold)
		}
	}
	for ref := range got {
		if _, wanted := want[ref]; !wanted && !m.hold.Holds(ref) && !neededByHeld(m, ref) && !neededBy(want, ref) {
			t.Errorf("seed %d: %s is not held by %q, not wanted, and still there", seed, ref, m.hold)
		}
	}
}

// TestHeldObjectIsKept: of an object that is held, only the wish that the cluster keeps it is
// written: neither its content, nor another option, nor that the cluster is to delete it.
func TestHeldObjectIsKept(t *testing.T) {
	ref := objref.Ref{Resource: "configmaps", Namespace: "web", Name: "settings"}
	limits := packing.Limits{Count: 10, Bytes: 10_000}
	wanted := func(content string, options plan.Options) *plan.Desired {
		o := object(ref, content)
		o.Options = options
		return plan.NewDesired([]plan.Object{o}, limits)
	}
	for name, tc := range map[string]struct {
		had, wants, want plan.Options
	}{
		"ToBeKept":        {plan.Options{}, plan.Options{Orphan: true, NoForce: true}, plan.Options{Orphan: true}},
		"ToBeDeleted":     {plan.Options{Orphan: true}, plan.Options{}, plan.Options{Orphan: true}},
		"NothingOfOption": {plan.Options{}, plan.Options{NoForce: true}, plan.Options{}},
	} {
		t.Run(name, func(t *testing.T) {
			m := &mailbox{works: map[string]*plan.Work{}, hold: plan.Hold{}}
			first := strings.Repeat("1", 200)
			converge(t, m, wanted(first, tc.had), name)
			m.hold = holdOf(ref)
			converge(t, m, wanted(strings.Repeat("2", 200), tc.wants), name)
			for _, work := range m.works {
				for _, item := range work.Items {
					if diff := cmp.Diff(tc.want, item.Options); diff != "" || item.Hash != object(ref, first).Hash {
						t.Errorf("hash %v, options (-want +got):\n%s", item.Hash, diff)
					}
				}
			}
			if len(placed(m)) != 1 {
				t.Errorf("placed: %v", placed(m))
			}
		})
	}
}
