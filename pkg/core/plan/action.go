package plan

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// Verb is what an Action does to a work.
type Verb string

// Verbs.
const (
	// Create creates the work with the objects of After.
	Create Verb = "create"
	// Patch makes Changes to the objects in the work, and rewrites the Rest of the spec.
	Patch Verb = "patch"
	// Delete deletes the work.
	Delete Verb = "delete"
	// Nudge makes the destination apply the work again at once.
	Nudge Verb = "nudge"
)

// Reasons of Actions, for metrics and traces.
const (
	ReasonPlace  = "place"  // objects come
	ReasonEdit   = "edit"   // the content of objects changed
	ReasonRemove = "remove" // objects go
	ReasonMove   = "move"   // objects leave a work for another one
	ReasonRepair = "repair" // another writer edited the work
	ReasonRetry  = "retry"  // the destination failed for a reason that passes
	ReasonRetire = "retire" // a work that was restored from a backup is not needed any more
)

// Action is one write to one work.
type Action struct {
	Verb    Verb
	Reason  string
	Mailbox string
	Name    string
	Wave    int

	// UID is that of the work that was planned on, unless it is to be created: a write to another
	// one must fail. Generation and Recorded are those of its spec: a Patch must fail if they no
	// longer hold, since positions are those of that spec.
	UID        types.UID
	Generation int64
	Recorded   transform.Hash
	// ResourceVersion, if not empty, is that of the work that was planned on: the write must fail
	// if it no longer holds, since something leaves that the destination may have begun since.
	ResourceVersion string

	// Changes are made one after the other; each position is that after the changes before it.
	Changes []Change
	// Rest: what the spec says beside the objects is written as well.
	Rest bool
	// Claims: which of the objects are claims is written as well.
	Claims bool
	// Unproven: what the destination reported before this write no longer proves that it keeps
	// account of an object.
	Unproven bool
	// After is what the work holds afterwards, in order.
	After []Entry
	// Left is the Work.Left of a Patch that removes objects.
	Left Left
	// Nudges is the count of nudges that a Nudge writes.
	Nudges int
}

// Op is what a Change does.
type Op byte

// Ops.
const (
	OpReplace Op = '~'
	OpRemove  Op = '-'
	OpInsert  Op = '+'
)

// Change changes one object in a work.
type Change struct {
	Op Op
	// At is the position of the object.
	At int
	// Ref is the object.
	Ref objref.Ref
	// Object is the new content, nil with OpRemove.
	Object *Object
}

// Entry is an object in a work after an Action.
type Entry struct {
	Ref  objref.Ref
	Kind string
	Hash transform.Hash
	Size int
	Options
	// Withdrawn: the entry has no content of the object.
	Withdrawn bool
	// Object is the content if the Action creates the work, nil otherwise.
	Object *Object
}

// Claim reports whether the work only claims the object: another owner delivers it.
func (e *Entry) Claim() bool { return e.Observe && !e.Withdrawn }

// String returns what the action does on one line: identities and positions, never content.
func (a *Action) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s/%s (%s)", a.Verb, a.Mailbox, a.Name, a.Reason)
	sep := ": "
	add := func(format string, args ...any) {
		b.WriteString(sep)
		sep = ", "
		fmt.Fprintf(&b, format, args...)
	}
	switch a.Verb {
	case Create:
		for i := range a.After {
			add("+%s%s", a.After[i].Ref, flags(&a.After[i]))
		}
	case Patch:
		for _, c := range a.Changes {
			add("%c[%d] %s", c.Op, c.At, c.Ref)
		}
		if a.Rest {
			add("rest")
		}
		if a.Claims {
			add("claims")
		}
	case Delete, Nudge:
	}
	return b.String()
}

func flags(e *Entry) string {
	var s strings.Builder
	for _, flag := range []struct {
		set  bool
		name string
	}{
		{e.CreateOnly, "createOnly"},
		{e.NoForce, "noForce"},
		{e.IgnoredFields != "", "ignore(" + strings.ReplaceAll(e.IgnoredFields, "\n", " ") + ")"},
		{e.Stage.Begun, "stage" + e.StageText()},
		{e.Update, "update"},
		{e.Orphan, "orphan"},
		{e.Observe, "observe"},
	} {
		if flag.set {
			s.WriteString(" " + flag.name)
		}
	}
	return s.String()
}
