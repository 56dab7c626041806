package forecast

import (
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/customtransform"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/options"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// renderer computes what is delivered of the objects of a World. Each object is transformed once,
// and its templates are expanded once for all clusters whose properties make no difference.
type renderer struct {
	world    *World
	removals map[schema.GroupResource]*customtransform.Instructions
	common   map[objref.Ref]common
	expanded map[expansion]rendered
}

// common is what all clusters get of an object.
type common struct {
	object   transform.Object
	template *customize.Template
	err      error
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

// errPropertiesUnknown: what a cluster gets of an object with templates is not known.
var errPropertiesUnknown = errors.New("the properties of the cluster are not known")

func newRenderer(w *World) *renderer {
	return &renderer{
		world: w, removals: map[schema.GroupResource]*customtransform.Instructions{}, common: map[objref.Ref]common{}, expanded: map[expansion]rendered{},
	}
}

// removal returns what CustomTransforms remove from the objects of a resource.
func (r *renderer) removal(gr schema.GroupResource) *customtransform.Instructions {
	if known := r.removals[gr]; known != nil {
		return known
	}
	collection := customtransform.NewCollection(func(gr schema.GroupResource) []*controlv1alpha1.CustomTransform {
		var about []*controlv1alpha1.CustomTransform
		for _, ct := range r.world.Transforms {
			if customtransform.GroupResource(&ct.Spec) == gr {
				about = append(about, ct)
			}
		}
		return about
	})
	for name, ct := range r.world.Transforms {
		collection.Note(name, ct)
	}
	instructions, _ := collection.Changes("", gr)
	r.removals[gr] = instructions
	return instructions
}

// templated reports whether clusters may get different content of an object.
func templated(o *Object) bool {
	return o != nil && o.Meta.GetAnnotations()[controlv1alpha1.AnnotationExpandTemplates] == "true"
}

// at returns what a cluster gets of an object that was read.
func (r *renderer) at(ref objref.Ref, properties *customize.Properties) rendered {
	c, known := r.common[ref]
	if !known {
		c = r.transform(ref)
		r.common[ref] = c
	}
	switch {
	case c.err != nil || c.template == nil:
		return rendered{c.object, c.err}
	case properties == nil:
		return rendered{err: errPropertiesUnknown}
	}
	key := expansion{ref, c.template.Key(properties)}
	e, known := r.expanded[key]
	if !known {
		e.object, e.err = c.template.Expand(properties)
		r.expanded[key] = e
	}
	return e
}

func (r *renderer) transform(ref objref.Ref) (c common) {
	o := r.world.Objects[ref]
	removal := r.removal(ref.GroupResource())
	if len(removal.Unknown) > 0 {
		c.err = errors.New("CustomTransforms have errors: " + strings.Join(removal.Unknown, ", "))
		return c
	}
	if _, c.err = options.Parse(o.Meta.GetAnnotations()); c.err != nil {
		return c
	}
	if c.object, c.err = transform.Standard(removal.Apply).Apply(ref, o.Meta.DeepCopy().Object); c.err != nil {
		return c
	}
	c.template, c.err = customize.Compile(c.object)
	return c
}

// optionsOf returns how a cluster applies an object that these Bindings list there.
func optionsOf(o *Object, ref objref.Ref, by []*listing) plan.Options {
	own, _ := options.Parse(o.Meta.GetAnnotations())
	var merged plan.Options
	first := true
	for _, l := range by {
		modulation := l.objects[ref]
		if modulation == nil {
			continue
		}
		defaults, _ := options.Parse(l.annotations)
		wanted := own.WithDefaults(defaults).Options()
		if modulation.CreateOnly {
			wanted = options.Merge(wanted, plan.Options{CreateOnly: true})
		}
		if first {
			merged, first = wanted, false
			continue
		}
		merged = options.Merge(merged, wanted)
	}
	return merged
}
