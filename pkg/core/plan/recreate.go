package plan

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// An object that was deleted in the WDS and created again under its name is another one, and a
// cluster may have the former one still: it was away, or both changes came to its mailbox as one.
// docs/design/0028-identity.md has the decision.
//
//   - Update: the new object is applied over the former one, as an edit is. While the cluster has
//     not accepted that, the work says what it had before (Stage.Former).
//   - Wait: if the cluster refuses that because a field cannot be changed, and always if the object
//     runs once, the former one has to go. A manifest in another work, which only reads the object,
//     waits for that. Then the object leaves its work, and the cluster deletes it.
//   - Create: when the cluster has reported that there is no such object, that manifest gets the
//     content of the new one.
//
// All Bindings of a source that list the object, or listed the former one, have to do so: each
// waits until no work of the others may have the former one, or until one of them has the new one
// in the cluster (Current.Siblings).
//
// Nothing is deleted on a guess: the UID of the former object is in what was delivered, and that of
// the new one in what is desired.

// runOnce are kinds of objects that do their work once: that of the former object is not that of
// the new one.
var runOnce = []schema.GroupResource{{Group: "batch", Resource: "jobs"}, {Resource: "pods"}}

func runsOnce(ref objref.Ref) bool { return slices.Contains(runOnce, ref.GroupResource()) }

// withData are kinds that take data, or other objects, with them when they are deleted. That is
// left to users.
var withData = []schema.GroupResource{namespaces, definitions, {Resource: "persistentvolumes"}, {Resource: "persistentvolumeclaims"}}

// TakesOthers reports whether the deletion of the object in a cluster takes data or other objects
// with it.
func TakesOthers(ref objref.Ref) bool { return slices.Contains(withData, ref.GroupResource()) }

// Awaited reports whether the item only waits until the cluster has no such object any more.
func (i *Item) Awaited() bool { return i.Observe && i.Stage.Former != "" }

// KeepsFormer reports whether the cluster has the former object for which an item waits, and none
// of the works may have it: nobody deletes that one for a work.
func (i *Item) KeepsFormer(works []*Work) bool {
	return i.Awaited() && i.State == Applied && i.UID != "" && !slices.ContainsFunc(works, func(w *Work) bool {
		if item := w.item(i.Ref); item != nil {
			return !item.Awaited() && !item.Claim()
		}
		_, may := w.Lost(i.Ref)
		return may
	})
}

// had returns the UID of the object in the WDS that the cluster has a copy of, as far as is known.
func (i *Item) had() types.UID { return cmp.Or(i.Stage.Former, i.Source) }

// recreation says how an object that was re-created in the WDS follows its former one.
type recreation struct {
	// former is the UID of the former object; empty if it does not matter any more.
	former types.UID
	// waits: the former object has to go first. Placed: a work says so.
	waits, placed bool
	// orphan: the former one is not deleted for that. Later: it has to be released before a work
	// says that the new one waits, since it can be applied until then, and nobody would notice.
	// Kept: the cluster has it, for no work.
	orphan, later, kept bool
}

// recreations replaces the objects that were re-created in the WDS by their next manifests.
func (b *builder) recreations() {
	var all map[int]recreation
	consider := func(ref objref.Ref, source types.UID, stage *Stage) {
		i, ok := b.desired.index[ref]
		if !ok || !b.desired.objects[i].isOther(source, stage) {
			return
		}
		if r := b.recreation(i); r.former != "" {
			if all == nil {
				all = map[int]recreation{}
			}
			all[i] = r
		}
	}
	for _, works := range [...][]*Work{b.all, b.now.Siblings} {
		for _, work := range works {
			for i := range work.Items {
				consider(work.Items[i].Ref, work.Items[i].Source, &work.Items[i].Stage)
			}
			if len(work.Left) == 0 {
				continue
			}
			for i := range b.desired.objects {
				if source, may := work.Lost(b.desired.objects[i].Ref); may {
					consider(b.desired.objects[i].Ref, source, &Stage{})
				}
			}
		}
	}
	if all == nil {
		return
	}
	index := b.desired.index
	b.desired = b.desired.With(func(o *Object) {
		switch r := all[index[o.Ref]]; {
		case r.former == "":
		case r.waits:
			if nothing, err := transform.Withdrawn(o.Ref, o.Kind, ""); err == nil { // it has strings only
				*o = Object{Object: nothing, Known: true, Options: Options{Observe: true, Stage: Stage{Begun: true, Former: r.former}}}
			}
		default:
			o.Stage.Begun, o.Stage.Former = true, r.former
		}
	})
	b.awaited = map[int]recreation{}
	for i, r := range all {
		if r.waits {
			b.awaited[i] = r
		}
		if r.waits && !r.later { // or the text is about the release
			b.plan.Leaving = append(b.plan.Leaving, HandOver{Ref: b.desired.objects[i].Ref, Former: true, Kept: r.kept || r.orphan})
		}
	}
}

// isOther reports whether what a cluster has, or had not long ago, is another object of the WDS.
func (o *Object) isOther(source types.UID, stage *Stage) bool {
	return o.Known && o.Source.UID != "" && (source != "" && source != o.Source.UID || stage.Former != "")
}

