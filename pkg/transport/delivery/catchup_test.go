package delivery

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/transport/placement"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

// worksOf is a Plugin of which only Works is called.
type worksOf struct {
	plugin.Plugin

	works func() (map[types.UID]int64, error)
}

func (p worksOf) Works(context.Context) (map[types.UID]int64, error) { return p.works() }

// TestCatchUp: an ITS that does not answer is asked again, and what it has must show.
func TestCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deliverer{its: &its{store: newStore()}}
		show := func(before *plan.Work, generation int64) *plan.Work {
			after := &plan.Work{Mailbox: "edge", Name: "w", UID: "w", BindingUID: "b", Generation: generation}
			d.its.store.setWork(before, after)
			return after
		}
		work := show(nil, 1)
		reads := 0
		d.plugin = worksOf{works: func() (map[types.UID]int64, error) {
			reads++
			switch reads {
			case 1:
				return nil, errors.New("no answer")
			case 3:
				show(work, 2)
			}
			return map[types.UID]int64{"w": 2}, nil
		}}
		if err := d.catchUp(t.Context()); err != nil || reads != 3 {
			t.Errorf("error %v after %d reads, want 3", err, reads)
		}
	})
}

// TestLacking: an object is confirmed only if all works that have it have that content, and all
// ITSes have reported theirs.
func TestLacking(t *testing.T) {
	ref := func(name string) objref.Ref { return objref.Ref{Resource: "configmaps", Namespace: "n", Name: name} }
	object := func(name, content string) plan.Object {
		return plan.Object{Object: transform.Object{Ref: ref(name), Hash: transform.Hash{content[0]}}, Known: true}
	}
	item := func(name, content string) plan.Item {
		return plan.Item{Ref: ref(name), Hash: transform.Hash{content[0]}}
	}
	p := &placement.Placement{UID: "b", Objects: map[objref.Ref]plan.Object{}}
	for _, name := range []string{"same", "differs", "one-differs", "new", "withdrawn"} {
		p.Objects[ref(name)] = object(name, "x")
	}
	one, two := &its{store: newStore()}, &its{store: newStore()}
	withdrawn := item("withdrawn", "x")
	withdrawn.Withdrawn = true
	one.store.setWork(nil, &plan.Work{Mailbox: "a", Name: "w", BindingUID: "b", Items: []plan.Item{
		item("same", "x"), item("differs", "y"), item("one-differs", "x"), withdrawn, item("not-listed", "z"),
	}})
	two.store.setWork(nil, &plan.Work{Mailbox: "b", Name: "w", BindingUID: "b", Items: []plan.Item{item("same", "x"), item("one-differs", "y")}})
	f := fleet{one, two}
	one.store.synced.Store(true)
	if got := f.lacking(p); len(got) != len(p.Objects) {
		t.Errorf("while an ITS is not known: %v", got)
	}
	two.store.synced.Store(true)
	got := f.lacking(p)
	for _, name := range []string{"differs", "one-differs", "new", "withdrawn"} {
		if !got[ref(name)] {
			t.Errorf("%s is confirmed", name)
		}
	}
	if len(got) != 4 {
		t.Errorf("lacking: %v", got)
	}
}
