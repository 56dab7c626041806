package merge

import (
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/openapi"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// schema tells which lists are merged element by element, and by what.
type schema interface {
	// field is the schema of a field of a mapping; nil if nothing is known of it.
	field(name string) schema
	// elements is the schema of the elements of a list.
	elements() schema
	// keys tells that the elements of a list are identified by some of their fields, or by themselves if there are no fields.
	keys() (fields []string, associative bool)
}

// builtIn is the schema of a kind of Kubernetes.
type builtIn struct{ *openapi.ResourceSchema }

// schemaOf returns the schema of an object; nil if its kind is not one of Kubernetes.
func schemaOf(apiVersion, kind string) schema {
	return orNil(openapi.SchemaForResourceType(yaml.TypeMeta{APIVersion: apiVersion, Kind: kind}))
}

func orNil(s *openapi.ResourceSchema) schema {
	if s == nil {
		return nil
	}
	return builtIn{s}
}

func (b builtIn) field(name string) schema { return orNil(b.Field(name)) }
func (b builtIn) elements() schema         { return orNil(b.Elements()) }

func (b builtIn) keys() ([]string, bool) {
	strategy, fields := b.PatchStrategyAndKeyList()
	return fields, slices.Contains(strings.Split(strategy, ","), "merge")
}

// kptfileSchema is that of a place in a Kptfile.
type kptfileSchema string

func (k kptfileSchema) field(name string) schema {
	return kptfileSchema(strings.TrimPrefix(string(k)+"."+name, "."))
}
func (k kptfileSchema) elements() schema { return k + "[]" }

func (k kptfileSchema) keys() ([]string, bool) {
	switch k {
	case "pipeline.mutators", "pipeline.validators":
		return []string{functionKey}, true
	case "info.readinessGates":
		return []string{"conditionType"}, true
	case "status.conditions":
		return []string{"type"}, true
	}
	return nil, false
}

// functionKey stands for the name of a function in a pipeline. Few have one; then the image without its version, or the program, says
// which function it is.
const functionKey = "(function)"

// elementKey is what identifies an element of a list among the others, and the text that shows it in the path of a field.
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
		value := get(n, field)
		text := ""
		switch {
		case value != nil && value.Kind == yaml.ScalarNode && value.ShortTag() != yaml.NodeTagNull:
			text = value.Value
		case field == "protocol":
			text = "TCP" // the default of ports, which many leave out
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
		value := get(n, field)
		if value == nil || value.Kind != yaml.ScalarNode || value.Value == "" {
			continue
		}
		text := value.Value
		if field == "image" {
			text = imageName(text)
		}
		return field + "\x00" + text, field + "=" + text, true
	}
	return "", "", false
}

// imageName is an image without its tag or digest.
func imageName(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		image = image[:i]
	}
	return image
}
