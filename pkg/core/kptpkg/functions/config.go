package functions

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// pair is a key and value of a ConfigMap, in the order they are written.
type pair struct{ key, value string }

// pairs is the data of the functionConfig, which must be a ConfigMap.
func (c *call) pairs() ([]pair, error) {
	root, err := c.configRoot("ConfigMap")
	if err != nil {
		return nil, err
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		switch field := root.Content[i].Value; field {
		case "apiVersion", "kind", "metadata", "data":
		default:
			return nil, fmt.Errorf("functionConfig: field %q is not supported; a ConfigMap of a function has data", field)
		}
	}
	data := get(root, "data")
	if isNull(data) {
		return nil, nil
	}
	if data.Kind != yaml.MappingNode {
		return nil, errors.New("functionConfig: data must be a mapping")
	}
	var out []pair
	for i := 0; i+1 < len(data.Content); i += 2 {
		value := content(data.Content[i+1])
		if value.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("functionConfig: data.%s must be a string", data.Content[i].Value)
		}
		key := data.Content[i].Value
		if slices.ContainsFunc(out, func(p pair) bool { return p.key == key }) {
			return nil, fmt.Errorf("functionConfig: data.%s is there twice", key)
		}
		out = append(out, pair{key, text(value)})
	}
	return out, nil
}

// values is the data of a ConfigMap of which only some keys are supported.
func (c *call) values(supported ...string) (map[string]string, error) {
	pairs, err := c.pairs()
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, p := range pairs {
		if !slices.Contains(supported, p.key) {
			return nil, fmt.Errorf("functionConfig: data.%s is not supported by %s; supported are %s", p.key, c.name, strings.Join(supported, ", "))
		}
		out[p.key] = p.value
	}
	return out, nil
}

// configKind is the kind of the functionConfig, "" if there is none.
func (c *call) configKind() string {
	if c.config == nil {
		return ""
	}
	return text(get(c.config.YNode(), "kind"))
}

func (c *call) configRoot(kinds ...string) (*yaml.Node, error) {
	if c.config == nil {
		return nil, fmt.Errorf("%s needs a functionConfig of kind %s", c.name, strings.Join(kinds, " or "))
	}
	root := content(c.config.YNode())
	if root == nil || root.Kind != yaml.MappingNode {
		return nil, errors.New("functionConfig: is no object")
	}
	kind, version := text(get(root, "kind")), text(get(root, "apiVersion"))
	if !slices.Contains(kinds, kind) {
		return nil, fmt.Errorf("functionConfig: kind %q is not supported by %s, which takes %s", kind, c.name, strings.Join(kinds, " or "))
	}
	if want := apiVersionOf(kind); version != "" && version != want && (kind == "ConfigMap" || version != "v1") {
		return nil, fmt.Errorf("functionConfig: apiVersion %q is not supported; that of %s is %s", version, kind, want)
	}
	return root, nil
}

// apiVersionOf is the version of a kind of functionConfig. Some examples in the functions' documentation say v1 for all.
func apiVersionOf(kind string) string {
	if kind == "ConfigMap" {
		return "v1"
	}
	return "fn.kpt.dev/v1alpha1"
}

// decode reads a functionConfig of the function's own kind. A field that is not supported is an error.
func (c *call) decode(kind string, into any) error {
	root, err := c.configRoot(kind, "ConfigMap")
	if err != nil {
		return err
	}
	own := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for i := 0; i+1 < len(root.Content); i += 2 {
		switch root.Content[i].Value {
		case "apiVersion", "kind", "metadata":
		default:
			own.Content = append(own.Content, root.Content[i], root.Content[i+1])
		}
	}
	return strictly(own, into)
}

// strictly decodes a node. A field that is not known is an error.
func strictly(n *yaml.Node, into any) error {
	written, err := yaml.Marshal(n)
	if err != nil {
		return fmt.Errorf("functionConfig: %w", err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(written))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("functionConfig: %s", oneLine(err))
	}
	return nil
}

// oneLine is an error of the YAML library in one line. Its lines are those of an excerpt, and so mean nothing.
func oneLine(err error) string {
	lines := strings.Split(strings.TrimPrefix(err.Error(), "yaml: "), "\n")
	for i, line := range lines {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "line "); ok {
			if _, after, ok := strings.Cut(rest, ": "); ok {
				line = after
			}
		}
		if name, ok := strings.CutPrefix(line, "field "); ok {
			if name, _, ok := strings.Cut(name, " not found"); ok {
				line = fmt.Sprintf("field %q is not supported", name)
			}
		}
		lines[i] = line
	}
	return strings.TrimPrefix(strings.Join(lines, " "), "unmarshal errors: ")
}
