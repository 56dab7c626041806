package functions

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

const setterComment = "kpt-set:"

var setterName = regexp.MustCompile(`\$\{([^${}]+)\}`)

// applySetters sets the values whose comments name setters, like "# kpt-set: nginx:${tag}".
func applySetters(c *call) error {
	values, err := c.data()
	if err != nil {
		return err
	}
	if len(values) == 0 {
		return errors.New("functionConfig: data must give a value to at least one setter")
	}
	for _, item := range c.items {
		w := walker{item: item}
		err := w.walk(item.root(), nil, nil, func(key, n *yaml.Node, path []string) error {
			pattern := setterPattern(key, n)
			if pattern == "" {
				return nil
			}
			changed, err := set(w.typed(n, path), n, pattern, values)
			if err != nil {
				return fmt.Errorf("%s: field %s: %w", item, fieldPath(path), err)
			}
			if changed != "" {
				c.of(item, Info, fieldPath(path), "set field value to %q", changed)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if len(c.results) == 0 {
		c.info("no field was changed")
	}
	return nil
}

// setterPattern returns the pattern in the comment of a value. The comment of a block list is after
// its key.
func setterPattern(key, n *yaml.Node) string {
	comments := []string{n.LineComment}
	if key != nil && n.Kind != yaml.MappingNode {
		comments = append(comments, key.LineComment)
	}
	for _, comment := range comments {
		if pattern, ok := strings.CutPrefix(strings.TrimSpace(strings.TrimPrefix(comment, "#")), setterComment); ok {
			return strings.TrimSpace(pattern)
		}
	}
	return ""
}

// set sets a value by its pattern. It returns the new value; "" if it did not change.
func set(assign func(string), n *yaml.Node, pattern string, values map[string]string) (string, error) {
	names := setterName.FindAllStringSubmatch(pattern, -1)
	if !slices.ContainsFunc(names, func(m []string) bool { _, given := values[m[1]]; return given }) {
		return "", nil
	}
	if n.Kind == yaml.SequenceNode {
		return setList(n, pattern, values)
	}
	if n.Kind != yaml.ScalarNode {
		return "", errors.New("a setter cannot set a mapping")
	}
	current := currentValues(pattern, n.Value)
	var missing []string
	value := setterName.ReplaceAllStringFunc(pattern, func(reference string) string {
		name := reference[2 : len(reference)-1]
		if given, ok := values[name]; ok {
			return given
		}
		if value, ok := current[name]; ok {
			return value
		}
		if !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
		return reference
	})
	if len(missing) > 0 {
		return "", fmt.Errorf("values for setters %q must be provided: they cannot be derived from %q by pattern %q", missing, n.Value, pattern)
	}
	if value == n.Value {
		return "", nil
	}
	assign(value)
	return value, nil
}

func setList(n *yaml.Node, pattern string, values map[string]string) (string, error) {
	match := setterName.FindStringSubmatch(pattern)
	if match[0] != pattern {
		return "", fmt.Errorf("a list must have a pattern of one setter, such as ${%s}, not %q", match[1], pattern)
	}
	value := values[match[1]]
	var parsed yaml.Node
	if err := yaml.Unmarshal([]byte(value), &parsed); err != nil {
		return "", fmt.Errorf("setter %q must be a list in YAML: %s", match[1], strings.TrimPrefix(err.Error(), "yaml: "))
	}
	list := kpt.Content(&parsed)
	if list == nil || list.Kind != yaml.SequenceNode || slices.ContainsFunc(list.Content, func(e *yaml.Node) bool { return e.Kind == yaml.AliasNode }) {
		return "", fmt.Errorf("setter %q must be a list in YAML, such as [a, b]", match[1])
	}
	before, err := yaml.Marshal(n)
	if err != nil {
		return "", err
	}
	style := n.Style
	n.Content = list.Content
	n.Style = style
	after, err := yaml.Marshal(n)
	if err != nil {
		return "", err
	}
	if string(before) == string(after) {
		return "", nil
	}
	return strings.TrimSpace(value), nil
}

// currentValues derives the values of setters from a value that was set by the pattern before. If a
// setter occurs more than once, its values must be equal.
func currentValues(pattern, value string) map[string]string {
	var expression strings.Builder
	var names []string
	last := 0
	for _, m := range setterName.FindAllStringSubmatchIndex(pattern, -1) {
		expression.WriteString(regexp.QuoteMeta(pattern[last:m[0]]) + "(.*)")
		names = append(names, pattern[m[2]:m[3]])
		last = m[1]
	}
	expression.WriteString(regexp.QuoteMeta(pattern[last:]))
	compiled, err := regexp.Compile("^(?s:" + expression.String() + ")$")
	if err != nil {
		return nil
	}
	match := compiled.FindStringSubmatch(value)
	if match == nil {
		return nil
	}
	out := map[string]string{}
	for i, name := range names {
		if before, duplicate := out[name]; duplicate && before != match[i+1] {
			return nil
		}
		out[name] = match[i+1]
	}
	return out
}
