package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// TestOrphanAfterRetiring: what a restored work has is to be orphaned only when that work is gone,
// or the cluster would delete it with that work.
func TestOrphanAfterRetiring(t *testing.T) {
	ref := objref.Ref{Resource: "configmaps", Namespace: "n", Name: "a"}
	desired := NewDesired([]Object{{
		Object: transform.Object{Ref: ref, Hash: transform.HashOf([]byte("a"))}, Known: true, Options: Options{Orphan: true},
	}}, packing.Limits{Count: 10, Bytes: 1 << 20})
	now := Current{Mailbox: "c", Prefix: "u", Restored: []*Work{{Mailbox: "c", Name: "u-1-0", UID: "1", Restored: "r1", Wave: 1, Items: []Item{{Ref: ref}}}}}
	p := Build(desired, &now)
	if len(p.Actions) != 1 || p.Actions[0].Verb != Create || p.Actions[0].After[0].Orphan {
		t.Fatalf("beside the restored work: %+v", p.Actions)
	}
	now.Works = []*Work{{Mailbox: "c", Name: "u-r1-1-0", UID: "9", Wave: 1, Items: []Item{{Ref: ref, Hash: p.Actions[0].After[0].Hash, State: Applied, Seen: true}}}}
	p = Build(desired, &now)
	if retired := Retire(now.Restored, desired, &now, &p); len(p.Actions) > 0 || len(retired) != 1 {
		t.Errorf("when the cluster has it: %+v, and %d restored works go", p.Actions, len(retired))
	}
	now.Restored = nil
	if p = Build(desired, &now); len(p.Actions) != 1 || !p.Actions[0].After[0].Orphan {
		t.Errorf("when the restored work is gone: %+v", p.Actions)
	}
}

// TestRetire: works that were restored go when the others have everything, and the cluster has
// reported that: so nothing that is wanted leaves the cluster with them.
func TestRetire(t *testing.T) {
	a, b := objref.Ref{Resource: "configmaps", Namespace: "n", Name: "a"}, objref.Ref{Resource: "configmaps", Namespace: "n", Name: "b"}
	object := func(ref objref.Ref) Object {
		return Object{Object: transform.Object{Ref: ref, Hash: transform.HashOf([]byte(ref.Name))}, Known: true}
	}
	desired := NewDesired([]Object{object(a), object(b)}, packing.Limits{Count: 10, Bytes: 1 << 20})
	unknown := NewDesired([]Object{object(a), {Object: transform.Object{Ref: b}}}, packing.Limits{Count: 10, Bytes: 1 << 20})
	restored := []*Work{
		{Mailbox: "c", Name: "u-1-1", UID: "2", Restored: "r1", Wave: 1},
		{Mailbox: "c", Name: "u-1-0", UID: "1", Restored: "r1", Wave: 1},
		{Mailbox: "c", Name: "u-1-2", UID: "3", Restored: "r1", Wave: 1, Deleting: true},
	}
	live := func(items ...Item) []*Work {
		return []*Work{{Mailbox: "c", Name: "u-r1-1-0", UID: "9", Wave: 1, Items: items}}
	}
	item := func(ref objref.Ref, state State) Item {
		return Item{Ref: ref, State: state, Hash: transform.HashOf([]byte(ref.Name))}
	}
	hold, err := ParseHold("secrets/x/y")
	if err != nil {
		t.Fatal(err)
	}
	all := []types.UID{"1", "2"}
	for name, c := range map[string]struct {
		restored []*Work
		desired  *Desired
		now      Current
		built    Plan
		want     []types.UID
	}{
		"all is there":               {restored, desired, Current{Works: live(item(a, Applied), item(b, Applied))}, Plan{}, all},
		"nothing was restored":       {nil, desired, Current{Works: live(item(a, Applied), item(b, Applied))}, Plan{}, nil},
		"of a place without reports": {restored, desired, Current{Works: live(item(a, Silent), item(b, Silent))}, Plan{}, all},
		"one is not reported":        {restored, desired, Current{Works: live(item(a, Applied), item(b, Pending))}, Plan{}, nil},
		"one failed":                 {restored, desired, Current{Works: live(item(a, Applied), item(b, Failed))}, Plan{}, nil},
		"one is not delivered":       {restored, desired, Current{Works: live(item(a, Applied))}, Plan{}, nil},
		"one twice is not both":      {restored, desired, Current{Works: live(item(a, Applied), item(a, Applied))}, Plan{}, nil},
		"one is unknown":             {restored, unknown, Current{Works: live(item(a, Applied), item(b, Applied))}, Plan{}, nil},
		"one leaves":                 {restored, desired, Current{Works: live(item(a, Applied), item(b, Applied), Item{Ref: b, State: Applied, Withdrawn: true})}, Plan{}, nil},
		"something is to be done":    {restored, desired, Current{Works: live(item(a, Applied), item(b, Applied))}, Plan{Actions: []Action{{}}}, nil},
		"something waits":            {restored, desired, Current{Works: live(item(a, Applied), item(b, Applied))}, Plan{Waiting: []Wait{{}}}, nil},
		"something is too large":     {restored, desired, Current{Works: live(item(a, Applied), item(b, Applied))}, Plan{TooLarge: []objref.Ref{a}}, nil},
		"something is held":          {restored, desired, Current{Works: live(item(a, Applied), item(b, Applied)), Hold: hold}, Plan{}, nil},
		"everything is held":         {restored, &Desired{}, Current{Hold: HoldAll()}, Plan{}, nil},
		"the Binding goes":           {restored, &Desired{}, Current{}, Plan{}, all},
		"the Binding goes, not yet":  {restored, &Desired{}, Current{Works: live(Item{Ref: a, State: Pending, Withdrawn: true})}, Plan{}, nil},
		"nobody is waited for":       {restored, &Desired{}, Current{Works: live(item(a, Pending)), Unattended: true}, Plan{}, all},
		"nobody is waited for, held": {restored, &Desired{}, Current{Unattended: true, Hold: HoldAll()}, Plan{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []types.UID
			for _, action := range Retire(c.restored, c.desired, &c.now, &c.built) {
				if action.Verb != Delete || action.Mailbox != "c" || action.Name == "" {
					t.Errorf("action %s", action.String())
				}
				got = append(got, action.UID)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("deleted (-want +got):\n%s", diff)
			}
		})
	}
}
