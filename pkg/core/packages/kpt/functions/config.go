package functions

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// data returns the data of the functionConfig, which must be a ConfigMap. If supported keys are
// given, others are an error.
func (c *call) data(supported ...string) (map[string]string, error) {
	root, err := c.configRoot("ConfigMap")
	if err != nil {
		return nil, err
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		switch field := root.Content[i].Value; field {
		case "apiVersion", "kind", "metadata", "data":
		default:
			return nil, fmt.Errorf("functionConfig: field %q is not supported; use data", field)
		}
	}
	data := kpt.Get(root, "data")
	if isNull(data) {
		return nil, nil
	}
	if data.Kind != yaml.MappingNode {
		return nil, errors.New("functionConfig: data must be a mapping")
	}
	out := map[string]string{}
	for i := 0; i+1 < len(data.Content); i += 2 {
		key, value := data.Content[i].Value, kpt.Content(data.Content[i+1])
		if value.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("functionConfig: data.%s must be a string", key)
		}
		if _, duplicate := out[key]; duplicate {
			return nil, fmt.Errorf("functionConfig: data.%s is duplicated", key)
		}
		if len(supported) > 0 && !slices.Contains(supported, key) {
			return nil, fmt.Errorf("functionConfig: data.%s is not supported by %s; supported keys: %s", key, c.name, strings.Join(supported, ", "))
		}
		out[key] = kpt.TextOf(value)
	}
	return out, nil
}

// read decodes a functionConfig of the own kind of the function, or calls set with the data of a
// ConfigMap.
func (c *call) read(kind string, own any, set func(data map[string]string), supported ...string) error {
	if c.configKind() != "ConfigMap" {
		return c.decode(own, "ConfigMap", kind)
	}
	data, err := c.data(supported...)
	if err == nil {
		set(data)
	}
	return err
}

// configKind returns the kind of the functionConfig; "" if there is none.
func (c *call) configKind() string {
	if c.config == nil {
		return ""
	}
	return kpt.TextOf(kpt.Get(c.config.YNode(), "kind"))
}

func (c *call) configRoot(kinds ...string) (*yaml.Node, error) {
	if c.config == nil {
		return nil, fmt.Errorf("%s needs a functionConfig of kind %s", c.name, strings.Join(kinds, " or "))
	}
	root := kpt.Content(c.config.YNode())
	if root == nil || root.Kind != yaml.MappingNode {
		return nil, errors.New("functionConfig: is not an object")
	}
	kind, version := kpt.TextOf(kpt.Get(root, "kind")), kpt.TextOf(kpt.Get(root, "apiVersion"))
	if !slices.Contains(kinds, kind) {
		return nil, fmt.Errorf("functionConfig: kind %q is not supported by %s; use %s", kind, c.name, strings.Join(kinds, " or "))
	}
	want := "fn.kpt.dev/v1alpha1"
	if kind == "ConfigMap" {
		want = "v1"
	}
	// Some examples in the documentation of functions have v1 for all kinds.
	if version != "" && version != want && (kind == "ConfigMap" || version != "v1") {
		return nil, fmt.Errorf("functionConfig: apiVersion %q of %s is not supported; use %s", version, kind, want)
	}
	return root, nil
}

// decode decodes a functionConfig of one of some kinds. Unknown fields are an error.
func (c *call) decode(into any, kinds ...string) error {
	root, err := c.configRoot(kinds...)
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
	if err := kpt.DecodeStrictly(own, into); err != nil {
		return fmt.Errorf("functionConfig: %w", err)
	}
	return nil
}
