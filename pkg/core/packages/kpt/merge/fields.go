package merge

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/openapi"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/text"
)

// fields merges the fields of one document. It changes the nodes of local, and moves nodes of
// updated into it.
type fields struct {
	// changed is true if the result differs from local.
	changed bool
	// conflict is called for each field that both sides changed.
	conflict func(field string, kept, deleted Side)
	// failed is the first failure.
	failed *failure
}

// failure is the reason why one of the three versions cannot be merged.
type failure struct {
	version version
	line    int // relative to the document
	text    string
}

// place is the position of a node. Its path and its schema are computed only when needed, because
// most places are scalars.
type place struct {
	parent *place
	// step is the step from the parent: the name of a field, or the key of an element.
	step    string
	element bool
	// find returns the schema of the root.
	find func() *openapi.ResourceSchema
	// known is the schema once it is resolved.
	known    *openapi.ResourceSchema
	resolved bool
}

func (p *place) field(name string) *place { return &place{parent: p, step: name} }

func (p *place) elementAt(shown string) *place { return &place{parent: p, step: shown, element: true} }

// schema returns the schema of the place, nil if it has none.
func (p *place) schema() *openapi.ResourceSchema {
	if p.resolved {
		return p.known
	}
	p.resolved = true
	if p.parent == nil {
		p.known = p.find()
		return p.known
	}
	switch above := p.parent.schema(); {
	case above == nil:
	case p.element:
		p.known = above.Elements()
	default:
		p.known = above.Field(p.step)
	}
	return p.known
}

// String returns the path of the field, truncated to about 300 bytes.
func (p *place) String() string {
	const limit = 300
	var steps []*place
	for ; p.parent != nil; p = p.parent {
		steps = append(steps, p)
	}
	var out strings.Builder
	for _, step := range slices.Backward(steps) {
		name := text.Clip(step.step, maxShown)
		switch {
		case step.element:
			out.WriteString("[" + name + "]")
		case name == "" || strings.ContainsAny(name, `.[]"' `):
			fmt.Fprintf(&out, "[%q]", name)
		case out.Len() > 0:
			out.WriteString("." + name)
		default:
			out.WriteString(name)
		}
		if out.Len() > limit {
			return out.String() + text.Ellipsis
		}
	}
	return out.String()
}

// merge returns the merged value of a field; nil if the result does not have it. A version that
// does not have the field is nil.
func (m *fields) merge(at *place, original, updated, local *yaml.Node) *yaml.Node {
	switch {
	case updated == nil && local == nil:
		return nil
	case updated == nil && original == nil:
		return local // added locally
	case local == nil && original == nil:
		m.changed = true
		return updated // added upstream
	}
	if kind := yaml.MappingNode; common(kind, original, updated, local) {
		return m.orGone(updated, local, m.mergeMappings(at, only(kind, original), only(kind, updated), only(kind, local)))
	}
	if kind := yaml.SequenceNode; common(kind, original, updated, local) {
		if o, u, l, ok := index(at, only(kind, original), only(kind, updated), only(kind, local)); ok {
			return m.orGone(updated, local, m.mergeLists(at, o, u, l))
		}
	}
	switch {
	case equal(original, updated), equal(updated, local):
		m.commentsBelow(original, updated, local, local)
		return local
	case !equal(original, local):
		m.conflict(at.String(), Upstream, deleted(updated != nil, local != nil))
	}
	m.changed = true
	if updated != nil && local != nil && updated.Kind == local.Kind {
		m.commentsBelow(original, updated, local, updated)
	}
	return updated
}

// common reports whether a field is merged as a mapping or list: upstream and local have that kind,
// or one of them deleted it.
func common(kind yaml.Kind, original, updated, local *yaml.Node) bool {
	is := func(n *yaml.Node) bool { return n != nil && n.Kind == kind }
	return is(updated) && is(local) || is(original) && (updated == nil && is(local) || local == nil && is(updated))
}

// only returns a node if it is of a kind, otherwise an empty node of that kind.
func only(kind yaml.Kind, n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == kind {
		return n
	}
	return &yaml.Node{Kind: kind}
}

// orGone returns nil for a field that one side deleted and that is empty after the merge.
func (m *fields) orGone(updated, local, merged *yaml.Node) *yaml.Node {
	if (updated == nil || local == nil) && len(merged.Content) == 0 {
		m.changed = m.changed || local != nil
		return nil
	}
	return merged
}

