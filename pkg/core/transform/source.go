package transform

import (
	kjson "k8s.io/apimachinery/pkg/util/json"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/status"
)

// Source returns the step that records which generation of which object in the WDS the content is
// from. It comes after all others that are the same for all destinations: no step may remove it
// again. Without a generation it changes nothing.
func Source(source status.Source) Step {
	return func(_ objref.Ref, obj map[string]any) error {
		if source.Generation > 0 {
			setSource(obj, source.String())
		}
		return nil
	}
}

// Shared returns the object as it is delivered beside another WDS that delivers the same: without
// the generation that it is from, which differs between the two, so that they would overwrite each
// other forever. An object without a generation is returned as it is.
func (o Object) Shared() (Object, error) {
	if o.Bare == (Hash{}) {
		return o, nil
	}
	var obj map[string]any
	if err := kjson.Unmarshal(o.JSON, &obj); err != nil {
		return Object{}, err
	}
	setSource(obj, "")
	return Pipeline{}.Apply(o.Ref, obj)
}

// Content returns the hash of the object without what differs between WDSes that deliver the same.
func (o *Object) Content() Hash {
	if o.Bare == (Hash{}) {
		return o.Hash
	}
	return o.Bare
}

// BareOf returns the hash of an object without AnnotationSourceGeneration, the zero Hash if it has
// none. It changes nothing.
func BareOf(obj map[string]any) (Hash, error) {
	metadata, _ := obj["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	value, there := annotations[controlv1alpha1.AnnotationSourceGeneration]
	if !there {
		return Hash{}, nil
	}
	delete(annotations, controlv1alpha1.AnnotationSourceGeneration)
	if len(annotations) == 0 {
		delete(metadata, "annotations")
	}
	raw, err := Canonical(obj)
	annotations[controlv1alpha1.AnnotationSourceGeneration] = value
	metadata["annotations"] = annotations
	if err != nil {
		return Hash{}, err
	}
	return HashOf(raw), nil
}

func setSource(obj map[string]any, value string) {
	metadata, ok := obj["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		obj["metadata"] = metadata
	}
	annotations, ok := metadata["annotations"].(map[string]any)
	if !ok {
		annotations = map[string]any{}
		metadata["annotations"] = annotations
	}
	annotations[controlv1alpha1.AnnotationSourceGeneration] = value
}
