package render

import (
	"bytes"
	"encoding/json"
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/options"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// Scope is what the objects of one Binding have in common: defaults, autoscalers, and what stays
// with others. The zero Scope has none of them.
type Scope struct {
	defaults options.Requested
	kept     Kept
	// scaled are the targets of autoscalers, and waits those of autoscalers that are not known.
	// unsure are the Namespaces in which an autoscaler is not known, and neither is its target.
	scaled map[options.Target]bool
	waits  map[options.Target]objref.Ref
	unsure map[string]objref.Ref
}

// NewScope returns the Scope of a Binding with these defaults, without autoscalers. It keeps kept.
func NewScope(defaults options.Requested, kept Kept) *Scope {
	return &Scope{defaults: defaults, kept: kept, scaled: map[options.Target]bool{}, waits: map[options.Target]objref.Ref{}, unsure: map[string]objref.Ref{}}
}

// Equal reports whether objects are carried alike in both.
func (s *Scope) Equal(other *Scope) bool {
	return s.defaults == other.defaults && maps.Equal(s.kept, other.kept) && maps.Equal(s.scaled, other.scaled) && maps.Equal(s.waits, other.waits) && maps.Equal(s.unsure, other.unsure)
}

// Kept are the Namespaces and CustomResourceDefinitions that stay in a cluster when they are no
// longer delivered, because the cluster would delete objects with them that are to stay.
type Kept map[objref.Ref]bool

// Add adds what an object needs, if it is to stay.
func (k Kept) Add(ref objref.Ref, requested, defaults options.Requested) {
	if !requested.WithDefaults(defaults).Options().Orphan {
		return
	}
	for _, need := range plan.Prerequisites(ref) {
		k[need] = true
	}
}

// Listed is an object that a Binding lists.
type Listed struct {
	Ref  objref.Ref
	Kind schema.GroupKind
	// Requested are the options that its annotations request.
	Requested options.Requested
	// CreateOnly is that of the Binding's entry.
	CreateOnly bool
	// Replicas says that the object may have a number of replicas.
	Replicas bool
}

// Listed returns the object of a Manifest as a Binding lists it.
func (m *Manifest) Listed(createOnly bool) Listed {
	return Listed{
		Ref: m.Ref, Kind: m.Kind.GroupKind(), Requested: m.Requested, CreateOnly: createOnly,
		Replicas: bytes.Contains(m.JSON, []byte(`"replicas":`)),
	}
}

// Add adds an object that the Binding lists, if it is an autoscaler. seen is its content as it is,
// or, if that is not known now, as it was last seen; nil if it never was.
func (s *Scope) Add(ref objref.Ref, seen *transform.Object, known bool) {
	if !options.IsAutoscaler(ref) {
		return
	}
	var target options.Target
	has := false
	if seen != nil {
		target, has = options.TargetOf(seen)
	}
	switch {
	case has && known:
		s.scaled[target] = true
	case has:
		s.waits[target] = ref
	case !known:
		s.unsure[ref.Namespace] = ref
	}
}

// Carry returns the options with which the Binding carries an object whose content is known. If
// they are not known, because an autoscaler that may scale the object is not, it returns that
// autoscaler: the object and its options stay as they were delivered until then.
func (s *Scope) Carry(o *Listed) (carried plan.Options, waitsFor *objref.Ref) {
	wanted := o.Requested.WithDefaults(s.defaults)
	carried = wanted.Options()
	carried.Orphan = carried.Orphan || options.NeverDeleted(o.Ref) || s.kept[o.Ref]
	if o.CreateOnly {
		carried = options.Merge(carried, plan.Options{CreateOnly: true})
	}
	if wanted.SetsApply() || o.CreateOnly {
		return carried, nil // the user decided
	}
	target := options.Target{Kind: o.Kind, Namespace: o.Ref.Namespace, Name: o.Ref.Name}
	by, waits := s.waits[target]
	if !waits && o.Replicas {
		by, waits = s.unsure[o.Ref.Namespace]
	}
	switch {
	case s.scaled[target]:
		return options.Scaled(carried), nil
	case waits:
		return carried, &by
	}
	return carried, nil
}

// Autoscaler returns the content of an autoscaler that cannot be rendered, for Scope.Add; nil if
// the object is no autoscaler.
func Autoscaler(ref objref.Ref, content map[string]any) *transform.Object {
	if !options.IsAutoscaler(ref) {
		return nil
	}
	raw, err := json.Marshal(content)
	if err != nil {
		return nil
	}
	return &transform.Object{Ref: ref, JSON: raw}
}
