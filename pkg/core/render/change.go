package render

import (
	"reflect"
	"strings"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// Change is what another content of an object changes in a cluster that has the object.
type Change struct {
	// Before and After are the contents without ignored fields, and without what is only for us:
	// equal if the cluster changes nothing that a user wrote.
	Before, After map[string]any
	// Ignored are the paths of the ignored fields that differ: the cluster keeps its own.
	Ignored []string
	// CreateOnly: the contents differ, and the cluster keeps the object as it is.
	CreateOnly bool
	// Source: the UID or the generation that the content names differ.
	Source bool
}

// Updates reports whether the cluster changes anything that a user wrote.
func (c *Change) Updates() bool { return !c.CreateOnly && !reflect.DeepEqual(c.Before, c.After) }

// ChangeOf returns what a content changes in a cluster that got another one before, and applies
// this one with these options. Either may be zero.
func ChangeOf(before, after transform.Object, with plan.Options) Change {
	c := Change{Before: Content(before), After: Content(after), CreateOnly: with.CreateOnly && before.Hash != after.Hash}
	for path := range strings.SplitSeq(with.IgnoredFields, "\n") {
		if had, has := take(c.Before, path), take(c.After, path); !reflect.DeepEqual(had, has) {
			c.Ignored = append(c.Ignored, path)
		}
	}
	c.Source = takeSource(c.Before) != takeSource(c.After)
	return c
}

// take removes the field at a path from a content, and returns it.
func take(content map[string]any, path string) any {
	parent, key := transform.ParentOf(content, path)
	value := parent[key]
	delete(parent, key)
	return value
}

// takeSource removes the annotation with the UID and the generation from a content, and returns it.
func takeSource(content map[string]any) any {
	metadata, _ := content["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	source := annotations[controlv1alpha1.AnnotationSourceGeneration]
	delete(annotations, controlv1alpha1.AnnotationSourceGeneration)
	if source != nil && len(annotations) == 0 {
		delete(metadata, "annotations")
	}
	return source
}
