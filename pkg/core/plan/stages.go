package plan

import (
	"fmt"
	"slices"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// How fields are left alone. docs/design/0026-ignored-fields.md has the table.
//
//   - Create: the usual manager applies everything, and takes nothing from others.
//   - Keep: for each ignored field of the object in turn, a manager of its own applies this field
//     with the same value. If the cluster refuses that, another manager has changed the field.
//   - Settled: the usual manager applies everything but the ignored fields, with the usual force.
//     Nobody's value of them changes, since somebody else owns each.
//   - Drop, for fields that are not ignored any more: the usual manager applies them, and then
//     their own managers apply nothing.
//
// So an object to which the option comes starts with Keep. One that the cluster has re-created
// starts with Create, because the copy lacks the ignored fields.

// staging decides on the next manifest of one object.
type staging struct {
	// target is the object as the usual manager applies it in the end.
	target *Object
	// whole is the object with the ignored fields.
	whole   *transform.Object
	ignored []string
	// item is what a work has of the object, nil if none has.
	item *Item
}

// stages replaces the objects that have ignored fields, or had, by their next manifests.
func (b *builder) stages() {
	items := map[int]*Item(nil)
	for _, item := range Items(b.works) {
		i, ok := b.desired.index[item.Ref]
		if !ok || b.desired.objects[i].Whole == nil && !item.Stage.Begun {
			continue
		}
		if before := items[i]; before == nil || before.Withdrawn {
			if items == nil {
				items = map[int]*Item{}
			}
			items[i] = item
		}
	}
	if len(items) == 0 && !slices.ContainsFunc(b.desired.objects, func(o Object) bool { return o.Whole != nil }) {
		return
	}
	b.targets = b.desired
	b.desired = b.desired.With(func(o *Object) {
		item := items[b.targets.index[o.Ref]]
		if !o.Known || o.CreateOnly || o.Update || o.Whole == nil && item == nil {
			return
		}
		*o = b.staged(o, item)
	})
}

// Ignoring returns the object such that clusters leave its ignored fields alone. The error says of
// which fields they cannot.
func (o Object) Ignoring() (Object, error) {
	ignored := lines(o.IgnoredFields)
	if len(ignored) == 0 || !o.Known {
		return o, nil
	}
	for _, path := range ignored {
		if _, err := o.Leaves([]string{path}); err != nil {
			return o, fmt.Errorf("%s cannot be ignored, because it %w: a cluster cannot apply an element without its required fields. "+
				"Remove the path from the annotation %s, or set %s to create-only", path, err,
				controlv1alpha1.AnnotationIgnoreFields, controlv1alpha1.AnnotationApply)
		}
	}
	rest, err := o.Without(ignored)
	if err != nil {
		return o, err
	}
	whole := o.Object
	o.Object, o.Whole = rest, &whole
	return o, nil
}

// staged returns the next manifest of an object.
func (b *builder) staged(target *Object, item *Item) Object {
	s := staging{target: target, whole: target.Whole, item: item}
	if s.whole == nil {
		s.whole = &target.Object
	} else {
		s.ignored = lines(target.IgnoredFields)
	}
	if item != nil && item.State == Silent {
		return Object{Object: *s.whole, Known: true, Options: target.Options} // no cluster reports on steps
	}
	var stage Stage
	if s.fresh() {
		stage = s.begin(b.now.Owners[target.Ref])
	} else {
		stage = s.next()
	}
	next, err := s.manifest(stage)
	if err != nil {
		return Object{Object: target.Object, Options: target.Options} // what we encoded can be decoded
	}
	if item != nil && next.Size() > b.desired.limits.Bytes {
		next.IgnoredFields, next.Stage = item.IgnoredFields, item.Stage // the content stays
	}
	return next
}

// unstage makes the objects that are only claimed what they are to be in the end.
func (b *builder) unstage() {
	if b.targets == nil {
		return
	}
	for i := range b.claims {
		b.desired.objects[i] = b.targets.objects[i]
	}
}

// fresh reports whether no work applies the object server-side.
func (s *staging) fresh() bool {
	return s.item == nil || s.item.Withdrawn || s.item.Observe || s.item.CreateOnly || s.item.Update
}

// begin returns the first stage of an object that no work of the Binding applies. If another work
// has it already without its ignored fields, so does this one.
func (s *staging) begin(owners []Owner) Stage {
	if len(s.ignored) == 0 {
		return Stage{}
	}
	for i := range owners {
		o := &owners[i]
		if o.Work == nil || !o.Delivers() {
			continue
		}
		if is := o.Item.Stage; is.Begun && is.By == "" && is.Left == paths(s.ignored) {
			return Stage{Begun: true, Left: is.Left, Held: is.Held, UID: is.UID}
		}
	}
	return s.create()
}

// create returns the first stage of an object that the cluster does not have, or has without the
// ignored fields.
func (s *staging) create() Stage {
	if len(s.leaves(nil)) == 0 {
		return Stage{Begun: true, Left: paths(s.ignored)} // there is nothing to hold
	}
	return Stage{Begun: true}
}

// next returns the stage that follows from what the cluster reported of the item.
func (s *staging) next() Stage {
	is, item := s.item.Stage, s.item
	recreated := is.UID != "" && item.UID != "" && is.UID != item.UID
	gone := item.State == Failed && item.Missing && is.Begun && !(is.By == "" && is.Left != item.IgnoredFields)
	switch {
	case (recreated || gone) && len(s.ignored) == 0:
		return Stage{}
	case recreated || gone:
		return s.create()
	case is.By == "":
		return s.afterUsual(is)
	case is.Dropping:
		return s.afterDrop(is)
	}
	return s.afterKeep(is)
}

// afterUsual follows a manifest that the usual manager applies.
func (s *staging) afterUsual(is Stage) Stage {
	is = Stage{Begun: true, Left: is.Left, Held: is.Held, Again: is.Again, Refused: is.Refused, UID: is.UID}
	left := lines(is.Left)
	if back := s.retaken(is); back.Left != is.Left {
		if len(s.ignored) == 0 && is.Held == "" {
			return Stage{}
		}
		return back
	}
	content, err := s.usual(left)
	same := err == nil && s.item.Hash == content.Hash
	drop := s.toDrop(is)
	switch all := paths(s.ignored); {
	case drop != "" && same && s.item.State == Applied:
		return Stage{Begun: true, Left: is.Left, Held: is.Held, By: drop, Dropping: true}
	case len(s.ignored) == 0 && drop != "":
		return is
	case len(s.ignored) == 0:
		return Stage{}
	case s.item.Stage.Begun && is.Left == all:
		if is.UID == "" && len(s.leaves(nil)) > 0 {
			is.UID = s.item.UID
		}
		is.Again, is.Refused = false, ""
		return is
	case is.Refused != "" && same && s.item.IgnoredFields == all:
		return is
	}
	is.Refused, is.UID = "", ""
	if same && (s.item.State == Applied || s.item.Passed()) {
		return s.keep(is, "")
	}
	return is
}

// retaken returns a stage in which the usual manager applies what is not ignored any more, by
// force: that is applied like everything else from then on.
func (s *staging) retaken(is Stage) Stage {
	left := slices.DeleteFunc(lines(is.Left), func(path string) bool { return !slices.Contains(s.ignored, path) })
	if paths(left) == is.Left {
		return is
	}
	is.Left, is.Refused = paths(left), ""
	if is.Left != paths(s.ignored) {
		is.Again, is.UID = true, ""
	}
	return is
}

// keep returns the stage in which the next field after one gets a manager of its own. If there is
// none, all are settled.
func (s *staging) keep(is Stage, after string) Stage {
	for _, leaf := range s.leaves(lines(is.Left)) {
		if leaf > after {
			return Stage{Begun: true, Left: is.Left, Held: is.Held, By: leaf, Again: is.Again, Values: s.values(lines(is.Left))}
		}
	}
	return Stage{Begun: true, Left: paths(s.ignored), Held: is.Held, UID: s.item.UID}
}

// afterKeep follows a manifest that the manager of one field applies.
func (s *staging) afterKeep(is Stage) Stage {
	others, ours := s.item.conflicts()
	held := is
	held.Held = paths(append(lines(is.Held), is.By))
	switch {
	case s.item.IgnoredFields != paths(s.ignored) || is.Values != s.values(lines(is.Left)):
		// Other fields are ignored now, or have other values: the usual manager must own them all
		// before they get managers of their own.
		return s.retaken(Stage{Begun: true, Left: is.Left, Held: held.Held})
	case ours && is.Again:
		return Stage{Begun: true, Left: is.Left, Held: is.Held, Again: true, Refused: paths(s.rest(lines(is.Left)))}
	case ours:
		return Stage{Begun: true, Left: is.Left, Held: is.Held, Again: true}
	case s.item.State != Applied && !others:
		return is
	case s.item.UID == "" && !s.item.Unreadable:
		return is // which object it is follows at once
	case others:
		held = is // nothing was applied
	}
	return s.keep(held, is.By)
}

// afterDrop follows a manifest by which the manager of one field gives it up.
func (s *staging) afterDrop(is Stage) Stage {
	usual := Stage{Begun: true, Left: is.Left, Held: is.Held}
	switch {
	case slices.ContainsFunc(s.ignored, func(path string) bool { return transform.Covers(path, is.By) }):
		return s.retaken(usual) // it is ignored again
	case s.item.State != Applied:
		return is
	}
	usual.Held = paths(slices.DeleteFunc(lines(is.Held), func(leaf string) bool { return leaf == is.By }))
	switch drop := s.toDrop(usual); {
	case drop != "":
		usual.By, usual.Dropping = drop, true
	case len(s.ignored) == 0:
		return Stage{}
	case usual.Left == paths(s.ignored):
		usual.UID = s.item.UID
	}
	return usual
}

// toDrop returns a field that has a manager of its own and is not ignored any more, "" if there is
// none.
func (s *staging) toDrop(is Stage) string {
	for _, leaf := range lines(is.Held) {
		if !slices.ContainsFunc(s.ignored, func(path string) bool { return transform.Covers(path, leaf) }) {
			return leaf
		}
	}
	return ""
}

// rest returns the ignored paths that are not left out.
func (s *staging) rest(left []string) []string {
	return slices.DeleteFunc(slices.Clone(s.ignored), func(path string) bool { return slices.Contains(left, path) })
}

// leaves returns the fields of the object that are ignored and not left out.
func (s *staging) leaves(left []string) []string {
	leaves, err := s.whole.Leaves(s.rest(left))
	if err != nil {
		return nil // Object.Ignore returns such an error
	}
	return leaves
}

// values returns a hash of the ignored fields of the object that are not left out.
func (s *staging) values(left []string) transform.Hash {
	only, err := s.whole.Only(s.leaves(left)...)
	if err != nil {
		return transform.Hash{} // what we encoded can be decoded
	}
	return only.Hash
}

// usual returns what the usual manager applies.
func (s *staging) usual(left []string) (transform.Object, error) {
	switch paths(left) {
	case "":
		return *s.whole, nil
	case paths(s.ignored):
		return s.target.Object, nil
	}
	return s.whole.Without(left)
}

// manifest returns the object as it is in a work at a stage.
func (s *staging) manifest(stage Stage) (Object, error) {
	content, err := transform.Object{}, error(nil)
	switch {
	case stage.Dropping:
		content, err = s.whole.Only()
	case stage.By != "":
		content, err = s.whole.Only(stage.By)
	default:
		content, err = s.usual(lines(stage.Left))
	}
	stage.Target = transform.Hash{}
	if content.Hash != s.target.Hash {
		stage.Target = s.target.Content()
		content.Bare = stage.Target
	}
	next := Object{Object: content, Known: true, Options: s.target.Options}
	if next.Stage = stage; !stage.Begun {
		next.Stage = Stage{}
	}
	return next, err
}
