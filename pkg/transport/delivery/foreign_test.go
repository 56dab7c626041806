package delivery

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/transport/placement"
)

func TestStoreFindsWhatIsContested(t *testing.T) {
	s := newStore()
	other := plan.WDS{UID: "2", Name: "two"}
	foreign := func(name string, binding types.UID, refs ...objref.Ref) *plan.Work {
		w := &plan.Work{Mailbox: "x", Name: name, Foreign: other, BindingUID: binding}
		for _, ref := range refs {
			w.Items = append(w.Items, plan.Item{Ref: ref})
		}
		return w
	}
	p := &placement.Placement{UID: "p", Objects: map[objref.Ref]plan.Object{settings: {}, web: {}}}
	own := []*plan.Work{{Items: []plan.Item{{Ref: password}}}}
	contested := func() map[objref.Ref][]string {
		owners, found := plan.Owners{}, map[objref.Ref][]string{}
		s.addForeign(owners, p, "x", own)
		for ref, all := range owners {
			for _, owner := range all {
				found[ref] = append(found[ref], owner.Work.Name)
			}
			slices.Sort(found[ref])
		}
		return found
	}
	check := func(what string, want map[objref.Ref][]string) {
		t.Helper()
		if diff := cmp.Diff(want, contested()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	check("nobody is there", map[objref.Ref][]string{})
	a := foreign("a", "q", settings, settings, password, objref.Ref{Resource: "elsewhere"})
	s.setWork(nil, a)
	b, relabeled := foreign("b", "r", settings), foreign("p-1-0", "p", web) // the latter is ours, under a changed label
	s.setWork(nil, b)
	s.setWork(nil, relabeled)
	check("listed or held", map[objref.Ref][]string{settings: {"a", "a", "b"}, password: {"a"}})
	elsewhere := plan.Owners{}
	s.addForeign(elsewhere, p, "y", own)
	if s.has("q", "x") || len(s.bindings()) != 0 || len(elsewhere) > 0 {
		t.Error("works of others are taken for ours, or seen in another mailbox")
	}
	ours := *a
	ours.Foreign = plan.WDS{}
	s.setWork(a, &ours)
	check("one became ours", map[objref.Ref][]string{settings: {"b"}})
	if !s.has("q", "x") {
		t.Error("it is not ours")
	}
	s.setWork(&ours, a)
	check("and went back", map[objref.Ref][]string{settings: {"a", "a", "b"}, password: {"a"}})
	for _, work := range []*plan.Work{a, b, relabeled} {
		s.setWork(work, nil)
	}
	if len(s.foreign) != 0 || len(s.works) != 0 {
		t.Errorf("the empty store holds %v, %v", slices.Collect(maps.Keys(s.foreign)), s.works)
	}
}
