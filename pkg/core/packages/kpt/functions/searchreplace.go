package functions

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// search is the decoded functionConfig: what to find and how to change it.
type search struct {
	value, filePath *regexp.Regexp
	exact           *string
	path            []string
	putValue        *string
	putComment      *string
}

// searchReplace finds fields by value, path and file, and sets their values or comments.
func searchReplace(c *call) error {
	s, err := c.search()
	if err != nil {
		return err
	}
	matched := 0
	for _, item := range c.items {
		if s.filePath != nil && !s.filePath.MatchString(item.Path) {
			continue
		}
		found, err := s.object(c, item)
		if err != nil {
			return fmt.Errorf("%s: %w", item, err)
		}
		matched += found
	}
	c.info("%d field(s) matched", matched)
	return nil
}

func (c *call) search() (*search, error) {
	given, err := c.data("by-value", "by-value-regex", "by-path", "by-file-path", "put-value", "put-comment")
	if err != nil {
		return nil, err
	}
	s := &search{}
	matchers := 0
	for key, value := range given {
		matchers++
		switch key {
		case "by-value":
			s.exact = &value
		case "by-value-regex":
			s.value, err = regexp.Compile("^(?:" + value + ")$")
		case "by-path":
			s.path, err = splitPathPattern(value)
		case "by-file-path":
			s.filePath, err = Glob(value)
		case "put-value":
			s.putValue = &value
			matchers--
		case "put-comment":
			s.putComment = &value
			matchers--
		}
		if err != nil {
			return nil, fmt.Errorf("functionConfig: data.%s: %w", key, err)
		}
	}
	if matchers == 0 {
		return nil, errors.New("functionConfig: at least one of by-value, by-value-regex, by-path and by-file-path is required")
	}
	return s, nil
}

func (s *search) object(c *call, item Item) (int, error) {
	matched := 0
	w := walker{item: item}
	err := w.walk(item.root(), nil, nil, func(_, n *yaml.Node, path []string) error {
		if n.Kind != yaml.ScalarNode || !s.matches(n, path) {
			return nil
		}
		matched++
		return s.apply(c, &w, n, path)
	})
	if err != nil || matched > 0 || !s.creates() || item.isKptfile() {
		return matched, err
	}
	// With a path of names only, a missing field is created.
	last := len(s.path) - 1
	parent := ensureMapping(item.root(), s.path[:last]...)
	if parent == nil || kpt.Get(parent, s.path[last]) != nil && !isNull(kpt.Get(parent, s.path[last])) {
		return 0, nil
	}
	n := stringNode("")
	kpt.Set(parent, s.path[last], n)
	return 1, s.apply(c, &w, n, s.path)
}

// creates reports whether one field is set independently of its current value.
func (s *search) creates() bool {
	return s.putValue != nil && s.exact == nil && s.value == nil && len(s.path) > 0 &&
		!slices.ContainsFunc(s.path, func(part string) bool { return part == "*" || part == "**" || strings.HasPrefix(part, "[") })
}

func (s *search) matches(n *yaml.Node, path []string) bool {
	return (s.exact == nil || *s.exact == n.Value) && (s.value == nil || s.value.MatchString(n.Value)) && (s.path == nil || pathMatches(s.path, path))
}

func (s *search) apply(c *call, w *walker, n *yaml.Node, path []string) error {
	groups := []string{n.Value}
	if s.value != nil {
		groups = s.value.FindStringSubmatch(n.Value)
	}
	reported := false
	if s.putComment != nil {
		comment, err := s.expand(*s.putComment, groups)
		if err != nil {
			return err
		}
		if strings.ContainsAny(comment, "\n\r") {
			return errors.New("put-comment must have one line")
		}
		n.LineComment = "# " + comment
		c.of(w.item, Info, fieldPath(path), "Added line comment %q", comment)
		reported = true
	}
	if s.putValue != nil {
		value, err := s.expand(*s.putValue, groups)
		if err != nil {
			return err
		}
		if value != n.Value || n.Style == 0 && n.ShortTag() == "!!null" {
			w.typed(n, path)(value)
		}
		c.of(w.item, Info, fieldPath(path), "Mutated field value to %q", value)
		reported = true
	}
	if !reported {
		c.of(w.item, Info, fieldPath(path), "Matched field value %q", n.Value)
	}
	return nil
}

var group = regexp.MustCompile(`\$\{(\d+)\}`)

