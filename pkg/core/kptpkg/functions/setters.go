package functions

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

const setterComment = "kpt-set:"

var setterName = regexp.MustCompile(`\$\{([^${}]+)\}`)

// applySetters sets the values whose comments name setters, like "# kpt-set: nginx:${tag}".
func applySetters(c *call) error {
	pairs, err := c.pairs()
	if err != nil {
		return err
	}
	if len(pairs) == 0 {
		return errors.New("functionConfig: data must give a value to at least one setter")
	}
	values := map[string]string{}
	for _, p := range pairs {
		values[p.key] = p.value
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

// setterPattern is the pattern in the comment of a value. That of a list in lines stands behind the list's name.
func setterPattern(key, n *yaml.Node) string {
	for _, comment := range []string{n.LineComment, lineCommentOf(key, n)} {
		if pattern, ok := strings.CutPrefix(strings.TrimSpace(strings.TrimPrefix(comment, "#")), setterComment); ok {
			return strings.TrimSpace(pattern)
		}
	}
	return ""
}

func lineCommentOf(key, n *yaml.Node) string {
	if key == nil || n.Kind == yaml.MappingNode {
		return ""
	}
	return key.LineComment
}

// set sets a value by its pattern. It returns what it was set to, "" if it was left as it is.
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
		if now, ok := current[name]; ok {
			return now
		}
		if !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
		return reference
	})
	if len(missing) > 0 {
		return "", fmt.Errorf("values for setters %q must be provided: they cannot be told from %q by pattern %q", missing, n.Value, pattern)
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
		return "", fmt.Errorf("a list is set by one setter alone, like ${%s}, not by %q", match[1], pattern)
	}
	value := values[match[1]]
	var parsed yaml.Node
	if err := yaml.Unmarshal([]byte(value), &parsed); err != nil {
		return "", fmt.Errorf("setter %q must be a list in YAML: %s", match[1], oneLine(err))
	}
	list := content(&parsed)
	if list == nil || list.Kind != yaml.SequenceNode || slices.ContainsFunc(list.Content, func(e *yaml.Node) bool { return e.Kind == yaml.AliasNode }) {
		return "", fmt.Errorf("setter %q must be a list in YAML, like [a, b]", match[1])
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

// currentValues tells the setters' values from a value that was set by the pattern before. A setter that is there twice must say the
// same both times.
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
		if before, twice := out[name]; twice && before != match[i+1] {
			return nil
		}
		out[name] = match[i+1]
	}
	return out
}