// deleted returns the side that deleted what the other side has.
func deleted(inUpdated, inLocal bool) Side {
	switch {
	case !inUpdated:
		return Upstream
	case !inLocal:
		return Local
	}
	return ""
}

// mergeMappings merges field by field. New fields have the position that they have upstream.
func (m *fields) mergeMappings(at *place, original, updated, local *yaml.Node) *yaml.Node {
	o, u, l := m.keys(originalVersion, original), m.keys(updatedVersion, updated), m.keys(localVersion, local)
	if m.failed != nil {
		return local
	}
	m.mergeComments(original, updated, local)
	type entry struct{ key, value *yaml.Node }
	merged := make(map[string]entry, len(l.order))
	for _, name := range l.order {
		m.mergeComments(o.key(original, name), u.key(updated, name), l.key(local, name))
		value := m.merge(at.field(l.key(local, name).Value), o.value(original, name), u.value(updated, name), l.value(local, name))
		if value != nil {
			merged[name] = entry{l.key(local, name), value}
		} else {
			m.changed = true
		}
	}
	for _, name := range u.order {
		if _, known := l.at[name]; known {
			continue
		}
		if value := m.merge(at.field(u.key(updated, name).Value), o.value(original, name), u.value(updated, name), nil); value != nil {
			m.changed = true
			merged[name] = entry{u.key(updated, name), value}
		}
	}
	absent := func(name string) bool { _, ok := merged[name]; return !ok }
	content := make([]*yaml.Node, 0, 2*len(merged))
	for _, name := range interleave(slices.DeleteFunc(l.order, absent), slices.DeleteFunc(u.order, absent)) {
		content = append(content, merged[name].key, merged[name].value)
	}
	if len(local.Content) == 0 { // the flow style of "{}" is not that of the new content
		local.Style = updated.Style
	}
	local.Content = content
	return local
}

// keyIndex is an index of the fields of a mapping.
type keyIndex struct {
	order []string
	at    map[string]int
}

func (k keyIndex) key(n *yaml.Node, name string) *yaml.Node {
	if i, ok := k.at[name]; ok {
		return n.Content[i]
	}
	return nil
}

func (k keyIndex) value(n *yaml.Node, name string) *yaml.Node {
	if i, ok := k.at[name]; ok {
		return n.Content[i+1]
	}
	return nil
}

func (m *fields) keys(v version, n *yaml.Node) keyIndex {
	index := keyIndex{at: make(map[string]int, len(n.Content)/2)}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		name := scalar(key)
		if _, duplicate := index.at[name]; duplicate || key.Kind != yaml.ScalarNode {
			if m.failed == nil {
				m.failed = &failure{version: v, line: key.Line, text: "the name of a field is not a scalar"}
				if duplicate {
					m.failed.text = fmt.Sprintf("field %q is duplicated", text.Clip(key.Value, maxShown))
				}
			}
			return index
		}
		index.at[name] = i
		index.order = append(index.order, name)
	}
	return index
}

// elementList is a list whose elements have keys.
type elementList struct {
	list  *yaml.Node
	order []string
	at    map[string]*yaml.Node
	shown map[string]string
}

// index finds the keys of the elements of lists; ok is false if the lists are not merged element by
// element.
func index(at *place, original, updated, local *yaml.Node) (o, u, l elementList, ok bool) {
	fields, ok := keysOf(at.schema())
	if !ok {
		return o, u, l, false
	}
	defaults := defaultsOf(at.schema(), fields)
	for _, side := range []struct {
		list *elementList
		node *yaml.Node
	}{{&o, original}, {&u, updated}, {&l, local}} {
		ok = ok && side.list.read(side.node, fields, defaults)
	}
	return o, u, l, ok
}

// read reads a list; it returns false if its elements have no unique keys.
func (e *elementList) read(list *yaml.Node, fields []string, defaults map[string]string) bool {
	*e = elementList{list: list, at: map[string]*yaml.Node{}, shown: map[string]string{}}
	for _, element := range list.Content {
		key, shown, ok := elementKey(element, fields, defaults)
		if _, duplicate := e.at[key]; duplicate || !ok {
			return false
		}
		e.at[key], e.shown[key] = element, shown
		e.order = append(e.order, key)
	}
	return true
}

