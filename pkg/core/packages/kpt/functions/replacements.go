package functions

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/kustomize/kyaml/utils"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/text"
)

type replacement struct {
	Source      *replacementSource  `yaml:"source"`
	SourceValue *string             `yaml:"sourceValue"`
	Targets     []replacementTarget `yaml:"targets"`
}

type identity struct {
	Group     string `yaml:"group"`
	Version   string `yaml:"version"`
	Kind      string `yaml:"kind"`
	Name      string `yaml:"name"`
	Namespace string `yaml:"namespace"`
}

func (i identity) matches(item Item) bool {
	return item.matches(i.Group, i.Version, i.Kind, i.Name, i.Namespace)
}

func (i identity) String() string {
	var parts []string
	for _, part := range [][2]string{{"group", i.Group}, {"version", i.Version}, {"kind", i.Kind}, {"name", i.Name}, {"namespace", i.Namespace}} {
		if part[1] != "" {
			parts = append(parts, part[0]+"="+part[1])
		}
	}
	return "{" + strings.Join(parts, " ") + "}"
}

type replacementSource struct {
	identity  `yaml:",inline"`
	FieldPath string              `yaml:"fieldPath"`
	Options   *replacementOptions `yaml:"options"`
}

// targetSelector also selects by labels and annotations, in the format of kubectl's --selector.
type targetSelector struct {
	identity    `yaml:",inline"`
	Labels      string `yaml:"labelSelector"`
	Annotations string `yaml:"annotationSelector"`

	labels, annotations labels.Selector
}

// parse parses the selectors.
func (s *targetSelector) parse() (err error) {
	if s.labels, err = labels.Parse(s.Labels); err != nil {
		return fmt.Errorf("labelSelector %q: %w", s.Labels, err)
	}
	if s.annotations, err = labels.Parse(s.Annotations); err != nil {
		return fmt.Errorf("annotationSelector %q: %w", s.Annotations, err)
	}
	return nil
}

func (s *targetSelector) matches(item Item) bool {
	return s.identity.matches(item) && s.labels.Matches(item.pairs("labels")) && s.annotations.Matches(item.pairs("annotations"))
}

type replacementTarget struct {
	Select     *targetSelector     `yaml:"select"`
	Reject     []targetSelector    `yaml:"reject"`
	FieldPaths []string            `yaml:"fieldPaths"`
	Options    *replacementOptions `yaml:"options"`
}

type replacementOptions struct {
	Delimiter string `yaml:"delimiter"`
	Index     int    `yaml:"index"`
	Create    bool   `yaml:"create"`
}

const defaultFieldPath = "metadata.name"

// applyReplacements copies values from one object to others, as kustomize's replacements do.
func applyReplacements(c *call) error {
	var config struct {
		Replacements []replacement `yaml:"replacements"`
	}
	if err := c.decode(&config, "ApplyReplacements"); err != nil {
		return err
	}
	if len(config.Replacements) == 0 {
		return errors.New("functionConfig: at least one replacement is required")
	}
	for i, r := range config.Replacements {
		if err := c.replace(r); err != nil {
			return fmt.Errorf("replacements[%d]: %w", i, err)
		}
	}
	return nil
}

func (c *call) replace(r replacement) error {
	if len(r.Targets) == 0 {
		return errors.New("targets are required")
	}
	value, err := c.source(r)
	if err != nil {
		return err
	}
	for i, target := range r.Targets {
		if target.Select == nil {
			return fmt.Errorf("targets[%d]: select is required", i)
		}
		if len(target.FieldPaths) == 0 {
			target.FieldPaths = []string{defaultFieldPath}
		}
		if err := target.Select.parse(); err != nil {
			return fmt.Errorf("targets[%d].select: %w", i, err)
		}
		for j := range target.Reject {
			if err := target.Reject[j].parse(); err != nil {
				return fmt.Errorf("targets[%d].reject[%d]: %w", i, j, err)
			}
		}
		for _, item := range c.items {
			rejected := slices.ContainsFunc(target.Reject, func(reject targetSelector) bool { return reject.matches(item) })
			if rejected || !target.Select.matches(item) {
				continue
			}
			for _, path := range target.FieldPaths {
				if err := c.replaceIn(item, path, value, target.Options); err != nil {
					return fmt.Errorf("targets[%d]: %s: %w", i, item, err)
				}
			}
		}
	}
	return nil
}

// source returns the value to copy.
func (c *call) source(r replacement) (*yaml.Node, error) {
	switch {
	case r.Source != nil && r.SourceValue != nil:
		return nil, errors.New("source and sourceValue are mutually exclusive")
	case r.SourceValue != nil:
		return stringNode(*r.SourceValue), nil
	case r.Source == nil:
		return nil, errors.New("one of source and sourceValue is required")
	}
	var found []Item
	for _, item := range c.items {
		if r.Source.matches(item) {
			found = append(found, item)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("source %s must match exactly one object, matches %d", r.Source.identity, len(found))
	}
	path := cmp.Or(r.Source.FieldPath, defaultFieldPath)
	fields, err := splitFieldPath(path)
	if err != nil {
		return nil, err
	}
	values, err := find(found[0].root(), fields, false)
	if err != nil {
		return nil, fmt.Errorf("source %s: %w", found[0], err)
	}
	if len(values) != 1 {
		return nil, fmt.Errorf("source %s: field %q must have exactly one value, has %d", found[0], path, len(values))
	}
	value := yaml.CopyYNode(values[0])
	if o := r.Source.Options; o != nil && o.Delimiter != "" {
		if value.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("source %s: delimiter requires a scalar in field %q", found[0], path)
		}
		parts := strings.Split(value.Value, o.Delimiter)
		if o.Index < 0 || o.Index >= len(parts) {
			return nil, fmt.Errorf("source %s: index %d is out of range: field %q has %s", found[0], o.Index, path, text.Count(len(parts), "part"))
		}
		value = stringNode(parts[o.Index])
	} else if o != nil && o.Index != 0 {
		return nil, errors.New("source: index requires a delimiter")
	}
	value.HeadComment, value.LineComment, value.FootComment = "", "", ""
	return value, nil
}

