package customtransform

import (
	"maps"
	"slices"
	"strings"

	"github.com/starlinghq/starling/pkg/core/jsonpath"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// Instructions list the fields that are removed from each object of one GroupResource. They are
// immutable.
type Instructions struct {
	// Digest is equal for Instructions that remove the same fields, and empty if they remove
	// nothing.
	Digest string
	// Unknown are the names, sorted, of the CustomTransforms with errors that never had a valid
	// spec. If there are any, objects of the GroupResource must not be delivered.
	Unknown []string

	removes []jsonpath.Path
}

// newInstructions returns Instructions that remove these fields. It takes ownership of unknown.
func newInstructions(removes map[string]jsonpath.Path, unknown []string) *Instructions {
	i := &Instructions{Unknown: unknown}
	slices.Sort(unknown)
	texts := slices.Sorted(maps.Keys(removes))
	for _, text := range texts {
		i.removes = append(i.removes, removes[text])
	}
	i.Digest = strings.Join(texts, "\n") // the text of a path has no line breaks
	return i
}

// Apply removes the fields from the object, in place. It is a step of package transform.
func (i *Instructions) Apply(_ objref.Ref, obj map[string]any) error {
	if len(i.removes) == 0 {
		return nil
	}
	jsonpath.Remove(obj, i.removes...)
	// The API server of the ITS drops empty maps of metadata. The hash must be that of the stored
	// content.
	metadata, _ := obj["metadata"].(map[string]any)
	for _, field := range []string{"labels", "annotations"} {
		if values, ok := metadata[field].(map[string]any); ok && len(values) == 0 {
			delete(metadata, field)
		}
	}
	return nil
}
