package transform

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/core/objref"
)

// Object is an object as it is delivered. It is immutable.
type Object struct {
	// Ref identifies the object.
	Ref objref.Ref
	// Kind is the kind of the object, in the version that is delivered.
	Kind schema.GroupVersionKind
	// JSON is the object, canonical.
	JSON []byte
	// Hash is the hash of JSON, and Bare that of JSON without AnnotationSourceGeneration; zero if it is not there.
	Hash, Bare Hash
}

// Step changes one object in place. The map is that of decoded JSON: maps, slices, strings, booleans, int64, float64, nil.
type Step func(ref objref.Ref, obj map[string]any) error

// Pipeline is what happens to objects on their way. The zero Pipeline does nothing but make them canonical.
type Pipeline []Step

// Standard returns the steps that every object goes through, and after them more.
func Standard(more ...Step) Pipeline {
	return append(Pipeline{keepUserMetadata, dropStatus, service, job, claim, volume, serviceAccount}, more...)
}

// Then returns a pipeline that goes on with one more step.
func (p Pipeline) Then(step Step) Pipeline { return append(slices.Clip(p), step) }

// Apply runs the steps over the object, which it takes over and changes. It does not know Secrets from other objects: neither
// its result nor the errors of steps are for logs.
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
	return Object{Ref: ref, Kind: gv.WithKind(kind), JSON: raw, Hash: HashOf(raw), Bare: bare}, nil
}
