package functions

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"go.starlark.net/starlark"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// toStarlark converts a node to a value.
func toStarlark(n *yaml.Node, depth int) (starlark.Value, error) {
	n = kpt.Content(n)
	if n == nil {
		return starlark.None, nil
	}
	if depth > maxValueDepth {
		return nil, fmt.Errorf("is nested deeper than %d", maxValueDepth)
	}
	switch {
	case n.Kind == yaml.MappingNode:
		dict := starlark.NewDict(len(n.Content) / 2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			value, err := toStarlark(n.Content[i+1], depth+1)
			if err != nil {
				return nil, err
			}
			if err := dict.SetKey(starlark.String(kpt.Content(n.Content[i]).Value), value); err != nil {
				return nil, err
			}
		}
		return dict, nil
	case n.Kind == yaml.SequenceNode:
		elements := make([]starlark.Value, 0, len(n.Content))
		for _, element := range n.Content {
			value, err := toStarlark(element, depth+1)
			if err != nil {
				return nil, err
			}
			elements = append(elements, value)
		}
		return starlark.NewList(elements), nil
	}
	return scalarToStarlark(n), nil
}

func scalarToStarlark(n *yaml.Node) starlark.Value {
	switch n.ShortTag() {
	case "!!null":
		return starlark.None
	case "!!bool":
		var value bool
		if n.Decode(&value) == nil {
			return starlark.Bool(value)
		}
	case "!!int":
		if value, ok := new(big.Int).SetString(strings.ReplaceAll(n.Value, "_", ""), 0); ok && len(n.Value) < 100 {
			return starlark.MakeBigInt(value)
		}
	case "!!float":
		var value float64
		if n.Decode(&value) == nil {
			return starlark.Float(value)
		}
	}
	return starlark.String(n.Value)
}

// fromStarlark converts a value to a node.
func fromStarlark(value starlark.Value, depth int) (*yaml.Node, error) {
	if depth > maxValueDepth {
		return nil, fmt.Errorf("is nested deeper than %d", maxValueDepth)
	}
	switch v := value.(type) {
	case starlark.NoneType:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
	case starlark.Bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(bool(v))}, nil
	case starlark.Int:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: v.String()}, nil
	case starlark.Float:
		if f := float64(v); math.IsInf(f, 0) || math.IsNaN(f) {
			return nil, fmt.Errorf("%v cannot be written in JSON", v)
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: strconv.FormatFloat(float64(v), 'g', -1, 64)}, nil
	case starlark.String:
		if strings.ContainsRune(string(v), 0) {
			return nil, errors.New("a string has a zero byte")
		}
		return stringNode(strings.ToValidUTF8(string(v), "\uFFFD")), nil
	case *starlark.Dict:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, item := range v.Items() {
			key, ok := starlark.AsString(item[0])
			if !ok {
				return nil, fmt.Errorf("key %s must be a string, is of type %s", item[0], item[0].Type())
			}
			child, err := fromStarlark(item[1], depth+1)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			n.Content = append(n.Content, stringNode(key), child)
		}
		return n, nil
	case *starlark.List, starlark.Tuple, *starlark.Set:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		iterator := v.(starlark.Iterable).Iterate() //nolint:forcetypeassert // all three are
		defer iterator.Done()
		var element starlark.Value
		for iterator.Next(&element) {
			child, err := fromStarlark(element, depth+1)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		return n, nil
	}
	return nil, fmt.Errorf("a value of type %s cannot be written in YAML", value.Type())
}
