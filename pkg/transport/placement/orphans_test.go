package placement

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/options"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/render"
)

// TestOrphans: whether an object that leaves stays in the clusters follows from what its own
// annotations asked for last, and from the Binding's as they are now.
func TestOrphans(t *testing.T) {
	ref := objref.Ref{Resource: "configmaps", Namespace: "web", Name: "settings"}
	namespace := objref.Ref{Resource: "namespaces", Name: "default"}
	asking := func(value string) options.Requested {
		r, err := options.Parse(map[string]string{controlv1alpha1.AnnotationOnRemoval: value})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	web := objref.Ref{Resource: "namespaces", Name: "web"}
	deleting := func(leaving map[objref.Ref]options.Requested, onBinding options.Requested) *Placement {
		return &Placement{Deleting: true, leaving: leaving, Annotations: Annotations{options: onBinding}}
	}
	type answer struct{ Orphan, Known bool }
	own := func(r options.Requested) map[objref.Ref]options.Requested {
		return map[objref.Ref]options.Requested{ref: r}
	}
	for name, tc := range map[string]struct {
		p    *Placement
		ref  objref.Ref
		want answer
	}{
		"NothingSaid":         {deleting(own(options.Requested{}), options.Requested{}), ref, answer{false, true}},
		"ByTheBinding":        {deleting(own(options.Requested{}), asking("orphan")), ref, answer{true, true}},
		"ByTheObject":         {deleting(own(asking("orphan")), asking("delete")), ref, answer{true, true}},
		"NotByTheObject":      {deleting(own(asking("delete")), asking("orphan")), ref, answer{false, true}},
		"UnreadAndKept":       {deleting(nil, asking("orphan")), ref, answer{true, true}},
		"UnreadAndDeleted":    {deleting(nil, asking("delete")), ref, answer{false, false}},
		"NeverDeleted":        {deleting(nil, asking("delete")), namespace, answer{true, true}},
		"Invalid":             {&Placement{Deleting: true, leaving: own(options.Requested{}), Annotations: Annotations{optionsInvalid: true}}, ref, answer{false, false}},
		"NotListedAnyMore":    {&Placement{}, ref, answer{false, false}},
		"LeftAndKept":         {&Placement{leaving: own(asking("orphan"))}, ref, answer{true, true}},
		"LeftByTheBinding":    {&Placement{leaving: own(options.Requested{}), Annotations: Annotations{options: asking("orphan")}}, ref, answer{true, true}},
		"LeftNotByTheObject":  {&Placement{leaving: own(asking("delete")), Annotations: Annotations{options: asking("orphan")}}, ref, answer{false, true}},
		"WithWhatStays":       {&Placement{kept: render.Kept{web: true}, leaving: map[objref.Ref]options.Requested{web: asking("delete")}}, web, answer{true, true}},
		"AsItWasDelivered":    {&Placement{leaving: map[objref.Ref]options.Requested{web: {}}}, web, answer{false, false}},
		"NamespaceDeleted":    {&Placement{leaving: map[objref.Ref]options.Requested{web: asking("delete")}}, web, answer{false, true}},
		"NotForTheCluster":    {&Placement{Objects: map[objref.Ref]plan.Object{ref: {Known: true, Options: plan.Options{Orphan: true}}}}, ref, answer{true, true}},
		"UnreadForTheCluster": {&Placement{Objects: map[objref.Ref]plan.Object{ref: {}}}, ref, answer{false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			var got answer
			got.Orphan, got.Known = tc.p.Orphans(tc.ref)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// holding are mailboxes that hold these objects.
type holding map[objref.Ref]struct{}

func (h holding) Delivered(types.UID) (map[objref.Ref]struct{}, bool) { return h, true }
func (h holding) Lacking(*Placement) map[objref.Ref]bool              { return nil }

// TestLastRequest: what an object asks for last counts when it leaves, also if it is deleted or no
// longer listed before that was read; and it is forgotten when no work has the object any more.
func TestLastRequest(t *testing.T) {
	s1, s2 := serviceRef("s1"), serviceRef("s2")
	keep := annotated(controlv1alpha1.AnnotationOnRemoval, "orphan")
	unlist := func(t *testing.T, g *gathering) {
		t.Helper()
		b, err := g.index.Binding("b")
		if err != nil {
			t.Fatal(err)
		}
		b = b.DeepCopy()
		b.Generation++
		b.Spec.Workload.NamespaceScope = b.Spec.Workload.NamespaceScope[:1]
		if err := g.index.bindings.Update(b); err != nil {
			t.Fatal(err)
		}
		g.enqueue("b", "")
	}
	for name, tc := range map[string]struct {
		change func(*testing.T, *gathering)
		want   bool
	}{
		"NothingSaid": {func(t *testing.T, g *gathering) { unlist(t, g) }, false},
		"AndNotListedAnyMore": {func(t *testing.T, g *gathering) {
			g.write(t, "s1", "2", keep)
			unlist(t, g)
		}, true},
		"AndDeleted": {func(t *testing.T, g *gathering) {
			g.write(t, "s1", "2", keep)
			g.objects.part(s1, g.watch.objects[s1])
			g.remove(t, "s1")
			g.sync(t) // the Binding still lists it
			unlist(t, g)
		}, true},
		"AndDeletedAtOnce": {func(t *testing.T, g *gathering) {
			g.write(t, "s1", "2", keep)
			g.objects.part(s1, g.watch.objects[s1])
			g.remove(t, "s1")
			unlist(t, g)
		}, true},
		"ReadBeforeAndTakenBack": {func(t *testing.T, g *gathering) {
			g.write(t, "s1", "2", keep)
			g.sync(t)
			g.write(t, "s1", "3", annotated(controlv1alpha1.AnnotationOnRemoval, "delete"))
			unlist(t, g)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGathering(t, 3)
			works := holding{s1: {}, s2: {}}
			g.config.Mailboxes = works
			tc.change(t, g)
			g.sync(t)
			if orphan, known := g.index.Get("b").Orphans(s1); orphan != tc.want || !known {
				t.Errorf("orphan %t, known %t, want %t", orphan, known, tc.want)
			}
			g.enqueue("b", "")
			g.sync(t)
			if orphan, known := g.index.Get("b").Orphans(s1); orphan != tc.want || !known {
				t.Errorf("gathered again: orphan %t, known %t, want %t", orphan, known, tc.want)
			}
			delete(works, s1)
			g.enqueue("b", "")
			g.sync(t)
			if _, known := g.index.Get("b").Orphans(s1); known || len(g.objects.parted) > 0 {
				t.Error("something is kept of an object that no work has")
			}
		})
	}
}

// TestOrphansOfADeletedBinding: what an object asked for before it left, or was deleted, counts
// also when its Binding is deleted right after it.
func TestOrphansOfADeletedBinding(t *testing.T) {
	ref := serviceRef("s1")
	keep := annotated(controlv1alpha1.AnnotationOnRemoval, "orphan")
	for name, leaves := range map[string]func(t *testing.T, g *gathering, b *controlv1alpha1.Binding){
		"NotListedAnyMore": func(t *testing.T, g *gathering, b *controlv1alpha1.Binding) {
			t.Helper()
			g.write(t, "s1", "2", keep)
			g.sync(t)
			b.Generation++
			b.Spec.Workload.NamespaceScope = b.Spec.Workload.NamespaceScope[:1]
			if err := g.index.bindings.Update(b); err != nil {
				t.Fatal(err)
			}
			g.enqueue("b", "")
			g.sync(t)
		},
		"Deleted": func(t *testing.T, g *gathering, _ *controlv1alpha1.Binding) {
			t.Helper()
			g.write(t, "s1", "2", keep)
			g.objects.part(ref, g.watch.objects[ref])
			g.remove(t, "s1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGathering(t, 3)
			g.config.Mailboxes = holding{ref: {}, serviceRef("s2"): {}}
			g.sync(t)
			b, _ := g.index.Binding("b")
			leaves(t, g, b.DeepCopy())
			b, _ = g.index.Binding("b")
			b = b.DeepCopy()
			b.DeletionTimestamp, b.Finalizers = new(metav1.Now()), []string{controlv1alpha1.BindingFinalizer}
			if err := g.index.bindings.Update(b); err != nil {
				t.Fatal(err)
			}
			g.enqueue("b", "")
			g.sync(t)
			p := g.index.Get("b")
			if orphan, known := p.Orphans(ref); !p.Deleting || !orphan || !known {
				t.Errorf("being deleted %t; orphan %t, known %t", p.Deleting, orphan, known)
			}
		})
	}
}

// TestLateWatch: an object got the option to stay and was deleted, or left the Binding, and the
// watch has not shown that yet when the Binding shows what came afterwards. Nothing leaves before
// it has.
func TestLateWatch(t *testing.T) {
	ref := serviceRef("s1")
	keep := annotated(controlv1alpha1.AnnotationOnRemoval, "orphan")
	leave := func(t *testing.T, g *gathering, change func(*controlv1alpha1.Binding)) {
		t.Helper()
		b, _ := g.index.Binding("b")
		b = b.DeepCopy()
		b.Generation++
		change(b)
		if err := g.index.bindings.Update(b); err != nil {
			t.Fatal(err)
		}
		g.enqueue("b", "")
	}
	unlist := func(b *controlv1alpha1.Binding) {
		b.Spec.Workload.NamespaceScope = b.Spec.Workload.NamespaceScope[:1]
	}
	remove := func(b *controlv1alpha1.Binding) {
		b.DeletionTimestamp, b.Finalizers = new(metav1.Now()), []string{controlv1alpha1.BindingFinalizer}
	}
	for name, tc := range map[string]struct {
		deleted bool // the object, too
		objects int
		change  func(*controlv1alpha1.Binding)
	}{
		"Unlisted":               {false, 3, unlist},
		"DeletedAndUnlisted":     {true, 3, unlist},
		"BindingDeleted":         {false, 3, remove},
		"BothDeleted":            {true, 3, remove},
		"BothDeletedOfManyOther": {true, pageSize + 1, remove},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGathering(t, tc.objects)
			works := holding{}
			for i := range tc.objects {
				works[serviceRef(fmt.Sprint("s", i))] = struct{}{}
			}
			g.config.Mailboxes = works
			g.sync(t)
			shown := g.watch.objects[ref]
			g.write(t, "s1", "2", keep)
			last := g.watch.objects[ref]
			if tc.deleted {
				g.remove(t, "s1")
			}
			g.watch.objects[ref] = shown
			before := g.index.Get("b")
			leave(t, g, tc.change)
			if result, err := g.Sync(t.Context(), "b"); err != nil || result.After == 0 || g.index.Get("b") != before {
				t.Fatalf("the watch is late: %+v, %v, decided %t", result, err, g.index.Get("b") != before)
			}

			g.watch.objects[ref] = last
			if tc.deleted {
				g.objects.part(ref, last)
				delete(g.watch.objects, ref)
			}
			g.enqueue("b", "")
			g.sync(t)
			if orphan, known := g.index.Get("b").Orphans(ref); !orphan || !known {
				t.Errorf("orphan %t, known %t", orphan, known)
			}
		})
	}
}
