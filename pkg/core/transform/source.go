package transform

import (
	kjson "k8s.io/apimachinery/pkg/util/json"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/status"
)

// Source returns the step that records which object in the WDS the content is from, and, if its
// kind has a status, which content it is: so a report of the status says that too. It comes after
// all others that are the same for all destinations: no step may remove it again. Without a UID it
// changes nothing.
func Source(source status.Source) Step {
	return func(ref objref.Ref, obj map[string]any) error {
		if source.UID == "" {
			return nil
		}
		named := source
		if named.Generation == 0 && status.HasStatus(ref.GroupResource()) {
			raw, err := Canonical(obj)
			if err != nil {
				return err
			}
			named.Hash = HashOf(raw).String()[:hashDigits]
		}
		setSource(obj, named.String())
		return nil
	}
}

// hashDigits is how much of a hash tells the contents of one object apart.
const hashDigits = 16

// Shared returns the object as it is delivered beside another WDS that delivers the same: without
// the source, which differs between the two, so that they would overwrite each other forever. With
// others that name no source at all, plain, it is delivered as they do. An object without a source
// is returned as it is.
func (o Object) Shared(plain bool) (Object, error) {
	if o.Bare == (Hash{}) {
		return o, nil
	}
	var obj map[string]any
	if err := kjson.Unmarshal(o.JSON, &obj); err != nil {
		return Object{}, err
	}
	if plain {
		takeSource(obj)
	} else {
		setSource(obj, "")
	}
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
	value, there := takeSource(obj)
	if !there {
		return Hash{}, nil
	}
	raw, err := Canonical(obj)
	setSource(obj, value)
	if err != nil {
		return Hash{}, err
	}
	return HashOf(raw), nil
}

// sourceOf returns the object in the WDS that the object names.
func sourceOf(obj map[string]any) status.Source {
	source, _ := status.ParseSource(annotation(obj, controlv1alpha1.AnnotationSourceGeneration))
	return source
}

// takeSource removes AnnotationSourceGeneration, and returns it.
func takeSource(obj map[string]any) (value any, there bool) {
	metadata, _ := obj["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if value, there = annotations[controlv1alpha1.AnnotationSourceGeneration]; !there {
		return nil, false
	}
	delete(annotations, controlv1alpha1.AnnotationSourceGeneration)
	if len(annotations) == 0 {
		delete(metadata, "annotations")
	}
	return value, true
}

func setSource(obj map[string]any, value any) {
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
