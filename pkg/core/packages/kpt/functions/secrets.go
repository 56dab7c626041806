package functions

import (
	"cmp"
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// Messages of functions are shown in conditions, in statuses and on terminals, to users who may not
// be allowed to read the files. Therefore values of Secrets are replaced in all of them, including
// the output of Starlark programs.

const (
	// withheld replaces a value of a Secret.
	withheld = "***"
	// leastSecret is the minimum length of values that are replaced. Shorter values are parts of
	// many words.
	leastSecret = 4
	// appliedAnnotation holds a copy of the whole object.
	appliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"
)

// secrets are values of Secrets.
type secrets struct {
	values map[string]bool
	// seen are the visited targets of aliases, inside and outside of the data of Secrets: many
	// aliases may have the same target.
	seen map[seenNode]bool
}

type seenNode struct {
	node   *yaml.Node
	within bool
}

// of adds the values of the Secrets among the items.
func (s *secrets) of(items []Item) {
	if s.values == nil {
		s.values, s.seen = map[string]bool{}, map[seenNode]bool{}
	}
	clear(s.seen)
	for _, item := range items {
		s.find(item.Node.YNode(), false)
	}
}

// find adds the values of a node. Secrets may also be in lists of objects and in templates.
func (s *secrets) find(n *yaml.Node, within bool) {
	if n == nil {
		return
	}
	switch n.Kind {
	case yaml.AliasNode:
		if target := (seenNode{n.Alias, within}); !s.seen[target] {
			s.seen[target] = true
			s.find(n.Alias, within)
		}
	case yaml.MappingNode:
		secret := kpt.TextOf(kpt.Get(n, "kind")) == "Secret"
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i].Value
			s.find(n.Content[i+1], within || secret && (key == "data" || key == "stringData"))
		}
		if secret {
			s.find(kpt.Get(n, "metadata", "annotations", appliedAnnotation), true)
		}
	case yaml.ScalarNode:
		if within {
			s.add(n.Value)
		}
	default:
		for _, child := range n.Content {
			s.find(child, within)
		}
	}
}

// add adds a value in all forms in which it may be printed: unchanged, decoded, quoted, and line by
// line.
func (s *secrets) add(value string) {
	forms := []string{value}
	if decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(value)); err == nil {
		forms = append(forms, string(decoded))
	}
	for _, form := range forms {
		quoted := strconv.Quote(form)
		s.addForm(form)
		s.addForm(quoted[1 : len(quoted)-1])
		for line := range strings.Lines(form) {
			s.addForm(strings.TrimSpace(line))
		}
	}
}

func (s *secrets) addForm(form string) {
	if len(form) >= leastSecret {
		s.values[form] = true
	}
}

// replacer returns a replacer of the values; nil if there are none.
func (s *secrets) replacer() *strings.Replacer {
	if len(s.values) == 0 {
		return nil
	}
	// A longer value precedes its prefixes.
	order := func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) }
	var pairs []string
	for _, value := range slices.SortedFunc(maps.Keys(s.values), order) {
		pairs = append(pairs, value, withheld)
	}
	return strings.NewReplacer(pairs...)
}

// withheldError is an error with another message.
type withheldError struct {
	error
	text string
}

func (e *withheldError) Error() string { return e.text }

func (e *withheldError) Unwrap() error { return e.error }

// withhold replaces the values of Secrets, before and after a function, in its results, output and
// error.
func (c *call) withhold(before *secrets, err error) error {
	if err == nil && len(c.results) == 0 && c.stderr.Len() == 0 {
		return nil
	}
	before.of(c.items)
	out := before.replacer()
	if out == nil {
		return err
	}
	for i := range c.results {
		c.results[i].Message = out.Replace(c.results[i].Message)
	}
	stderr := out.Replace(c.stderr.String())
	c.stderr.Reset()
	c.stderr.WriteString(stderr)
	if err == nil {
		return nil
	}
	return &withheldError{err, out.Replace(err.Error())}
}
