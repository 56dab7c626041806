package merge

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// fields merges one document. It changes the nodes of local, and moves nodes of updated into it.
type fields struct {
	// changed tells that the result is not what local was.
	changed bool
	// conflict is told of what both sides changed.
	conflict func(field string, kept, deleted Side)
	// failed is the first thing that cannot be merged.
	failed *failure
}

// failure is a place in one of the three versions that cannot be merged.
type failure struct {
	version version
	line    int // of the document
	text    string
}

// place is where a node is. Its path and its schema are found only if they are asked for: most places are single values.
type place struct {
	parent *place
	// step from the parent: the name of a field, or what tells an element from the others.
	step    string
	element bool
	// known is the schema once it was asked for; the root's from the start.
	known schema
	asked bool
}

func (p *place) field(name string) *place { return &place{parent: p, step: name} }

func (p *place) elementAt(shown string) *place { return &place{parent: p, step: shown, element: true} }

// schema of the place, nil if nothing is known of it.
func (p *place) schema() schema {
	if p.parent == nil || p.asked {
		return p.known
	}
	p.asked = true
	switch above := p.parent.schema(); {
	case above == nil:
	case p.element:
		p.known = above.elements()
	default:
		p.known = above.field(p.step)
	}
	return p.known
}

// String is the path as a user reads it, at most 300 bytes or so.
func (p *place) String() string {
	const limit = 300
	var steps []*place
	for ; p.parent != nil; p = p.parent {
		steps = append(steps, p)
	}
	var out strings.Builder
	for _, step := range slices.Backward(steps) {
		name := clip(step.step)
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
			return out.String() + "…"
		}
	}
	return out.String()
}

// merge returns what a field is to be: nil if it is not to be. Any of the three may be nil, which says that that side does not have it.
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
	if kind, mapping := m.common(yaml.MappingNode, original, updated, local); mapping {
		return m.orGone(updated, local, m.mergeMappings(at, only(kind, original), orEmpty(kind, updated), orEmpty(kind, local)))
	}
	if kind, sequence := m.common(yaml.SequenceNode, original, updated, local); sequence {
		if lists, ok := index(at, only(kind, original), orEmpty(kind, updated), orEmpty(kind, local)); ok {
			return m.orGone(updated, local, m.mergeLists(at, lists))
		}
	}
	switch {
	case equal(original, updated):
		m.mergeComments(original, updated, local)
		return local
	case equal(updated, local):
		m.mergeComments(original, updated, local)
		return local
	case !equal(original, local):
		m.conflict(at.String(), Upstream, deleted(updated, local))
	}
	m.changed = true
	if updated != nil && local != nil && updated.Kind == yaml.ScalarNode && local.Kind == yaml.ScalarNode {
		keepComments(original, updated, local)
	}
	return updated
}

// common tells whether a field is to be merged as a mapping, or as a list: upstream and local have it as one, or one of them deleted it.
func (m *fields) common(kind yaml.Kind, original, updated, local *yaml.Node) (yaml.Kind, bool) {
	is := func(n *yaml.Node) bool { return n != nil && n.Kind == kind }
	switch {
	case updated == nil:
		return kind, is(local) && is(original)
	case local == nil:
		return kind, is(updated) && is(original)
	}
	return kind, is(updated) && is(local)
}

// only returns a node if it is of a kind.
func only(kind yaml.Kind, n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == kind {
		return n
	}
	return &yaml.Node{Kind: kind}
}

func orEmpty(kind yaml.Kind, n *yaml.Node) *yaml.Node {
	if n == nil {
		return &yaml.Node{Kind: kind}
	}
	return n
}

// orGone removes what one of the sides deleted and of which nothing is left.
func (m *fields) orGone(updated, local, merged *yaml.Node) *yaml.Node {
	if (updated == nil || local == nil) && len(merged.Content) == 0 {
		m.changed = m.changed || local != nil
		return nil
	}
	return merged
}

func deleted(updated, local *yaml.Node) Side {
	switch {
	case updated == nil:
		return Upstream
	case local == nil:
		return Local
	}
	return ""
}

// mergeMappings merges field by field. New fields stand where upstream has them.
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
	present := func(name string) bool { _, ok := merged[name]; return ok }
	content := make([]*yaml.Node, 0, 2*len(merged))
	for _, name := range interleave(filter(l.order, present), filter(u.order, present)) {
		content = append(content, merged[name].key, merged[name].value)
	}
	if len(local.Content) == 0 { // of "{}" nothing but the style would stay
		local.Style = updated.Style
	}
	local.Content = content
	return local
}

