package placement

import (
	"fmt"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/render"
)

// listed are objects that Bindings list, and what was found of them.
type listed struct {
	entries  []entry
	findings []finding
}

// scope returns the Scope of a Binding with these annotations that lists these objects, and of
// which these are kept.
func (a *Annotations) scope(kept render.Kept, of ...listed) *render.Scope {
	scope := render.NewScope(a.options, kept)
	for _, l := range of {
		for i := range l.entries {
			f := &l.findings[i]
			seen := f.autoscaler
			if f.manifest != nil {
				seen = &f.manifest.Object
			}
			scope.Add(l.entries[i].ref, seen, f.manifest != nil && !a.optionsInvalid)
		}
	}
	return scope
}

// carry returns the objects of a Binding as it carries them, beside these autoscalers, and if these
// are kept. Where the options are not known, the content is marked as not known either: then the
// object and its options stay as they were delivered. It returns the texts for the user about
// objects that wait for others.
func carry(own, beside listed, kept render.Kept, a *Annotations) (objects []plan.Object, problems []string) {
	scope := a.scope(kept, own, beside)
	failed := map[objref.Ref]bool{}
	for _, l := range []listed{own, beside} {
		for i := range l.entries {
			failed[l.entries[i].ref] = l.findings[i].err != nil
		}
	}
	objects = make([]plan.Object, len(own.entries))
	for i, e := range own.entries {
		object, listed := &objects[i], render.Listed{Ref: e.ref, CreateOnly: e.createOnly}
		if m := own.findings[i].manifest; m != nil {
			listed, object.Object = m.Listed(e.createOnly), m.Object
			object.Known = !a.optionsInvalid
		}
		object.Ref = e.ref
		carried, waitsFor := scope.Carry(&listed)
		object.Options = carried
		if waitsFor != nil && object.Known {
			object.Known = false
			if failed[*waitsFor] {
				problems = append(problems, fmt.Sprintf("%s: not updated, because %s may scale it and cannot be delivered; its own error says why", object.Ref, *waitsFor))
			}
		}
	}
	return objects, problems
}
