package destination

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/starlinghq/starling/pkg/core/crdcheck"
	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/customtransform"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/render"
	"github.com/starlinghq/starling/pkg/core/text"
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

	// manifest is not nil if each cluster gets another content: Content and CRD are not used then.
	manifest *render.Manifest
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
	manifest, err := render.Render(&render.Source{Ref: ref, Object: source.Object, Removal: instructions})
	if err != nil {
		return nil, err
	}
	o, err := NewObject(ref, source)
	if err == nil && manifest.Template != nil {
		o = &Object{Ref: ref, manifest: manifest, hash: "template " + o.hash}
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
func (o *Object) Varies() bool { return o.manifest != nil }

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
	if o.manifest == nil {
		return o
	}
	if p == nil {
		return unknown(o.Ref, render.ErrPropertiesUnknown.Error())
	}
	key := rendering{o, o.manifest.Template.Key(p)}
	if known := r[key]; known != nil {
		return known
	}
	rendered, err := expand(o, p)
	if err != nil {
		rendered = unknown(o.Ref, err.Error())
	}
	r[key] = rendered
	return rendered
}

func expand(o *Object, p *customize.Properties) (*Object, error) {
	expanded, err := o.manifest.At(p)
	if err != nil {
		return nil, err
	}
	return NewObject(o.Ref, &unstructured.Unstructured{Object: render.Content(expanded)})
}
