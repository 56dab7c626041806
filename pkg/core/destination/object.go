package destination

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/starlinghq/starling/pkg/core/crdcheck"
	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/customtransform"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/options"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// Object is an object as it is delivered. It must not change.
type Object struct {
	Ref objref.Ref
	// Labels are those that select it.
	Labels  map[string]string
	Content map[string]any
	// CRD is the object if it is a CustomResourceDefinition.
	CRD *CRD
	// Unknown says why nothing is delivered of it, so that clusters keep what they have, which is
	// not known; "" if its content is known.
	Unknown string

	// template is not nil if each cluster gets another content: Content and CRD are not used then.
	template *customize.Template
	hash     string
}

// NewObject returns an Object that is delivered with this content. The error says that a
// CustomResourceDefinition cannot be decoded.
func NewObject(ref objref.Ref, content *unstructured.Unstructured) (*Object, error) {
	o := &Object{Ref: ref, Labels: content.GetLabels(), Content: content.Object}
	if ref.GroupResource() == definitions {
		o.CRD = &CRD{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content.Object, o.CRD); err != nil {
			return nil, err
		}
		o.hash = crdcheck.Hash(o.CRD)
		return o, nil
	}
	// What the server keeps in metadata changes with each write, and no schema is about it.
	hashed := maps.Clone(content.Object)
	hashed["metadata"] = nil
	raw, err := json.Marshal(hashed)
	if err != nil {
		return nil, err
	}
	o.hash = digest(ref.String() + "\n" + string(raw))
	return o, nil
}

// Deliver returns what the transport delivers of an object of the space, which it changes and owns
// from then on. The Instructions are those of the CustomTransforms for its resource.
func Deliver(ref objref.Ref, source *unstructured.Unstructured, instructions *customtransform.Instructions) *Object {
	labels := source.GetLabels()
	o, err := deliver(ref, source, instructions)
	if err != nil {
		o = unknown(ref, err.Error())
	}
	o.Labels = labels
	return o
}

func deliver(ref objref.Ref, source *unstructured.Unstructured, instructions *customtransform.Instructions) (*Object, error) {
	if len(instructions.Unknown) > 0 {
		return nil, errors.New("CustomTransforms have errors: " + strings.Join(instructions.Unknown, ", "))
	}
	if _, err := options.Parse(source.GetAnnotations()); err != nil {
		return nil, err
	}
	delivered, err := transform.Standard(instructions.Apply).Apply(ref, source.Object)
	if err != nil {
		return nil, err
	}
	template, err := customize.Compile(delivered)
	if err != nil {
		return nil, err
	}
	o, err := NewObject(ref, source)
	if err == nil && template != nil {
		o = &Object{Ref: ref, template: template, hash: "template " + o.hash}
	}
	return o, err
}

// maxUnknown bounds why an object is not delivered, in bytes.
const maxUnknown = 300

func unknown(ref objref.Ref, why string) *Object {
	why = text.Clip(text.OneLine(why), maxUnknown)
	return &Object{Ref: ref, Unknown: why, hash: digest("unknown " + why)}
}

func digest(of string) string {
	sum := sha256.Sum256([]byte(of))
	return hex.EncodeToString(sum[:])
}

// Varies reports whether each cluster gets another content.
func (o *Object) Varies() bool { return o.template != nil }

// Same reports whether clusters notice no difference between two CustomResourceDefinitions.
func Same(a, b *Object) bool { return a.hash == b.hash }

// rendering identifies what an object is on clusters.
type rendering struct {
	object *Object
	key    customize.Key
}

// renderer expands templates: each once for all clusters whose properties make no difference.
type renderer map[rendering]*Object

// at returns an object as a cluster gets it.
func (r renderer) at(o *Object, p *customize.Properties) *Object {
	if o.template == nil {
		return o
	}
	if p == nil {
		return unknown(o.Ref, "the properties of the cluster are not known")
	}
	key := rendering{o, o.template.Key(p)}
	if known := r[key]; known != nil {
		return known
	}
	rendered, err := render(o, p)
	if err != nil {
		rendered = unknown(o.Ref, err.Error())
	}
	r[key] = rendered
	return rendered
}

func render(o *Object, p *customize.Properties) (*Object, error) {
	expanded, err := o.template.Expand(p)
	if err != nil {
		return nil, err
	}
	content := map[string]any{}
	if err := kjson.Unmarshal(expanded.JSON, &content); err != nil {
		return nil, errors.New("cannot be decoded")
	}
	return NewObject(o.Ref, &unstructured.Unstructured{Object: content})
}
