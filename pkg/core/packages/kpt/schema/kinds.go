package schema

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// kubernetes is the output of hack/schemas.
//
//go:embed kubernetes.json.gz
var kubernetes []byte

// builtin unpacks the schemas at its first call, which takes some milliseconds.
var builtin = sync.OnceValue(func() *catalogue {
	c, err := unpack()
	if err != nil {
		panic("schema: built-in schemas: " + err.Error()) // the embedded file is valid
	}
	return c
})

type catalogue struct {
	Definitions map[string]*Schema `json:"definitions"`
	Namespaced  map[string]bool    `json:"namespaced"`

	kinds map[string]*Schema
}

func unpack() (*catalogue, error) {
	text, err := Definitions()
	if err != nil {
		return nil, err
	}
	c := &catalogue{kinds: map[string]*Schema{}}
	if err := json.Unmarshal(text, c); err != nil {
		return nil, err
	}
	for _, definition := range c.Definitions {
		for _, kind := range definition.Kinds {
			version := metav1.GroupVersion{Group: kind.Group, Version: kind.Version}
			c.kinds[version.String()+"/"+kind.Kind] = definition
		}
	}
	return c, nil
}

// Definitions returns the built-in schemas as a JSON object: "definitions" by their names in
// Kubernetes, "namespaced" by kind.
func Definitions() ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(kubernetes))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// Builtin returns the schema of a built-in kind of Kubernetes; nil if the kind is not built in.
func Builtin(apiVersion, kind string) *Schema { return builtin().kinds[apiVersion+"/"+kind] }

// Namespaced reports whether a built-in kind of Kubernetes is namespaced; known is false for other
// kinds. A version that Kubernetes no longer serves has the scope of other versions of its group
// and kind.
func Namespaced(apiVersion, kind string) (namespaced, known bool) {
	c := builtin()
	if namespaced, known = c.Namespaced[apiVersion+"/"+kind]; known {
		return namespaced, true
	}
	group, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return false, false
	}
	for _, version := range []string{"v1", "v2", "v1beta1", "v1alpha1"} {
		if namespaced, known = c.Namespaced[group+"/"+version+"/"+kind]; known {
			return namespaced, true
		}
	}
	return false, false
}

// Custom holds the kinds that CustomResourceDefinitions define.
type Custom struct {
	// Namespaced is true for namespaced kinds, by "group/Kind".
	Namespaced map[string]bool
	schemas    map[string]*Schema
}

// Add adds the kind that an object defines, if it is a CustomResourceDefinition. It returns an
// error if that is invalid.
func (c *Custom) Add(object *yaml.RNode) error {
	if object.GetKind() != "CustomResourceDefinition" || !strings.HasPrefix(object.GetApiVersion(), "apiextensions.k8s.io/") {
		return nil
	}
	var crd struct {
		Spec struct {
			Group string `json:"group"`
			Scope string `json:"scope"`
			Names struct {
				Kind string `json:"kind"`
			} `json:"names"`
			Versions []struct {
				Name   string `json:"name"`
				Schema struct {
					OpenAPIV3Schema *Schema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	text, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &crd); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return fmt.Errorf("field %s must be of type %s, is of type %s", wrong.Field, wrong.Type, wrong.Value)
		}
		return err
	}
	if c.Namespaced == nil {
		c.Namespaced, c.schemas = map[string]bool{}, map[string]*Schema{}
	}
	c.Namespaced[crd.Spec.Group+"/"+crd.Spec.Names.Kind] = crd.Spec.Scope != "Cluster"
	for _, version := range crd.Spec.Versions {
		if s := version.Schema.OpenAPIV3Schema; s != nil {
			c.schemas[crd.Spec.Group+"/"+version.Name+"/"+crd.Spec.Names.Kind] = s.object()
		}
	}
	return nil
}

// Find returns the schema of a kind that was added; nil if there is none.
func (c *Custom) Find(apiVersion, kind string) *Schema { return c.schemas[apiVersion+"/"+kind] }

// object returns the schema of a custom kind, with the fields that all objects have.
func (s *Schema) object() *Schema {
	out := *s
	out.Properties = map[string]*Schema{}
	maps.Copy(out.Properties, s.Properties)
	for _, name := range []string{"apiVersion", "kind"} {
		if out.Properties[name] == nil {
			out.Properties[name] = &Schema{Type: "string"}
		}
	}
	out.Properties["metadata"] = &Schema{Ref: definitionPrefix + "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
	return &out
}
