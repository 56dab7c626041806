package merge

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/kustomize/kyaml/openapi"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// schemaOf returns the schema of an object; nil if its kind is not built into Kubernetes.
func schemaOf(apiVersion, kind string) *openapi.ResourceSchema {
	return openapi.SchemaForResourceType(yaml.TypeMeta{APIVersion: apiVersion, Kind: kind})
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
// identifies itself. ok is false if the elements have no key.
func keysOf(s *openapi.ResourceSchema) (fields []string, ok bool) {
	if s == nil {
		return nil, false
	}
	strategy, fields := s.PatchStrategyAndKeyList()
	return fields, slices.Contains(strings.Split(strategy, ","), "merge")
}

// functionKey is the key of a function in a pipeline: its name or, since few have one, its image
// without version, or its program.
const functionKey = "(function)"

// elementKey returns the key of an element of a list, and the text that shows it in the path of a
// field.
func elementKey(n *yaml.Node, fields []string) (key, shown string, ok bool) {
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
		text := ""
		switch {
		case value != nil && value.Kind == yaml.ScalarNode && value.ShortTag() != yaml.NodeTagNull:
			text = value.Value
		case field == "protocol":
			text = "TCP" // the default of ports
		case i == 0:
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
