package merge

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// mergeComments copies the comments that upstream changed to local, unless they were changed
// locally.
func (m *fields) mergeComments(original, updated, local *yaml.Node) {
	m.commentsInto(original, updated, local, local)
}

// commentsInto merges the comments of a node into the node that is in the result, which is updated
// or local.
func (m *fields) commentsInto(original, updated, local, result *yaml.Node) {
	if updated == nil || local == nil {
		return
	}
	if original == nil {
		original = &yaml.Node{}
	}
	for _, c := range []struct{ original, updated, local, result *string }{
		{&original.HeadComment, &updated.HeadComment, &local.HeadComment, &result.HeadComment},
		{&original.LineComment, &updated.LineComment, &local.LineComment, &result.LineComment},
		{&original.FootComment, &updated.FootComment, &local.FootComment, &result.FootComment},
	} {
		merged := *c.local
		if *c.local == *c.original {
			merged = *c.updated
		}
		if *c.result != merged {
			*c.result, m.changed = merged, true
		}
	}
}

// commentsBelow is commentsInto for a node and all nodes below it. The fields of mappings are
// matched by name, and the elements of lists, which have no keys here, by value. An element that
// only one side has keeps its comments: a setter in the comment of another value would overwrite
// that value.
func (m *fields) commentsBelow(original, updated, local, result *yaml.Node) {
	m.commentsInto(original, updated, local, result)
	if updated == nil || local == nil || updated.Kind != local.Kind || !hasComments(original) && !hasComments(updated) && !hasComments(local) {
		return
	}
	if original == nil || original.Kind != updated.Kind {
		original = &yaml.Node{}
	}
	into := func(u, l *yaml.Node) *yaml.Node {
		if result == local {
			return l
		}
		return u
	}
	switch updated.Kind {
	case yaml.MappingNode:
		atO, atL := positions(original), positions(local)
		for i := 0; i+1 < len(updated.Content); i += 2 {
			key, value := updated.Content[i], updated.Content[i+1]
			j, known := atL[scalar(key)]
			if !known {
				continue
			}
			var keyO, valueO *yaml.Node
			if k, known := atO[scalar(key)]; known {
				keyO, valueO = original.Content[k], original.Content[k+1]
			}
			m.commentsInto(keyO, key, local.Content[j], into(key, local.Content[j]))
			m.commentsBelow(valueO, value, local.Content[j+1], into(value, local.Content[j+1]))
		}
	case yaml.SequenceNode:
		ofO, ofL := byValue(original), byValue(local)
		for _, u := range updated.Content {
			value := canonical(u)
			o, l := ofO.next(value), ofL.next(value)
			m.commentsBelow(o, u, l, into(u, l))
		}
	default:
	}
}

// positions returns the indexes of the fields of a mapping in its content.
func positions(mapping *yaml.Node) map[string]int {
	at := make(map[string]int, len(mapping.Content)/2)
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		at[scalar(mapping.Content[i])] = i
	}
	return at
}

// elements are those of a list, by their values, in order.
type elements map[string][]*yaml.Node

func byValue(list *yaml.Node) elements {
	e := elements{}
	for _, element := range list.Content {
		value := canonical(element)
		e[value] = append(e[value], element)
	}
	return e
}

// next returns the next element of a value, nil if there is none.
func (e elements) next(value string) *yaml.Node {
	all := e[value]
	if len(all) == 0 {
		return nil
	}
	e[value] = all[1:]
	return all[0]
}

// canonical returns a text that is the same for equal values.
func canonical(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return fmt.Sprintf("%q", scalar(n))
	}
	var parts []string
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			parts = append(parts, canonical(n.Content[i])+":"+canonical(n.Content[i+1]))
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ",") + "}"
	}
	for _, child := range n.Content {
		parts = append(parts, canonical(child))
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func hasComments(n *yaml.Node) bool {
	if n == nil {
		return false
	}
	return n.HeadComment+n.LineComment+n.FootComment != "" || slices.ContainsFunc(n.Content, hasComments)
}
