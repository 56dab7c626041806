package customtransform

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
)

var (
	settings = schema.GroupResource{Resource: "configmaps"}
	servers  = schema.GroupResource{Group: "apps", Resource: "deployments"}
	batches  = schema.GroupResource{Group: "batch", Resource: "jobs"}
)

func custom(name string, about schema.GroupResource, removes ...string) *controlv1alpha1.CustomTransform {
	return &controlv1alpha1.CustomTransform{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid of " + name)},
		Spec:       controlv1alpha1.CustomTransformSpec{APIGroup: about.Group, Resource: about.Resource, Remove: removes},
	}
}

// world is what an informer would hold.
type world map[string]*controlv1alpha1.CustomTransform

func (w world) of(about schema.GroupResource) []*controlv1alpha1.CustomTransform {
	var found []*controlv1alpha1.CustomTransform
	for _, ct := range w {
		if GroupResource(&ct.Spec) == about {
			found = append(found, ct)
		}
	}
	return found
}

func (w world) set(cts ...*controlv1alpha1.CustomTransform) {
	for _, ct := range cts {
		w[ct.Name] = ct
	}
}

func TestWhatIsAskedFor(t *testing.T) {
	w := world{}
	c := NewCollection(w.of)
	ask := func(what, binding string, about schema.GroupResource, wantDigest string, wantUnknown ...string) {
		t.Helper()
		got, again := c.Changes(binding, about)
		if got.Digest != wantDigest || !slices.Equal(got.Unknown, wantUnknown) || len(again) > 0 {
			t.Errorf("%s: %q, unknown %q, again %q; want %q, unknown %q", what, got.Digest, got.Unknown, again, wantDigest, wantUnknown)
		}
	}
	note := func(what, name string, want ...string) {
		t.Helper()
		if got := c.Note(name, w[name]); !slices.Equal(got, want) {
			t.Errorf("%s: process again %q, want %q", what, got, want)
		}
	}

	ask("there is nothing", "one", settings, "")
	w.set(custom("b", settings, `$.data.b`))
	note("created", "b", "one")
	ask("one of them", "one", settings, "$.data.b")
	ask("another Binding", "two", settings, "$.data.b")
	note("a repeated event", "b")
	w.set(custom("a", settings, `$['data']["b"]`, `$.data.a`))
	note("a second one", "a", "one", "two")
	ask("they are united", "one", settings, "$.data.a\n$.data.b")
	w.set(custom("unused", batches, `$.spec`))
	note("nobody uses it", "unused")

	w.set(custom("a", settings, `$.data.c`, `$..x`))
	note("a mistake", "a", "one")
	ask("what was valid goes on", "one", settings, "$.data.a\n$.data.b")
	w.set(custom("new", settings, `$`))
	note("one that never was valid", "new", "one")
	ask("it is not known", "one", settings, "$.data.a\n$.data.b", "new")
	delete(w, "new")
	note("it goes", "new", "one")
	ask("it is known", "one", settings, "$.data.a\n$.data.b")
	w.set(custom("a", settings, `$.data.c`))
	note("corrected", "a", "one")
	ask("corrected", "one", settings, "$.data.b\n$.data.c")

	ask("another GroupResource", "one", servers, "")
	w.set(custom("b", servers, `$.data.b`))
	note("it is about another GroupResource now", "b", "one", "one")
	ask("the old one", "one", settings, "$.data.c")
	ask("the new one", "one", servers, "$.data.b")
	w.set(custom("b", settings, `$.data.b`, `$`))
	note("back, with a mistake", "b", "one", "one")
	ask("what was valid was about another GroupResource", "one", settings, "$.data.c", "b")
	w.set(custom("b", servers, `$`))
	note("forth again", "b", "one")
	ask("now it is of use", "one", servers, "$.data.b")

	again := custom("b", servers, `$`)
	again.UID = "another"
	w.set(again)
	note("it is another one of the same name", "b", "one")
	ask("which never was valid", "one", servers, "", "b")
}

