package transport

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
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
	p := &placement{uid: "p", objects: map[objref.Ref]plan.Object{settings: {}, web: {}}}
	own := []*plan.Work{{Items: []plan.Item{{Ref: password}}}}
	contested := func() map[objref.Ref][]string {
		found := map[objref.Ref][]string{}
		for ref, works := range s.contested(p, "x", own) {
			for _, work := range works {
				found[ref] = append(found[ref], work.Name)
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
	s.setWork(nil, foreign("b", "r", settings))
	s.setWork(nil, foreign("p-1-0", "p", web)) // ours, under a changed label
	check("listed or held", map[objref.Ref][]string{settings: {"a", "b"}, password: {"a"}})
	if s.has("q", "x") || len(s.bindings()) != 0 || s.contested(p, "y", own) != nil {
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
	check("and went back", map[objref.Ref][]string{settings: {"a", "b"}, password: {"a"}})
	for _, name := range []string{"a", "b", "p-1-0"} {
		s.setWork(s.foreign["x"].works[name], nil)
	}
	if len(s.foreign) != 0 || len(s.works) != 0 {
		t.Errorf("the empty store holds %v, %v", slices.Collect(maps.Keys(s.foreign)), s.works)
	}
}

func TestFightsEndOnce(t *testing.T) {
	key := Key{Binding: "b", Mailbox: "m"}
	mine := &plan.Work{Name: "mine", Items: []plan.Item{{Ref: settings}}}
	works := []*plan.Work{mine, {Name: "deleted", Deleting: true, Items: mine.Items}, {Name: "else", Items: []plan.Item{{Ref: web}}}}
	fight := []plan.Conflict{{Ref: settings, Ours: true}}
	claim := []plan.Conflict{{Ref: settings, Ours: true, With: plan.Stake{Observe: true}}}
	var f fights
	steps := []struct {
		what      string
		conflicts []plan.Conflict
		want      []*plan.Work
	}{
		{"peace", nil, nil},
		{"they only want it", claim, nil},
		{"both deliver", fight, nil},
		{"still", fight, nil},
		{"they have stopped", claim, []*plan.Work{mine}},
		{"long ago", claim, nil},
		{"they deliver, and we do not", []plan.Conflict{{Ref: settings}}, nil},
		{"they left", nil, nil},
	}
	for _, step := range steps {
		if got := f.over(key, step.conflicts, works); !slices.Equal(step.want, got) {
			t.Errorf("%s: %v, want %v", step.what, got, step.want)
		}
	}
	if len(f.objects) != 0 {
		t.Errorf("%v is remembered", f.objects)
	}
}

func TestTexts(t *testing.T) {
	theirs := plan.Stake{WDS: plan.WDS{UID: "2", Name: "two"}, Binding: "web", Work: "w"}
	nameless := plan.Stake{WDS: plan.WDS{UID: "2"}, Work: "w", Observe: true}
	claims, disputes := conflictTexts([]plan.Conflict{{Ref: web, With: theirs}, {Ref: settings, With: nameless}, {Ref: settings, With: theirs, Ours: true}})
	leaving, failures := leavingTexts([]plan.HandOver{
		{Ref: settings, To: theirs},
		{Ref: password, To: plan.Stake{Binding: "b"}, Failed: &plan.Item{Ref: password, Reason: "AppliedManifestFailed", Message: "s3cret"}},
	})
	want := [][]string{
		{
			`configmaps web/settings: WDS "2" (work w) is to deliver it next, with other content; ours waits: ` + wayOut,
			`namespaces web: WDS "two" (Binding "web") delivers it, with other content; ours waits until that leaves: ` + wayOut,
		},
		{`configmaps web/settings: WDS "two" (Binding "web") wants to deliver it too, with other content; ours stays: ` + wayOut},
		{`configmaps web/settings is handed over to WDS "two" (Binding "web")`, `secrets web/password is handed over to this WDS (Binding "b")`},
		{`secrets web/password: cannot be handed over to this WDS (Binding "b"): AppliedManifestFailed (text withheld: the object is a Secret)`},
	}
	if diff := cmp.Diff(want, [][]string{claims, disputes, leaving, failures}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOrders(t *testing.T) {
	cases := map[string]struct {
		annotations map[string]string
		wantHold    string
		want        release
		wantErrors  []string
	}{
		"None":     {nil, "", release{}, nil},
		"Force":    {map[string]string{controlv1alpha1.AnnotationRelease: " force\n"}, "", release{all: true}, nil},
		"Clusters": {map[string]string{controlv1alpha1.AnnotationRelease: "clusters=a, b.c"}, "", release{clusters: []string{"a", "b.c"}}, nil},
		"NoClusters": {map[string]string{controlv1alpha1.AnnotationRelease: "clusters="}, "", release{}, []string{
			`metadata.annotations[starling.io/release]: "" is no name of a cluster: ` + errRelease.Error() + "; it releases nothing",
		}},
		"BothWrong": {map[string]string{controlv1alpha1.AnnotationRelease: "true", controlv1alpha1.AnnotationHold: "x,y"}, "*", release{}, []string{
			`metadata.annotations[starling.io/hold]: "x": want <resource>.<group>/<namespace>/<name>, with nothing between the slashes for an object that has no namespace; until that is put right, everything is held`,
			`metadata.annotations[starling.io/hold]: "y": want <resource>.<group>/<namespace>/<name>, with nothing between the slashes for an object that has no namespace; until that is put right, everything is held`,
			`metadata.annotations[starling.io/release]: ` + errRelease.Error() + "; it releases nothing",
		}},
		"Hold": {map[string]string{controlv1alpha1.AnnotationHold: "namespaces//web"}, "namespaces//web", release{}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := ordersOf(&controlv1alpha1.Binding{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}})
			if diff := cmp.Diff(tc.wantErrors, o.mistakes); diff != "" || o.hold.String() != tc.wantHold || o.invalid != (tc.wantHold == "*") {
				t.Errorf("hold %q, mistakes (-want +got):\n%s", o.hold, diff)
			}
			if diff := cmp.Diff(tc.want, o.release, cmp.AllowUnexported(release{})); diff != "" {
				t.Errorf("release (-want +got):\n%s", diff)
			}
		})
	}
	empty := ordersOf(&controlv1alpha1.Binding{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{controlv1alpha1.AnnotationHold: ""}}})
	if empty.hold.Any() || empty.texts == (orders{}).texts {
		t.Error("an empty list holds nothing, but it is there")
	}
}

// TestOnForeign: what changed of another WDS's works concerns only those who list it.
func TestOnForeign(t *testing.T) {
	c := &Controller{listed: map[objref.Ref]map[string]bool{settings: {"a": true, "b": false}, web: {"c": false}}}
	work := func(change func(*plan.Work)) *plan.Work {
		w := &plan.Work{Mailbox: "x", Name: "w", Foreign: plan.WDS{UID: "2"}, Items: []plan.Item{{Ref: settings}, {Ref: web}, {Ref: password}}}
		change(w)
		return w
	}
	base := work(func(*plan.Work) {})
	cases := map[string]struct {
		before, after *plan.Work
		want          []string
	}{
		"Comes":       {nil, base, []string{"a", "b", "c"}},
		"Goes":        {base, nil, []string{"a", "b", "c"}},
		"Same":        {base, work(func(w *plan.Work) { w.Generation++ }), nil},
		"Content":     {base, work(func(w *plan.Work) { w.Items[1].Hash = transform.Hash{1} }), []string{"c"}},
		"Claim":       {base, work(func(w *plan.Work) { w.Items[0].Observe = true }), []string{"a", "b"}},
		"Deleted":     {base, work(func(w *plan.Work) { w.Deleting = true }), []string{"a", "b", "c"}},
		"Unlisted":    {base, work(func(w *plan.Work) { w.Items = w.Items[:2] }), nil},
		"BecomesOurs": {base, work(func(w *plan.Work) { w.Foreign = plan.WDS{} }), []string{"a", "b", "c"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := &space{Controller: c, queue: newQueue[Key](clock.RealClock{}, "")}
			defer s.queue.ShutDown()
			s.onForeign(tc.before, tc.after)
			var got []string
			for s.queue.Len() > 0 {
				key, _ := s.queue.Get()
				got = append(got, key.Binding)
				s.queue.Done(key)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestAwaited: whom an object waits for that leaves a Binding.
func TestAwaited(t *testing.T) {
	known := func(refs ...objref.Ref) map[objref.Ref]plan.Object {
		objects := map[objref.Ref]plan.Object{}
		for _, ref := range refs {
			objects[ref] = plan.Object{Known: true}
		}
		return objects
	}
	edge := map[string]struct{}{"edge": {}}
	item := func(state plan.State) *plan.Work {
		return &plan.Work{Mailbox: "edge", Name: "theirs", BindingUID: "other", Items: []plan.Item{{Ref: settings, State: state}}}
	}
	cases := map[string]struct {
		ours, other *placement
		delivered   *plan.Work
		want        map[objref.Ref]string
	}{
		"Deleted":      {&placement{deleting: true}, &placement{destinations: edge, objects: known(settings)}, nil, map[objref.Ref]string{settings: "other"}},
		"Unlisted":     {&placement{destinations: edge, objects: known(web)}, &placement{destinations: edge, objects: known(settings)}, nil, map[objref.Ref]string{settings: "other"}},
		"NotHere":      {&placement{objects: known(settings, web)}, &placement{destinations: edge, objects: known(settings)}, nil, map[objref.Ref]string{settings: "other"}},
		"Wanted":       {&placement{destinations: edge, objects: known(settings, web)}, &placement{destinations: edge, objects: known(settings)}, nil, nil},
		"Pending":      {&placement{deleting: true}, &placement{destinations: edge, objects: known(settings)}, item(plan.Pending), map[objref.Ref]string{settings: "other"}},
		"Applied":      {&placement{deleting: true}, &placement{destinations: edge, objects: known(settings)}, item(plan.Applied), nil},
		"Failed":       {&placement{deleting: true}, &placement{destinations: edge, objects: known(settings)}, item(plan.Failed), nil},
		"Silent":       {&placement{deleting: true}, &placement{destinations: edge, objects: known(settings)}, item(plan.Silent), nil},
		"BothGo":       {&placement{deleting: true}, &placement{deleting: true}, item(plan.Pending), nil},
		"Elsewhere":    {&placement{deleting: true}, &placement{objects: known(settings)}, nil, nil},
		"CannotBeRead": {&placement{deleting: true}, &placement{destinations: edge, objects: map[objref.Ref]plan.Object{settings: {}}}, nil, nil},
		"Held":         {&placement{deleting: true}, &placement{destinations: edge, objects: known(settings), orders: orders{hold: plan.HoldAll()}}, nil, nil},
		"BeingRead":    {&placement{deleting: true}, nil, nil, map[objref.Ref]string{settings: "other"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newWDS(t).controller(t)
			s := c.spaces[0]
			s.OnDestination("edge", &Destination{Accepted: true})
			c.list("other", []entry{{ref: settings}})
			if tc.other != nil {
				tc.other.name, tc.other.uid = "other", "other"
				if tc.other.objects == nil {
					tc.other.objects = map[objref.Ref]plan.Object{}
				}
				c.publish("other", tc.other)
			}
			if tc.delivered != nil {
				s.store.setWork(nil, tc.delivered)
			}
			tc.ours.name, tc.ours.uid = "b", "uid"
			works := []*plan.Work{{Mailbox: "edge", Items: []plan.Item{{Ref: settings}, {Ref: web}}}}
			if got, _ := s.handOver(tc.ours, "edge", works); len(got)+len(tc.want) > 0 && !maps.Equal(tc.want, got) {
				t.Errorf("awaited %v, want %v", got, tc.want)
			}
		})
	}
}
