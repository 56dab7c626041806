package plan

import (
	"fmt"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// KeepFormer returns what a destination should hold such that a field that comes to be ignored
// keeps the value that was delivered before, if the object in the WDS has another one by then, or
// none: an autoscaler and the removal of spec.replicas often come in one write. Until the field has
// a manager of its own, only the work knows that value. read returns what a work has of an object.
//
// The value counts while the cluster has not refused it. Of several fields that come at once with
// other values, only the first one keeps its own, because a step has one field.
func KeepFormer(desired *Desired, works []*Work, read func(*Work, objref.Ref) (transform.Object, error)) (*Desired, error) {
	if !desired.Ignores() {
		return desired, nil
	}
	former := map[objref.Ref]*transform.Object{}
	for work, item := range Items(works) {
		o := desired.Object(item.Ref)
		if o == nil || o.Whole == nil || former[item.Ref] != nil || item.Version != o.Whole.Kind.Version {
			continue
		}
		s := staging{target: o, whole: o.Whole, ignored: lines(o.IgnoredFields), item: item}
		if !s.needsFormer() {
			continue
		}
		content, err := read(work, item.Ref)
		if err != nil {
			return nil, fmt.Errorf("read %s in work %s: %w", item.Ref, work.Name, err)
		}
		if whole, err := s.withFormer(content); err == nil { // or the former value was a list of objects
			former[item.Ref] = &whole
		}
	}
	if len(former) == 0 {
		return desired, nil
	}
	return desired.With(func(o *Object) {
		if whole := former[o.Ref]; whole != nil {
			o.Whole = whole
		}
	}), nil
}

// needsFormer reports whether the work may have other values of the ignored fields that are about
// to get managers of their own.
func (s *staging) needsFormer() bool {
	is := s.item.Stage
	left := lines(is.Left)
	switch {
	case s.fresh() || s.item.State == Silent || is.Dropping || is.Refused != "":
		return false
	case is.By != "":
		return is.Values != s.values(left)
	case is.Begun && is.Left == paths(s.ignored):
		return false // all have managers of their own
	case s.item.State == Failed && !s.item.Passed():
		return false
	}
	usual, err := s.usual(left)
	return err == nil && usual.Hash != s.item.Hash
}

// withFormer returns the whole object with the ignored fields that a work has of it, and without
// those that it has not.
func (s *staging) withFormer(content transform.Object) (transform.Object, error) {
	if s.item.Stage.By != "" {
		return s.whole.With(content) // which has the field of the step, and nothing else
	}
	rest := s.rest(lines(s.item.Stage.Left))
	leaves, err := content.Leaves(rest)
	if err != nil {
		return transform.Object{}, err
	}
	only, err := content.Only(leaves...)
	if err != nil {
		return transform.Object{}, err
	}
	without, err := s.whole.Without(rest)
	if err != nil {
		return transform.Object{}, err
	}
	return without.With(only)
}