// TestRestart starts with an empty Collection, and with inForce in the status.
func TestRestart(t *testing.T) {
	invalid := func(change func(*controlv1alpha1.CustomTransformSpec)) *controlv1alpha1.CustomTransform {
		ct := custom("a", settings, `$`)
		ct.Status.InForce = &custom("", settings, `$.data.a`).Spec
		change(ct.Status.InForce)
		return ct
	}
	cases := map[string]struct {
		ct          *controlv1alpha1.CustomTransform
		wantDigest  string
		wantUnknown []string
	}{
		"Stored":             {invalid(func(*controlv1alpha1.CustomTransformSpec) {}), "$.data.a", nil},
		"NotStored":          {custom("a", settings, `$`), "", []string{"a"}},
		"AboutSomethingElse": {invalid(func(s *controlv1alpha1.CustomTransformSpec) { s.Resource = "secrets" }), "", []string{"a"}},
		"StoredInvalid":      {invalid(func(s *controlv1alpha1.CustomTransformSpec) { s.Remove = []string{"x"} }), "", []string{"a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := world{}
			w.set(tc.ct)
			got, _ := NewCollection(w.of).Changes("one", settings)
			if got.Digest != tc.wantDigest || !slices.Equal(got.Unknown, tc.wantUnknown) {
				t.Errorf("%q, unknown %q; want %q, unknown %q", got.Digest, got.Unknown, tc.wantDigest, tc.wantUnknown)
			}
		})
	}
}

func TestApply(t *testing.T) {
	w := world{}
	w.set(custom("a", settings, `$.metadata.labels.only`, `$.metadata.annotations[?@ == "x"]`, `$.data.secret`))
	i, _ := NewCollection(w.of).Changes("one", settings)
	obj := map[string]any{
		"metadata": map[string]any{
			"name": "n", "labels": map[string]any{"only": "x"}, "annotations": map[string]any{"a": "x", "b": "y"},
		},
		"data": map[string]any{"secret": "1"},
	}
	if err := i.Apply(objref.Ref{}, obj); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"metadata": map[string]any{"name": "n", "annotations": map[string]any{"b": "y"}},
		"data":     map[string]any{},
	}
	if diff := cmp.Diff(want, obj); diff != "" {
		t.Errorf("Apply() (-want +got):\n%s", diff)
	}
}

// TestRandomHistories attacks the invariants: CustomTransforms are created, changed and deleted,
// and their events arrive later and out of order, while Bindings call Changes and
// SetBindingGroupResources. In the end every Binding has the answer that it would get from an empty
// Collection.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(500) {
		h := newHistory(t, seed)
		for range 60 {
			h.step()
			h.check()
		}
		h.drain()
		h.check()
		h.checkAnswers()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

type history struct {
	t       *testing.T
	r       *rand.Rand
	world   world
	c       *Collection
	pending map[string]bool                                   // names of CustomTransforms whose event has not arrived yet
	wanted  map[string][]schema.GroupResource                 // what Bindings list
	dirty   map[string]bool                                   // Bindings that are to be processed
	answers map[string]map[schema.GroupResource]*Instructions // the last answer of each Binding
	births  int
}

func newHistory(t *testing.T, seed uint64) *history {
	t.Helper()
	h := &history{
		t: t, r: rand.New(rand.NewPCG(seed, 7)), world: world{}, pending: map[string]bool{}, wanted: map[string][]schema.GroupResource{},
		dirty: map[string]bool{}, answers: map[string]map[schema.GroupResource]*Instructions{},
	}
	h.c = NewCollection(h.world.of)
	return h
}

func (h *history) step() {
	switch h.r.IntN(6) {
	case 0, 1:
		h.edit()
	case 2:
		h.deliver()
	case 3:
		binding := fmt.Sprintf("binding%d", h.r.IntN(3))
		h.wanted[binding] = nil
		for _, about := range []schema.GroupResource{settings, servers, batches} {
			if h.r.IntN(2) == 0 {
				h.wanted[binding] = append(h.wanted[binding], about)
			}
		}
		h.dirty[binding] = true
	case 4, 5:
		h.process(true)
	}
}

