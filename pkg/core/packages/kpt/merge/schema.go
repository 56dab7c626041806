package merge

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/kustomize/kyaml/openapi"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// Schemas returns the schema of a kind that is not built into Kubernetes, nil if there is none. It
// returns an error if that is not known now.
type Schemas func(apiVersion, kind string) (*openapi.ResourceSchema, error)

// schemas finds the schema of a kind: of Kubernetes, of a CustomResourceDefinition in any version
// of the package, or of others.
type schemas struct {
	others Schemas
	own    func() map[string]*openapi.ResourceSchema
	// found are answers of others: they take requests, and a package has many objects of a kind.
	found map[string]*openapi.ResourceSchema
}

// newSchemas returns the schemas for a merge of three versions.
func newSchemas(versions [3]kpt.Files, others Schemas) *schemas {
	return &schemas{others: others, found: map[string]*openapi.ResourceSchema{}, own: sync.OnceValue(func() map[string]*openapi.ResourceSchema {
		own := map[string]*openapi.ResourceSchema{}
		for _, v := range []version{updatedVersion, localVersion, originalVersion} { // the newest first
			for name, content := range versions[v] {
				if isYAML(name) && strings.Contains(content, "CustomResourceDefinition") {
					define(own, content)
				}
			}
		}
		return own
	})}
}

// find returns the schema of a kind, nil if there is none.
func (s *schemas) find(apiVersion, kind string) (*openapi.ResourceSchema, error) {
	if builtin := openapi.SchemaForResourceType(yaml.TypeMeta{APIVersion: apiVersion, Kind: kind}); builtin != nil || apiVersion == "" || kind == "" {
		return builtin, nil
	}
	name := apiVersion + "/" + kind
	if own := s.own()[name]; own != nil || s.others == nil {
		return own, nil
	}
	if found, known := s.found[name]; known {
		return found, nil
	}
	found, err := s.others(apiVersion, kind)
	if err == nil {
		s.found[name] = found
	}
	return found, err
}

// define adds the schemas of the CustomResourceDefinitions in a file, unless they are known. It
// ignores what is invalid: without a schema, lists are merged as a whole.
func define(own map[string]*openapi.ResourceSchema, content string) {
	documents, err := kpt.Documents(content)
	if err != nil {
		return
	}
	for _, document := range documents {
		if document.GetKind() != "CustomResourceDefinition" || kpt.GroupOf(document.GetApiVersion()) != "apiextensions.k8s.io" {
			continue
		}
		var crd struct {
			Spec struct {
				Group string `json:"group"`
				Names struct {
					Kind string `json:"kind"`
				} `json:"names"`
				Versions []struct {
					Name   string `json:"name"`
					Schema struct {
						OpenAPIV3Schema json.RawMessage `json:"openAPIV3Schema"`
					} `json:"schema"`
				} `json:"versions"`
			} `json:"spec"`
		}
		text, err := document.MarshalJSON()
		if err != nil || json.Unmarshal(text, &crd) != nil {
			continue
		}
		for _, v := range crd.Spec.Versions {
			id := crd.Spec.Group + "/" + v.Name + "/" + crd.Spec.Names.Kind
			s := &openapi.ResourceSchema{}
			if own[id] == nil && json.Unmarshal(v.Schema.OpenAPIV3Schema, &s.Schema) == nil && s.Schema != nil {
				own[id] = s
			}
		}
	}
}

// kptfileSchema returns the schema of Kptfiles, with the lists that are merged element by element.
var kptfileSchema = sync.OnceValue(func() *openapi.ResourceSchema {
	list := func(key string) string {
		return `{"x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "` + key + `"}`
	}
	var s openapi.ResourceSchema
	err := json.Unmarshal([]byte(`{"properties": {
		"pipeline": {"properties": {"mutators": `+list(functionKey)+`, "validators": `+list(functionKey)+`}},
		"info": {"properties": {"readinessGates": `+list("conditionType")+`}},
		"status": {"properties": {"conditions": `+list("type")+`}}}}`), &s.Schema)
	if err != nil {
		panic("merge: schema of Kptfiles: " + err.Error())
	}
	return &s
})

// keysOf returns the fields that identify the elements of a list. Without fields, an element
// identifies itself. ok is false if the elements have no key. Built-in kinds say so by the
// extensions for strategic merges, and custom kinds by those for server-side apply.
func keysOf(s *openapi.ResourceSchema) (fields []string, ok bool) {
	if s == nil || s.Schema == nil {
		return nil, false
	}
	texts := func(value any) (all []string) {
		list, _ := value.([]any)
		for _, v := range list {
			if text, is := v.(string); is {
				all = append(all, text)
			}
		}
		return all
	}
	extensions := s.Schema.Extensions
	keys := texts(extensions["x-kubernetes-list-map-keys"])
	if strategy, is := extensions["x-kubernetes-patch-strategy"].(string); is {
		if key, one := extensions["x-kubernetes-patch-merge-key"].(string); one && len(keys) == 0 {
			keys = []string{key}
		}
		return keys, slices.Contains(strings.Split(strategy, ","), "merge")
	}
	switch extensions["x-kubernetes-list-type"] {
	case "map":
		return keys, len(keys) > 0
	case "set":
		return nil, true
	}
	return nil, false
}

// functionKey is the key of a function in a pipeline: its name or, since few have one, its image
// without version, or its program.
const functionKey = "(function)"

// defaultsOf returns the defaults of the fields that identify the elements of a list, by field: an
// API server sets them.
func defaultsOf(s *openapi.ResourceSchema, fields []string) map[string]string {
	defaults := map[string]string{}
	if _, builtin := s.Schema.Extensions["x-kubernetes-patch-strategy"]; builtin {
		defaults["protocol"] = "TCP" // of ports; kyaml's schemas do not say so
	}
	elements := s.Elements()
	for _, field := range fields {
		if elements == nil {
			break
		}
		if of := elements.Field(field); of != nil && of.Schema != nil && of.Schema.Default != nil {
			defaults[field] = fmt.Sprint(of.Schema.Default)
		}
	}
	return defaults
}

// elementKey returns the key of an element of a list, and the text that shows it in the path of a
// field.
func elementKey(n *yaml.Node, fields []string, defaults map[string]string) (key, shown string, ok bool) {
	if len(fields) == 0 {
		return scalar(n), n.Value, n.Kind == yaml.ScalarNode
	}
	if n.Kind != yaml.MappingNode {
		return "", "", false
	}
	for i, field := range fields {
		if field == functionKey {
			return functionName(n)
		}
		value := kpt.Get(n, field)
		text, known := defaults[field]
		switch {
		case value != nil && value.Kind == yaml.ScalarNode && value.ShortTag() != yaml.NodeTagNull:
			text = value.Value
		case i == 0 && !known:
			return "", "", false
		}
		key += text + "\x00"
		if i == 0 {
			shown = field + "=" + text
		}
	}
	return key, shown, true
}

func functionName(n *yaml.Node) (key, shown string, ok bool) {
	for _, field := range []string{"name", "image", "exec"} {
		value := kpt.Get(n, field)
		if value == nil || value.Kind != yaml.ScalarNode || value.Value == "" {
			continue
		}
		text := value.Value
		if field == "image" {
			text, _, _ = kpt.SplitImage(text)
		}
		return field + "\x00" + text, field + "=" + text, true
	}
	return "", "", false
}
