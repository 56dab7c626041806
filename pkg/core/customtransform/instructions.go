package customtransform

import (
	"maps"
	"slices"
	"strings"

	"github.com/starlinghq/starling/pkg/core/jsonpath"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// Instructions say what is removed from each object of one GroupResource. They are immutable.
type Instructions struct {
	// Digest is equal for Instructions that remove the same, and empty if they remove nothing.
	Digest string
	// Unknown are the names of the CustomTransforms of which it is not known what they ask for: they have errors, and no valid
	// spec before. Sorted. If there are any, objects of the GroupResource must not be delivered.
	Unknown []string

	removes []jsonpath.Path
}

// newInstructions returns Instructions that remove these. It takes unknown over.
func newInstructions(removes map[string]jsonpath.Path, unknown []string) *Instructions {
	i := &Instructions{Unknown: unknown}
	slices.Sort(unknown)
	texts := slices.Sorted(maps.Keys(removes))
	for _, text := range texts {
		i.removes = append(i.removes, removes[text])
	}
	i.Digest = strings.Join(texts, "\n") // no path as it is printed holds a line break
	return i
}

// Apply removes from the object, in place, what is to be removed. It is a step of package transform.
func (i *Instructions) Apply(_ objref.Ref, obj map[string]any) error {
	if len(i.removes) == 0 {
		return nil
	}
	jsonpath.Remove(obj, i.removes...)
	// The API server that holds the mailboxes drops empty maps of metadata; the hash must be that of what it stores.
	metadata, _ := obj["metadata"].(map[string]any)
	for _, field := range []string{"labels", "annotations"} {
		if values, ok := metadata[field].(map[string]any); ok && len(values) == 0 {
			delete(metadata, field)
		}
	}
	return nil
}
