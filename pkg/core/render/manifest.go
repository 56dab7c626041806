package render

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	kjson "k8s.io/apimachinery/pkg/util/json"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/customtransform"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/options"
	"github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// Source is an object of a WDS or of a package, with what decides what all clusters get of it.
type Source struct {
	Ref objref.Ref
	// Object is the object as it was read.
	Object map[string]any
	// Removal is what CustomTransforms remove from objects of its resource.
	Removal *customtransform.Instructions
	// UID is that of the object in the WDS, which the content names with its generation: so what a
	// cluster reports of a copy says which edit it is of. It is empty for an object of a package.
	UID types.UID
}

// Manifest is what all clusters get of an object. It is immutable.
type Manifest struct {
	// Object is the content, before templates are expanded.
	transform.Object
	// Requested are the options that the annotations of the object request.
	Requested options.Requested
	// Template expands the content for a cluster; nil if all get the same.
	Template *customize.Template
}

// UnknownRemovalError says that it is not known what CustomTransforms remove from an object. It is
// not delivered: what is removed may be what nobody may see.
type UnknownRemovalError struct {
	// CustomTransforms are the names of those with errors, sorted.
	CustomTransforms []string
}

// Error implements error.
func (e *UnknownRemovalError) Error() string {
	return "CustomTransforms have errors: " + strings.Join(e.CustomTransforms, ", ")
}

// NotConvertedError says that a WDS reads an object in another version than that in which it was
// written, and does not convert it.
type NotConvertedError struct{ Written, Read string }

// Error implements error.
func (e *NotConvertedError) Error() string {
	return fmt.Sprintf("it was written in version %s, and the WDS reads it in version %s without converting it, so fields can be missing: "+
		"apply it in version %[2]s, or remove the annotation %[3]s if it is whole", e.Written, e.Read, controlv1alpha1.AnnotationNotConverted)
}

// ErrPropertiesUnknown says that the content of an object with templates is not known for a
// cluster.
var ErrPropertiesUnknown = errors.New("the properties of the cluster are not known")

// Render returns what all clusters get of an object. It changes source.Object, and owns it from
// then on: without an error it is the content. The error is an *UnknownRemovalError, or says what
// is wrong with the object; it contains no content of Secrets.
func Render(source *Source) (*Manifest, error) {
	if len(source.Removal.Unknown) > 0 {
		return nil, &UnknownRemovalError{source.Removal.Unknown}
	}
	meta := unstructured.Unstructured{Object: source.Object}
	if stored, is := meta.GetAnnotations()[controlv1alpha1.AnnotationNotConverted]; is && source.UID != "" {
		return nil, &NotConvertedError{Written: stored, Read: meta.GroupVersionKind().Version}
	}
	requested, err := options.Parse(meta.GetAnnotations())
	if err != nil {
		return nil, err
	}
	from := status.Source{UID: source.UID}
	if status.HasStatus(source.Ref.GroupResource()) {
		from.Generation = meta.GetGeneration()
	}
	object, err := transform.Standard(source.Removal.Apply, transform.Source(from)).Apply(source.Ref, source.Object)
	if err != nil {
		return nil, err
	}
	template, err := customize.Compile(object)
	if err != nil {
		return nil, err
	}
	return &Manifest{Object: object, Requested: requested, Template: template}, nil
}

// At returns the content for a cluster with these properties, nil if they are not known: the error
// is ErrPropertiesUnknown then, if there are templates, or names the fields that cannot be
// expanded.
func (m *Manifest) At(properties *customize.Properties) (transform.Object, error) {
	switch {
	case m.Template == nil:
		return m.Object, nil
	case properties == nil:
		return transform.Object{}, ErrPropertiesUnknown
	}
	return m.Template.Expand(properties)
}

// Content returns the decoded content of an object, nil for the zero Object.
func Content(o transform.Object) map[string]any {
	var content map[string]any
	if o.JSON == nil || kjson.Unmarshal(o.JSON, &content) != nil {
		return nil // it was encoded by us
	}
	return content
}
