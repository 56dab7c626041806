package transform

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/status"
)

// Object is an object as it is delivered. It is immutable.
type Object struct {
	// Ref identifies the object.
	Ref objref.Ref
	// Kind is the kind of the object, in the version that is delivered.
	Kind schema.GroupVersionKind
	// JSON is the object, canonical.
	JSON []byte
	// Hash is the hash of JSON, and Bare that of JSON without AnnotationSourceGeneration; zero if
	// the object has none.
	Hash, Bare Hash
	// Source is the object in the WDS that JSON names, and its content; the zero Source if none.
	Source status.Source
}

// Step changes one object in place. The map is that of decoded JSON: maps, slices, strings,
// booleans, int64, float64, nil.
type Step func(ref objref.Ref, obj map[string]any) error

// Pipeline is the list of Steps that objects pass through. The zero Pipeline only makes them
// canonical.
type Pipeline []Step

// Standard returns the steps that every object goes through, and after them more.
func Standard(more ...Step) Pipeline {
	return append(Pipeline{dropAssigned, keepUserMetadata, dropStatus}, more...)
}

// Apply applies the steps to the object, which it changes and owns from then on. It does not treat
// Secrets differently: neither its result nor the errors of steps may be logged.
func (p Pipeline) Apply(ref objref.Ref, obj map[string]any) (Object, error) {
	apiVersion, _ := obj["apiVersion"].(string)
	kind, _ := obj["kind"].(string)
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil || gv.Version == "" || kind == "" {
		return Object{}, errors.New("the object has no apiVersion and kind")
	}
	for _, step := range p {
		if err := step(ref, obj); err != nil {
			return Object{}, err
		}
	}
	raw, err := Canonical(obj)
	if err != nil {
		return Object{}, fmt.Errorf("encode the object: %w", err)
	}
	bare, err := BareOf(obj)
	if err != nil {
		return Object{}, fmt.Errorf("encode the object: %w", err)
	}
	return Object{Ref: ref, Kind: gv.WithKind(kind), JSON: raw, Hash: HashOf(raw), Bare: bare, Source: sourceOf(obj)}, nil
}

// Withdrawn returns what a work has of an object that is withdrawn: its identity, the UID of the
// object in the WDS that it is of, with an annotation, and nothing else.
func Withdrawn(ref objref.Ref, kind schema.GroupVersionKind, source types.UID) (Object, error) {
	metadata := map[string]any{
		"name":        ref.Name,
		"annotations": map[string]any{controlv1alpha1.AnnotationWithdrawn: "true"},
	}
	if ref.Namespace != "" {
		metadata["namespace"] = ref.Namespace
	}
	return Pipeline{Source(status.Source{UID: source})}.Apply(ref, map[string]any{
		"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind, "metadata": metadata,
	})
}
