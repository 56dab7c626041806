package functions

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// What functions say goes into conditions, statuses and onto terminals, for whoever may read those; values of Secrets are for those who may
// read the files. So they are taken out of all texts, whoever wrote them: a Starlark program prints what it likes.

const (
	// withheld stands for a value of a Secret.
	withheld = "***"
	// leastSecret is the length from which on values are withheld. Shorter ones are parts of many words.
	leastSecret = 4
	// appliedAnnotation has a copy of the whole object.
	appliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"
)

// secrets are values of Secrets.
type secrets struct {
	values map[string]bool
	// seen are nodes to which aliases led, by whether they are within a Secret's data: many aliases may lead to the same one.
	seen map[seenNode]bool
}

type seenNode struct {
	node   *yaml.Node
	within bool
}

// of adds what the items hold.
func (s *secrets) of(items []Item) {
	if s.values == nil {
		s.values, s.seen = map[string]bool{}, map[seenNode]bool{}
	}
	clear(s.seen)
	for _, item := range items {
		s.find(item.Node.YNode(), false)
	}
}

// find goes through a node: Secrets may stand in lists of objects, and in templates.
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
		secret := text(get(n, "kind")) == "Secret"
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i].Value
			s.find(n.Content[i+1], within || secret && (key == "data" || key == "stringData"))
		}
		if secret {
			s.find(get(n, "metadata", "annotations", appliedAnnotation), true)
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

// add adds a value in the forms in which it is printed: as it is, decoded, quoted, and line by line.
func (s *secrets) add(value string) {
	forms := []string{value}
	if decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(value)); err == nil {
		forms = append(forms, string(decoded))
	}
	for _, form := range forms {
		quoted := strconv.Quote(form)
		s.note(form)
		s.note(quoted[1 : len(quoted)-1])
		for line := range strings.Lines(form) {
			s.note(strings.TrimSpace(line))
		}
	}
}

func (s *secrets) note(form string) {
	if len(form) >= leastSecret {
		s.values[form] = true
	}
}

// replacer takes the values out of a text; nil if there are none.
func (s *secrets) replacer() *strings.Replacer {
	if len(s.values) == 0 {
		return nil
	}
	var values []string
	for value := range s.values {
		values = append(values, value)
	}
	// Of two that begin alike, the longer one first.
	slices.SortFunc(values, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	var pairs []string
	for _, value := range values {
		pairs = append(pairs, value, withheld)
	}
	return strings.NewReplacer(pairs...)
}

// withheldError is an error with another text.
type withheldError struct {
	error
	text string
}

func (e *withheldError) Error() string { return e.text }

func (e *withheldError) Unwrap() error { return e.error }

// withhold takes what Secrets hold, before a function and after it, out of what it said.
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
	said := out.Replace(c.stderr.String())
	c.stderr.Reset()
	c.stderr.WriteString(said)
	if err == nil {
		return nil
	}
	return &withheldError{err, out.Replace(err.Error())}
}