// keyIndex finds the fields of a mapping.
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
		if _, twice := index.at[name]; twice || key.Kind != yaml.ScalarNode {
			if m.failed == nil {
				m.failed = &failure{version: v, line: key.Line, text: "has no plain name"}
				if twice {
					m.failed.text = fmt.Sprintf("field %q stands there twice", clip(key.Value))
				}
			}
			return index
		}
		index.at[name] = i
		index.order = append(index.order, name)
	}
	return index
}

// elementLists are lists whose elements are identified.
type elementLists struct{ original, updated, local elementList }

type elementList struct {
	list  *yaml.Node
	order []string
	at    map[string]*yaml.Node
	shown map[string]string
}

// index identifies the elements of lists; ok is false if they are not merged one by one.
func index(at *place, original, updated, local *yaml.Node) (lists elementLists, ok bool) {
	known := at.schema()
	if known == nil {
		return lists, false
	}
	fields, associative := known.keys()
	if !associative {
		return lists, false
	}
	for _, side := range []struct {
		list *elementList
		node *yaml.Node
	}{{&lists.original, original}, {&lists.updated, updated}, {&lists.local, local}} {
		*side.list = elementList{list: side.node, at: map[string]*yaml.Node{}, shown: map[string]string{}}
		for _, element := range side.node.Content {
			key, shown, ok := elementKey(element, fields)
			if _, twice := side.list.at[key]; twice || !ok {
				return lists, false // which is which cannot be told
			}
			side.list.at[key], side.list.shown[key] = element, shown
			side.list.order = append(side.list.order, key)
		}
	}
	return lists, true
}

// mergeLists merges element by element. An element is treated as an object is: it goes only if the other side did not change it, since a part
// of one is of no use.
func (m *fields) mergeLists(at *place, lists elementLists) *yaml.Node {
	original, updated, local := lists.original, lists.updated, lists.local
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
	present := func(key string) bool { return merged[key] != nil }
	ours, theirs := filter(local.order, present), filter(updated.order, present)
	order := interleave(ours, theirs)
	if slices.Equal(local.order, original.order) {
		order = interleave(theirs, ours) // the order is upstream's, too
	}
	m.changed = m.changed || !slices.Equal(order, local.order)
	content := make([]*yaml.Node, 0, len(order))
	for _, key := range order {
		content = append(content, merged[key])
	}
	if len(local.list.Content) == 0 { // of "[]" nothing but the style would stay
		local.list.Style = updated.list.Style
	}
	local.list.Content = content
	return local.list
}

// interleave returns base with what only other has, each after what it follows there.
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

func filter[T any](all []T, keep func(T) bool) []T {
	var kept []T
	for _, one := range all {
		if keep(one) {
			kept = append(kept, one)
		}
	}
	return kept
}

// mergeComments gives local what upstream changed in comments that are not changed locally.
func (m *fields) mergeComments(original, updated, local *yaml.Node) {
	if updated == nil || local == nil {
		return
	}
	if original == nil {
		original = &yaml.Node{}
	}
	for _, c := range []struct{ original, updated, local *string }{
		{&original.HeadComment, &updated.HeadComment, &local.HeadComment},
		{&original.LineComment, &updated.LineComment, &local.LineComment},
		{&original.FootComment, &updated.FootComment, &local.FootComment},
	} {
		if *c.local == *c.original && *c.updated != *c.local {
			*c.local, m.changed = *c.updated, true
		}
	}
}

// keepComments gives a value of upstream the comments that its place has locally.
func keepComments(original, updated, local *yaml.Node) {
	kept := *local
	(&fields{}).mergeComments(original, updated, &kept)
	updated.HeadComment, updated.LineComment, updated.FootComment = kept.HeadComment, kept.LineComment, kept.FootComment
}

// equal tells whether two nodes mean the same, however they are written and in whatever order their fields stand. nil is equal to nil only.
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
	inOrder := true // as nearly all are
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
		delete(values, name) // so that a field that stands there twice is found out
	}
	return true
}

// scalar is what a scalar means: its type and its text.
func scalar(n *yaml.Node) string {
	switch tag := n.ShortTag(); {
	case tag == yaml.NodeTagNull:
		return tag // however it is spelled
	case n.Value == "<<" && n.Style == 0:
		return yaml.MergeTag
	default:
		return tag + " " + n.Value
	}
}

// get returns the value of a field, nil if there is none.
func get(n *yaml.Node, field string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == field {
			return n.Content[i+1]
		}
	}
	return nil
}

// set sets a field to a value; nil removes it.
func set(n *yaml.Node, field string, value *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value != field {
			continue
		}
		if value == nil {
			n.Content = slices.Delete(n.Content, i, i+2)
		} else {
			n.Content[i+1] = value
		}
		return
	}
	if value != nil {
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: yaml.NodeTagString, Value: field}, value)
	}
}
