package merge

import (
	"fmt"
	"slices"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
)

// origins are the fields that say where a package came from. Who upgrades writes them into the new upstream's Kptfile, as kpt does.
var origins = []string{"upstream", "upstreamLock"}

// kptfile merges a Kptfile: field by field; the functions of the pipeline by name; where it came from is what upstream says. The root
// keeps the name of the package, which is the user's.
func (m *merger) kptfile(name string) error {
	o, inO := m.get(originalVersion, name)
	u, inU := m.get(updatedVersion, name)
	l, inL := m.get(localVersion, name)
	root := name == kptpkg.KptfileName
	switch {
	case inL && !inU && root:
		m.result[name] = l // a package without one is none
		return nil
	case !inL && !inO:
		m.result[name] = u
		return nil
	case !inL:
		if inU && u != o {
			m.report(Conflict{Path: name, Kept: Local, Deleted: Local})
		}
		return nil
	case !inU:
		if inO && sameKptfile(o, l, false) {
			return nil
		}
		if inO {
			m.report(Conflict{Path: name, Kept: Local, Deleted: Upstream})
		}
		m.result[name] = l
		return nil
	case u == l:
		m.result[name] = l
		return nil
	}
	documents := [3]*document{{}, {}, {}}
	for v, files := range m.versions {
		if content, ok := files[name]; ok {
			d, err := parseKptfile(version(v), name, content)
			if err != nil {
				return err
			}
			documents[v] = d
		}
	}
	od, ud, ld := documents[originalVersion], documents[updatedVersion], documents[localVersion]
	if od.node == nil {
		od.node = &yaml.Node{Kind: yaml.MappingNode}
	}
	for _, field := range origins {
		if get(ud.node, field) == nil {
			set(ud.node, field, clone(get(ld.node, field)))
		}
		set(od.node, field, clone(get(ld.node, field)))
	}
	if ours := get(get(ld.node, "metadata"), "name"); root && ours != nil {
		for _, d := range []*document{od, ud} {
			if metadata := get(d.node, "metadata"); metadata != nil && metadata.Kind == yaml.MappingNode {
				set(metadata, "name", clone(ours))
			}
		}
	}
	changed, err := m.mergeDocument(kptfileSchema(""), od, ud, ld, "")
	if err != nil {
		return err
	}
	m.result[name] = l
	if changed {
		if m.result[name], err = ld.file(); err != nil {
			return err
		}
	}
	return nil
}

// file writes a document that is the only one of its file.
func (d *document) file() (string, error) {
	text, err := d.write()
	return d.before + text, err
}

// parseKptfile reads a Kptfile for a merge; nothing else has its nodes.
func parseKptfile(v version, name, content string) (*document, error) {
	if _, err := kptpkg.ParseKptfile(content); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", v, name, err)
	}
	f, err := new(parser).parse(v, name, content)
	if err != nil {
		return nil, err
	}
	return f.documents[0], nil
}

// adoptKptfile is upstream's Kptfile with the name of the local package, and with where that came from unless upstream says it.
func adoptKptfile(updated, local string) (string, error) {
	ud, err := parseKptfile(updatedVersion, kptpkg.KptfileName, updated)
	if err != nil {
		return "", err
	}
	ld, err := parseKptfile(localVersion, kptpkg.KptfileName, local)
	if err != nil {
		return "", err
	}
	changed := false
	for _, field := range origins {
		if ours := get(ld.node, field); ours != nil && get(ud.node, field) == nil {
			set(ud.node, field, ours)
			changed = true
		}
	}
	metadata, name := get(ud.node, "metadata"), get(get(ld.node, "metadata"), "name")
	if name != nil && metadata != nil && metadata.Kind == yaml.MappingNode && !equal(get(metadata, "name"), name) {
		set(metadata, "name", name)
		changed = true
	}
	if !changed {
		return updated, nil
	}
	return ud.file()
}

// sameKptfile tells whether nothing was changed in a Kptfile but what tools write: where it came from, its status, and the name that a
// clone of a package gets.
func sameKptfile(original, local string, root bool) bool {
	var bare [2]string
	for i, content := range []string{original, local} {
		d, err := parseKptfile(localVersion, kptpkg.KptfileName, content)
		if err != nil {
			return original == local
		}
		for _, field := range append(slices.Clone(origins), "status") {
			set(d.node, field, nil)
		}
		if metadata := get(d.node, "metadata"); root && metadata != nil {
			set(metadata, "name", nil)
		}
		withoutMergeComment(d.node)
		if bare[i], err = encode(d.root, ""); err != nil {
			return false
		}
	}
	return bare[0] == bare[1]
}

// clone copies what a node means, without comments, which are of the place where they stand.
func clone(n *yaml.Node) *yaml.Node {
	if n == nil {
		return nil
	}
	c := &yaml.Node{Kind: n.Kind, Style: n.Style, Tag: n.Tag, Value: n.Value, Line: n.Line}
	for _, child := range n.Content {
		c.Content = append(c.Content, clone(child))
	}
	return c
}