// mergeLists merges element by element. An element is treated as an object is: it is deleted only
// if the other side did not change it, because a part of an element is useless.
func (m *fields) mergeLists(at *place, original, updated, local elementList) *yaml.Node {
	m.mergeComments(original.list, updated.list, local.list)
	merged := make(map[string]*yaml.Node, len(local.order))
	for _, key := range local.order {
		o, u, l := original.at[key], updated.at[key], local.at[key]
		switch {
		case u != nil:
			merged[key] = m.merge(at.elementAt(local.shown[key]), o, u, l)
		case o == nil:
			merged[key] = l
		case !equal(o, l):
			m.conflict(at.elementAt(local.shown[key]).String(), Local, Upstream)
			merged[key] = l
		}
	}
	for _, key := range updated.order {
		o, u := original.at[key], updated.at[key]
		switch {
		case local.at[key] != nil:
		case o == nil:
			merged[key] = u
		case !equal(o, u):
			m.conflict(at.elementAt(updated.shown[key]).String(), Local, Local)
		}
	}
	absent := func(key string) bool { return merged[key] == nil }
	ours, theirs := without(local.order, absent), without(updated.order, absent)
	order := interleave(ours, theirs)
	if slices.Equal(local.order, original.order) {
		order = interleave(theirs, ours) // in the upstream order
	}
	m.changed = m.changed || !slices.Equal(order, local.order)
	content := make([]*yaml.Node, 0, len(order))
	for _, key := range order {
		content = append(content, merged[key])
	}
	if len(local.list.Content) == 0 { // the flow style of "[]" is not that of the new content
		local.list.Style = updated.list.Style
	}
	local.list.Content = content
	return local.list
}

// interleave returns base with the elements that only other has, each after the element that it
// follows in other.
func interleave[T comparable](base, other []T) []T {
	known := make(map[T]bool, len(base))
	for _, name := range base {
		known[name] = true
	}
	after := map[T][]T{}
	var first []T
	var anchor T
	anchored := false
	for _, name := range other {
		switch {
		case known[name]:
			anchor, anchored = name, true
		case anchored:
			after[anchor] = append(after[anchor], name)
		default:
			first = append(first, name)
		}
	}
	all := first
	for _, name := range base {
		all = append(all, name)
		all = append(all, after[name]...)
	}
	return all
}

// without returns a copy of a list without some elements.
func without[T any](all []T, dropped func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), dropped)
}

// equal reports whether two nodes have the same value, in any notation and any order of fields. nil
// is equal only to nil.
func equal(a, b *yaml.Node) bool {
	if a == nil || b == nil {
		return a == b
	}
	if a == b {
		return true
	}
	if a.Kind != b.Kind || len(a.Content) != len(b.Content) {
		return false
	}
	if a.Kind == yaml.ScalarNode {
		return scalar(a) == scalar(b)
	}
	if a.Kind == yaml.MappingNode {
		return equalMappings(a, b)
	}
	return slices.EqualFunc(a.Content, b.Content, equal)
}

func equalMappings(a, b *yaml.Node) bool {
	inOrder := true // the common case
	for i := 0; i+1 < len(a.Content) && inOrder; i += 2 {
		inOrder = equal(a.Content[i], b.Content[i])
	}
	if inOrder {
		return slices.EqualFunc(a.Content, b.Content, equal)
	}
	values := make(map[string]*yaml.Node, len(b.Content)/2)
	for i := 0; i+1 < len(b.Content); i += 2 {
		if b.Content[i].Kind != yaml.ScalarNode {
			return false
		}
		values[scalar(b.Content[i])] = b.Content[i+1]
	}
	if len(values) != len(b.Content)/2 {
		return false
	}
	for i := 0; i+1 < len(a.Content); i += 2 {
		name := scalar(a.Content[i])
		other, ok := values[name]
		if a.Content[i].Kind != yaml.ScalarNode || !ok || !equal(a.Content[i+1], other) {
			return false
		}
		delete(values, name) // to detect duplicate fields
	}
	return true
}

// scalar returns the value of a scalar: its type and its text.
func scalar(n *yaml.Node) string {
	switch tag := n.ShortTag(); {
	case tag == yaml.NodeTagNull:
		return tag // in any notation
	case n.Value == "<<" && n.Style == 0:
		return yaml.MergeTag
	default:
		return tag + " " + n.Value
	}
}