// traces is what works say of an object that was re-created.
type traces struct {
	// waits is the item of the Binding that waits until the former object is gone, delivered the
	// one that has the content of an object; nil if there is none.
	waits, delivered *Item
	// left is the UID of a former object in a work, or that left one: the cluster may still have
	// it.
	left types.UID
	// works counts those of the Binding from which the cluster may have an object, without that of
	// waits; others counts those of other Bindings.
	works, others int
	// awaited is the UID of the former object for whose end another Binding waits. Arrived: the
	// cluster has the new object from the work of another Binding.
	awaited types.UID
	arrived bool
}

func (b *builder) tracesOf(object *Object) (t traces) {
	for _, work := range b.all {
		item := work.item(object.Ref)
		switch {
		case item == nil:
			if source, may := work.Lost(object.Ref); may {
				t.works++
				t.leaves(source, object)
			}
			continue
		case item.Awaited() && !work.Deleting:
			t.waits = item
			continue
		case item.Withdrawn || work.Deleting:
			t.leaves(item.Source, object)
		case t.delivered == nil || item.Source == object.Source.UID: // one that moves is in two
			t.delivered = item
		}
		t.works++
	}
	for _, work := range b.now.Siblings {
		t.ofSibling(work, object)
	}
	return t
}

// ofSibling adds what a work of another Binding says.
func (t *traces) ofSibling(work *Work, object *Object) {
	source, may := work.Lost(object.Ref)
	switch item := work.item(object.Ref); {
	case item == nil && !may, item != nil && (item.State == Silent || item.Claim()):
		return
	case item == nil:
		t.leaves(source, object)
	case item.Awaited():
		if !work.Deleting {
			t.awaited = item.Stage.Former
		}
		return
	case item.Withdrawn || work.Deleting || item.Source != object.Source.UID:
		t.leaves(item.Source, object)
	case item.State == Applied:
		t.arrived = true
	default:
		t.leaves(item.Stage.Former, object)
	}
	t.others++
}

func (t *traces) leaves(source types.UID, object *Object) {
	if source != "" && source != object.Source.UID {
		t.left = source
	}
}

// item returns the object's first item, nil if there is none.
func (w *Work) item(ref objref.Ref) *Item {
	for i := range w.Items {
		if w.Items[i].Ref == ref {
			return &w.Items[i]
		}
	}
	return nil
}

// HasSiblings reports whether it matters to an object what the works of other Bindings of its
// source have of it (Current.Siblings), since the Binding itself has that item.
func (o *Object) HasSiblings(item *Item) bool {
	return o.Orphan && !item.Orphan || o.isOther(item.Source, &item.Stage) || item.State == Failed && item.Immutable
}

// recreation decides about an object that was re-created in the WDS.
func (b *builder) recreation(i int) recreation {
	object := &b.desired.objects[i]
	if b.now.Unattended || b.now.Hold.Holds(object.Ref) || contested(b.now.Owners[object.Ref]) {
		return recreation{}
	}
	t := b.tracesOf(object)
	has := t.delivered
	delivered := has != nil && has.Source == object.Source.UID
	refused := delivered && has.State == Failed && has.Immutable
	switch {
	case t.arrived, t.waits != nil && delivered && !refused && (has.State == Applied || has.Stage.Former == ""):
		return recreation{} // what waits is left over
	case t.waits != nil && t.waits.State == Applied && t.waits.Missing && t.works+t.others == 0:
		return recreation{}
	case t.waits != nil:
		b.plan.Postponed = b.plan.Postponed || t.others > 0 || t.awaited != "" // nobody is notified of the works of another Binding
		return recreation{
			former: t.waits.Stage.Former, waits: true, placed: true, orphan: object.Orphan,
			kept: t.waits.KeepsFormer(b.all) && t.others == 0,
		}
	case TakesOthers(object.Ref) || has != nil && (has.Observe || has.State == Silent):
		return recreation{}
	}
	orphan := object.Orphan || has != nil && has.Orphan
	if orphan && (delivered || !runsOnce(object.Ref)) {
		return recreation{} // it is the same object, for the cluster
	}
	former := cmp.Or(t.left, t.awaited)
	switch {
	case refused:
		former = cmp.Or(has.Stage.Former, former)
	case delivered:
		former = has.Stage.Former
	case has != nil:
		former = has.Source
	}
	switch once := runsOnce(object.Ref); {
	case !delivered && (once || t.awaited != ""), refused:
		return recreation{former: former, waits: true, orphan: orphan, later: orphan && has != nil && !released(has)}
	case once, object.CreateOnly, delivered && has.State == Applied:
		return recreation{}
	}
	return recreation{former: former}
}

// goes reports whether the item goes so that the object can be created again: another one waits for
// that.
func (b *builder) goes(i int, item *Item) bool {
	_, waits := b.awaited[i]
	return waits && !item.Awaited()
}

// IsImmutable reports whether a cluster refused a change of a field, or of an object, that cannot
// be changed. API servers have no code for it: these are their texts.
func IsImmutable(message string) bool {
	if denied(message) {
		return false // the object would be deleted for a word
	}
	for _, reason := range []string{
		"immutable", "updates to ", "updates may not change fields", "cannot change roleRef", "may not change once set", "may not be changed",
	} {
		if strings.Contains(message, reason) {
			return true
		}
	}
	return false
}
