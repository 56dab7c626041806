package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
)

// TestApart: custom resources have works of their own, those of a group together. What is in a work
// with them stays there.
func TestApart(t *testing.T) {
	limits := packing.Limits{Count: 9, Bytes: 1000}
	gadget := objref.Ref{Group: "other.example.com", Resource: "gadgets", Namespace: "web", Name: "g"}
	gateway := objref.Ref{Group: "gateway.networking.k8s.io", Resource: "gateways", Namespace: "web", Name: "g"}
	second := objref.Ref{Group: "other.example.com", Resource: "others", Namespace: "web", Name: "o"}
	desired := func(refs ...objref.Ref) *plan.Desired {
		var objects []plan.Object
		for _, ref := range refs {
			objects = append(objects, object(ref, "1"))
		}
		return plan.NewDesired(objects, limits)
	}
	together := func(m *mailbox) map[objref.Ref]string {
		works := map[objref.Ref]string{}
		for work, item := range plan.Items(m.list()) {
			works[item.Ref] = work.Name
		}
		return works
	}

	m := &mailbox{works: map[string]*plan.Work{}}
	all := []objref.Ref{settings, nginx, role, crd, widget, gadget, second, gateway}
	for range 3 {
		run(t, m, desired(all...), "place")
		m.report(every, plan.Applied)
	}
	want := map[objref.Ref]string{
		crd: "uid-0-0", settings: "uid-1-0", nginx: "uid-1-0", role: "uid-1-0",
		widget: "uid-1-1", gateway: "uid-1-2", gadget: "uid-1-3", second: "uid-1-3",
	}
	if diff := cmp.Diff(want, together(m)); diff != "" {
		t.Errorf("placed (-want +got):\n%s", diff)
	}

	m = &mailbox{works: map[string]*plan.Work{"uid-1-0": {
		Mailbox: "cluster1", Name: "uid-1-0", UID: "1", Generation: 1, Wave: 1, Begun: true,
		Items: items([]plan.Entry{entryOf(gadget), entryOf(settings)}),
	}}}
	work := m.works["uid-1-0"]
	work.Recorded, work.Actual = hashOf(work.Items), hashOf(work.Items)
	if n := run(t, m, desired(gadget, settings), "as an earlier version packed it"); n > 0 {
		t.Error("what an earlier version packed is moved")
	}
	run(t, m, desired(gadget, settings, second, nginx), "more come")
	want = map[objref.Ref]string{gadget: "uid-1-0", settings: "uid-1-0", nginx: "uid-1-1", second: "uid-1-2"}
	if diff := cmp.Diff(want, together(m)); diff != "" {
		t.Errorf("placed beside what an earlier version packed (-want +got):\n%s", diff)
	}
}

func entryOf(ref objref.Ref) plan.Entry {
	o := object(ref, "1")
	return plan.Entry{Ref: ref, Kind: o.Kind.Kind, Hash: o.Hash, Size: o.Size()}
}

// TestUnreadSibling: while the agent cannot read one object of a work, what leaves the work stays
// withdrawn in it, and the plan says why. An object that it cannot read leaves as soon as it is
// withdrawn.
func TestUnreadSibling(t *testing.T) {
	limits := packing.Limits{Count: 9, Bytes: 1000}
	const missing = `Failed to apply manifest: the server doesn't have a resource type "Role"`
	m := &mailbox{works: map[string]*plan.Work{}}
	report := func() {
		m.report(every, plan.Applied)
		for work, item := range plan.Items(m.list()) {
			if item.Ref == role {
				item.State, item.Message = plan.Failed, missing
				m.note(work)
			}
		}
	}
	step := func(what, want string, behind bool, refs ...objref.Ref) {
		t.Helper()
		var objects []plan.Object
		for _, ref := range refs {
			objects = append(objects, object(ref, "1"))
		}
		p := plan.Build(plan.NewDesired(objects, limits), m.current())
		if got := trace(p.Actions); got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
		said := len(p.Leaving) == 1 && p.Leaving[0].Ref == settings && p.Leaving[0].Behind != nil && p.Leaving[0].Behind.Ref == role
		if said != behind || !behind && len(p.Leaving) > 0 {
			t.Errorf("%s: leaving %+v", what, p.Leaving)
		}
		for i := range p.Actions {
			m.do(t, &p.Actions[i])
		}
		report()
	}
	step("place", "create cluster1/uid-1-0 (place): +clusterroles.rbac.authorization.k8s.io reader, +configmaps web/settings, +secrets web/key", false, role, settings, secret)
	step("one leaves", "patch cluster1/uid-1-0 (remove): ~[1] configmaps web/settings, rest", true, role, secret)
	step("it stays", "", true, role, secret)
	step("what cannot be read leaves", "patch cluster1/uid-1-0 (remove): ~[0] clusterroles.rbac.authorization.k8s.io reader, rest", true, secret)
	step("it has left", "patch cluster1/uid-1-0 (remove): -[0] clusterroles.rbac.authorization.k8s.io reader, rest", true, secret)
	step("and so may the other", "patch cluster1/uid-1-0 (remove): -[0] configmaps web/settings, rest", false, secret)
}