// edit changes a CustomTransform: some have mistakes, some are about something else than before,
// some are deleted.
func (h *history) edit() {
	name := fmt.Sprintf("ct%d", h.r.IntN(4))
	h.pending[name] = true
	if h.r.IntN(4) == 0 {
		delete(h.world, name)
		return
	}
	about := []schema.GroupResource{settings, servers, batches}[h.r.IntN(3)]
	removes := []string{[]string{"$.a", "$.b", "$.c", "$"}[h.r.IntN(4)]}
	ct := custom(name, about, removes...)
	if old := h.world[name]; old != nil {
		ct.UID = old.UID
	} else {
		h.births++
		ct.UID = types.UID(fmt.Sprint(h.births))
	}
	h.world[name] = ct
}

func (h *history) deliver() {
	for name := range h.pending { // any
		delete(h.pending, name)
		h.again(h.c.Note(name, h.world[name]))
		return
	}
}

func (h *history) again(bindings []string) {
	for _, binding := range bindings {
		h.dirty[binding] = true
	}
}

// process does what the transport does with one Binding; other things may happen in between.
func (h *history) process(disturbed bool) {
	for binding := range h.dirty { // any
		delete(h.dirty, binding)
		answers := map[schema.GroupResource]*Instructions{}
		wanted := h.wanted[binding]
		for _, about := range wanted {
			instructions, again := h.c.Changes(binding, about)
			h.again(again)
			answers[about] = instructions
			if disturbed && h.r.IntN(3) == 0 {
				h.edit()
				h.deliver()
			}
			h.check()
		}
		h.c.SetBindingGroupResources(binding, wanted)
		h.answers[binding] = answers
		return
	}
}

func (h *history) drain() {
	for len(h.pending) > 0 {
		h.deliver()
	}
	for rounds := 0; len(h.dirty) > 0; rounds++ {
		if rounds > 100 {
			h.t.Fatal("Bindings are processed without end")
		}
		h.process(false)
	}
}

// checkAnswers compares the last answer of each Binding with what an empty Collection derives.
func (h *history) checkAnswers() {
	h.t.Helper()
	fresh := NewCollection(h.world.of)
	fresh.valid = maps.Clone(h.c.valid)
	for binding, answers := range h.answers {
		for about, got := range answers {
			want, _ := fresh.Changes("x", about)
			if got.Digest != want.Digest || !slices.Equal(got.Unknown, want.Unknown) {
				h.t.Errorf("%s, %s: the answer was %q and unknown %q, want %q and %q", binding, about, got.Digest, got.Unknown, want.Digest, want.Unknown)
			}
			if h.c.rows[about] == nil {
				h.t.Errorf("%s uses %s, which has no instructions", binding, about)
			}
		}
	}
	for name := range h.c.valid {
		if h.world[name] == nil {
			h.t.Errorf("%s is remembered, and is gone", name)
		}
	}
}

// check checks the invariants, and that the indexes say the same.
func (h *history) check() {
	h.t.Helper()
	c := h.c
	type use struct {
		binding string
		about   schema.GroupResource
	}
	uses, fromRows := map[use]bool{}, map[use]bool{}
	for binding, abouts := range c.uses {
		if len(abouts) == 0 {
			h.t.Errorf("%s uses nothing and is kept", binding)
		}
		for about := range abouts {
			uses[use{binding, about}] = true
		}
	}
	specs := map[string]schema.GroupResource{}
	for about, r := range c.rows {
		if len(r.bindings) == 0 {
			h.t.Errorf("INSTRUCTIONS has a row for %s, which nobody uses", about)
		}
		for binding := range r.bindings {
			fromRows[use{binding, about}] = true
		}
		for name := range r.transforms {
			if other, twice := specs[name]; twice {
				h.t.Errorf("%s contributes to %s and %s", name, about, other)
			}
			specs[name] = about
		}
	}
	if diff := cmp.Diff(uses, fromRows); diff != "" {
		h.t.Errorf("USES by Binding and by GroupResource (-first +second):\n%s", diff)
	}
	got := map[string]schema.GroupResource{}
	for name, s := range c.specs {
		got[name] = s.about
	}
	if diff := cmp.Diff(specs, got); diff != "" {
		h.t.Errorf("SPECS (-contribute +got):\n%s", diff)
	}
	if h.t.Failed() {
		h.t.FailNow()
	}
}