// expand replaces ${1}, ${2}… by the groups of by-value-regex. Other references, such as those of
// setters, stay.
func (s *search) expand(pattern string, groups []string) (string, error) {
	if s.value == nil {
		return pattern, nil
	}
	var err error
	out := group.ReplaceAllStringFunc(pattern, func(reference string) string {
		number, errNumber := strconv.Atoi(reference[2 : len(reference)-1])
		if errNumber != nil || number >= len(groups) {
			err = fmt.Errorf("%s: by-value-regex does not have this group", reference)
			return reference
		}
		return groups[number]
	})
	return out, err
}

// splitPathPattern splits a pattern like spec.**.containers[*].image.
func splitPathPattern(pattern string) ([]string, error) {
	if pattern == "" {
		return nil, errors.New("must not be empty")
	}
	var out []string
	var part strings.Builder
	flush := func() {
		if part.Len() > 0 {
			out = append(out, part.String())
			part.Reset()
		}
	}
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern) && strings.IndexByte(`.[\`, pattern[i+1]) >= 0:
			i++
			part.WriteByte(pattern[i])
		case c == '.':
			flush()
		case c == '[':
			flush()
			end := strings.IndexByte(pattern[i:], ']')
			if end < 0 {
				return nil, errors.New("has an unclosed bracket")
			}
			out = append(out, pattern[i:i+end+1])
			i += end
		default:
			part.WriteByte(c)
		}
	}
	flush()
	if len(out) == 0 || strings.HasPrefix(pattern, ".") || strings.Contains(pattern, "..") || strings.HasSuffix(pattern, ".") {
		return nil, fmt.Errorf("%q is invalid", pattern)
	}
	for _, part := range out {
		if inner, ok := strings.CutPrefix(part, "["); ok && part != "[*]" {
			if _, err := strconv.Atoi(strings.TrimSuffix(inner, "]")); err != nil {
				return nil, fmt.Errorf("%s: brackets must have a number or *", part)
			}
		}
	}
	return out, nil
}

// pathMatches reports whether a path matches a pattern. It keeps the set of reached positions, so
// that the cost is at most the product of the lengths.
func pathMatches(pattern, path []string) bool {
	reached := make([]bool, len(path)+1)
	reached[0] = true
	for _, part := range pattern {
		next := make([]bool, len(path)+1)
		for i := range reached {
			if !reached[i] {
				continue
			}
			switch {
			case part == "**":
				for j := i; j <= len(path); j++ {
					next[j] = true
				}
			case i < len(path) && partMatches(part, path[i]):
				next[i+1] = true
			}
			if part == "**" {
				break
			}
		}
		reached = next
	}
	return reached[len(path)]
}

func partMatches(pattern, part string) bool {
	element := strings.HasPrefix(part, "[")
	switch pattern {
	case "*":
		return !element
	case "[*]":
		return element
	}
	return pattern == part
}

// Glob compiles a pattern of file paths: * and ? match within a name, ** matches any directories,
// [a-z] and [!a] match characters, {a,b} matches alternatives, and a backslash escapes a character.
func Glob(pattern string) (*regexp.Regexp, error) {
	var out strings.Builder
	depth := 0
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern):
			i++
			out.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		case c == '*' && strings.HasPrefix(pattern[i:], "**"):
			before := i == 0 || pattern[i-1] == '/'
			i++
			switch after := pattern[i+1:]; {
			case before && strings.HasPrefix(after, "/"):
				out.WriteString("(?:[^/]+/)*")
				i++
			case before && after == "":
				out.WriteString(".*")
			default: // the same as one star, as in bash
				out.WriteString("[^/]*")
			}
		case c == '*':
			out.WriteString("[^/]*")
		case c == '?':
			out.WriteString("[^/]")
		case c == '[':
			end := strings.IndexByte(pattern[i+1:], ']')
			if end < 1 {
				return nil, errors.New("has an unclosed character class")
			}
			class := pattern[i+1 : i+1+end]
			if class[0] == '!' || class[0] == '^' {
				class = "^/" + escapeClass(class[1:])
			} else {
				class = escapeClass(class)
			}
			out.WriteString("[" + class + "]")
			i += end + 1
		case c == '{':
			depth++
			out.WriteString("(?:")
		case c == '}' && depth > 0:
			depth--
			out.WriteByte(')')
		case c == ',' && depth > 0:
			out.WriteByte('|')
		default:
			out.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		}
	}
	if depth > 0 {
		return nil, errors.New("has an unclosed brace")
	}
	return regexp.Compile("^(?s:" + out.String() + ")$")
}

func escapeClass(class string) string {
	return strings.NewReplacer(`\`, `\\`, `[`, `\[`, `^`, `\^`, `&`, `\&`, `~`, `\~`).Replace(class)
}
