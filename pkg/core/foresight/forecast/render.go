package forecast

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/customtransform"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/options"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/render"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// renderer computes what is delivered of the objects of a World. Each object is rendered once, and
// its templates are expanded once for all clusters whose properties make no difference.
type renderer struct {
	world    *World
	removal  func(schema.GroupResource) *customtransform.Instructions
	common   map[objref.Ref]common
	expanded map[expansion]rendered
}

// common is what all clusters get of an object.
type common struct {
	*render.Manifest
	err error
}

type expansion struct {
	ref objref.Ref
	key customize.Key
}

// rendered is what one cluster gets of an object. With an error it keeps what it has.
type rendered struct {
	object transform.Object
	err    error
}

// newRenderer returns a renderer for a World.
func newRenderer(w *World) *renderer {
	r := &renderer{world: w, common: map[objref.Ref]common{}, expanded: map[expansion]rendered{}}
	var transforms []*controlv1alpha1.CustomTransform
	for _, ct := range w.Transforms {
		transforms = append(transforms, ct)
	}
	r.removal = customtransform.Settled(transforms)
	return r
}

// templated reports whether clusters may get different content of an object.
func templated(o *Object) bool {
	return o != nil && o.Meta.GetAnnotations()[controlv1alpha1.AnnotationExpandTemplates] == "true"
}

// manifest returns what all clusters get of an object that was read.
func (r *renderer) manifest(ref objref.Ref) (*render.Manifest, error) {
	c, known := r.common[ref]
	if !known {
		live := r.world.Objects[ref].Meta.DeepCopy()
		c.Manifest, c.err = render.Render(&render.Source{
			Ref: ref, Object: live.Object, Removal: r.removal(ref.GroupResource()), UID: live.GetUID(),
		})
		r.common[ref] = c
	}
	return c.Manifest, c.err
}

// at returns what a cluster gets of an object that was read.
func (r *renderer) at(ref objref.Ref, properties *customize.Properties) rendered {
	m, err := r.manifest(ref)
	if err != nil {
		return rendered{err: err}
	}
	if m.Template == nil || properties == nil {
		object, err := m.At(properties)
		return rendered{object, err}
	}
	key := expansion{ref, m.Template.Key(properties)}
	e, known := r.expanded[key]
	if !known {
		e.object, e.err = m.At(properties)
		r.expanded[key] = e
	}
	return e
}

// scope returns the Scope of a Binding, given all Bindings of its policy. The autoscalers are read.
func (r *renderer) scope(l *listing, of []*controlv1alpha1.Binding) *render.Scope {
	defaults, err := options.Parse(l.annotations)
	l.mistake = err
	kept := render.Kept{}
	scope := render.NewScope(defaults, kept)
	for _, b := range of {
		for e := range match.Entries(&b.Spec) {
			o := r.world.Objects[e.Ref]
			if o != nil {
				requested, _ := options.Parse(o.Meta.GetAnnotations()) // what is wrong, Render says
				kept.Add(e.Ref, requested, defaults)
			}
			switch {
			case !options.IsAutoscaler(e.Ref):
			case o == nil || !o.Read:
				scope.Add(e.Ref, nil, false)
			default:
				_, err := r.manifest(e.Ref)
				scope.Add(e.Ref, render.Autoscaler(e.Ref, o.Meta.Object), err == nil)
			}
		}
	}
	return scope
}

// carried is how Bindings carry an object to a cluster.
type carried struct {
	options plan.Options
	// why is why they do not deliver the object as it is, so that a cluster keeps what it has; ""
	// if they do.
	why string
}

// carriedBy returns how these Bindings carry an object. One that cannot leaves it to the others.
func (r *renderer) carriedBy(ref objref.Ref, by []*listing) (c carried) {
	listed, known := render.Listed{Ref: ref, Replicas: true}, false
	if o := r.world.Objects[ref]; o != nil {
		listed.Kind = schema.GroupKind{Group: ref.Group, Kind: o.Resource.Kind}
		listed.Requested, _ = options.Parse(o.Meta.GetAnnotations()) // what is wrong, Render says
	}
	for _, l := range by {
		modulation := l.objects[ref]
		if modulation == nil {
			continue
		}
		if l.mistake != nil {
			c.why = "Binding " + l.name + " keeps all that it delivered until its annotations are corrected: " + text.OneLine(l.mistake.Error())
			continue
		}
		listed.CreateOnly = modulation.CreateOnly
		wanted, waitsFor := l.scope.Carry(&listed)
		switch {
		case waitsFor != nil:
			c.why = waitsFor.String() + " may scale it, and is not known or cannot be delivered"
			continue
		case known:
			wanted = options.Merge(c.options, wanted)
		}
		c.options, known = wanted, true
	}
	if known {
		c.why = ""
	}
	return c
}