func (c *call) replaceIn(item Item, path string, value *yaml.Node, options *replacementOptions) error {
	fields, err := splitFieldPath(path)
	if err != nil {
		return err
	}
	if options == nil {
		options = &replacementOptions{}
	}
	found, err := find(item.root(), fields, options.Create)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("field %q does not exist; use options.create to create it", path)
	}
	w := walker{item: item}
	for _, n := range found {
		switch {
		case options.Delimiter != "":
			if n.Kind != yaml.ScalarNode || value.Kind != yaml.ScalarNode {
				return fmt.Errorf("field %q: delimiter requires scalars", path)
			}
			w.copied(n, fields, splice(n.Value, value.Value, *options))
		case options.Index != 0:
			return errors.New("options: index requires a delimiter")
		case value.Kind == yaml.ScalarNode && n.Kind == yaml.ScalarNode && !isNull(n):
			w.copied(n, fields, value.Value)
		default:
			patch(n, value)
		}
	}
	return nil
}

// copied sets a scalar to a copied value, with the type of the target.
func (w *walker) copied(n *yaml.Node, path []string, value string) {
	if n.Value == value {
		return
	}
	if n.ShortTag() == "!!str" {
		setString(n, value)
		return
	}
	w.typed(n, path)(value)
}

// splice replaces one part of a value. An index out of range inserts it at the beginning or the
// end.
func splice(before, value string, o replacementOptions) string {
	parts := strings.Split(before, o.Delimiter)
	switch {
	case o.Index < 0:
		parts = slices.Insert(parts, 0, value)
	case o.Index >= len(parts):
		parts = append(parts, value)
	default:
		parts[o.Index] = value
	}
	return strings.Join(parts, o.Delimiter)
}

// splitFieldPath splits a path at its dots, except those after a backslash and those in brackets.
func splitFieldPath(path string) ([]string, error) {
	parts := utils.SmarterPathSplitter(path, ".")
	if slices.Contains(parts, "") || strings.LastIndexByte(path, '[') > strings.LastIndexByte(path, ']') {
		return nil, fmt.Errorf("field path %q is invalid", path)
	}
	return parts, nil
}

// find returns the values at a path. In mappings, names may be in brackets. In lists, brackets
// select elements by a value, numbers select them by index, and * selects all.
func find(n *yaml.Node, path []string, create bool) ([]*yaml.Node, error) {
	n = kpt.Content(n)
	if len(path) == 0 {
		return []*yaml.Node{n}, nil
	}
	part := path[0]
	inner, bracketed := strings.CutPrefix(part, "[")
	if bracketed {
		inner = strings.TrimSuffix(inner, "]")
	}
	switch {
	case n.Kind == yaml.SequenceNode:
		return findInList(n, inner, bracketed, path, create)
	case n.Kind == yaml.MappingNode:
		if part == "*" {
			var values []*yaml.Node
			for i := 1; i < len(n.Content); i += 2 {
				values = append(values, n.Content[i])
			}
			return findInEach(values, path[1:], create)
		}
		child := kpt.Get(n, inner)
		if child == nil || isNull(child) && len(path) > 1 {
			if !create {
				return nil, nil
			}
			child = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
			if len(path) == 1 {
				child = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
			} else if next := path[1]; strings.HasPrefix(next, "[") && strings.Contains(next, "=") {
				child = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
			}
			kpt.Set(n, inner, child)
		}
		return find(child, path[1:], create)
	}
	if create {
		return nil, fmt.Errorf("field %q is below a scalar", part)
	}
	return nil, nil
}

func findInEach(nodes []*yaml.Node, path []string, create bool) ([]*yaml.Node, error) {
	var out []*yaml.Node
	for _, n := range nodes {
		found, err := find(n, path, create)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

func findInList(n *yaml.Node, inner string, bracketed bool, path []string, create bool) ([]*yaml.Node, error) {
	if key, value, selects := strings.Cut(inner, "="); bracketed && selects {
		var found []*yaml.Node
		for _, element := range n.Content {
			if e := kpt.Content(element); key == "" && kpt.TextOf(e) == value || key != "" && kpt.TextOf(kpt.Get(e, key)) == value {
				found = append(found, e)
			}
		}
		if len(found) == 0 && create {
			created := stringNode(value)
			if key != "" {
				created = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{stringNode(key), stringNode(value)}}
			}
			n.Content = append(n.Content, created)
			n.Style &^= yaml.FlowStyle
			found = append(found, created)
		}
		return findInEach(found, path[1:], create)
	}
	if inner == "*" {
		return findInEach(n.Content, path[1:], create)
	}
	index, err := strconv.Atoi(inner)
	if err != nil {
		return nil, fmt.Errorf("field path: %q does not select elements of a list: use a number, * or [key=value]", path[0])
	}
	if index < 0 || index >= len(n.Content) {
		return nil, nil
	}
	return find(n.Content[index], path[1:], create)
}
