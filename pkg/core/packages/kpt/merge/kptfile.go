package merge

import (
	"fmt"
	"slices"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// origins are the fields of the upstream of a package. The caller of an upgrade sets them in the
// Kptfile of the new upstream, as kpt does.
var origins = []string{"upstream", "upstreamLock"}

// kptfile merges a Kptfile field by field, and functions of the pipeline by name. The origins of
// the root package are those of upstream, and its name is the local one.
func (m *merger) kptfile(name string) error {
	o, u, l := m.file(name)
	root := name == kpt.KptfileName
	switch {
	case l.exists && (u == l || !u.exists && root):
		m.result[name] = l.content // every package must have a Kptfile
		return nil
	case !l.exists && !o.exists:
		m.result[name] = u.content
		return nil
	case !l.exists:
		if u.exists && u != o {
			m.report(Conflict{Path: name, Kept: Local, Deleted: Local})
		}
		return nil
	case !u.exists:
		if o.exists && sameKptfile(o.content, l.content, false) {
			return nil
		}
		if o.exists {
			m.report(Conflict{Path: name, Kept: Local, Deleted: Upstream})
		}
		m.result[name] = l.content
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
		if !root {
			break
		}
		if kpt.Get(ud.node, field) == nil {
			kpt.Set(ud.node, field, clone(kpt.Get(ld.node, field)))
		}
		kpt.Set(od.node, field, clone(kpt.Get(ld.node, field)))
	}
	if ours := kpt.Get(kpt.Get(ld.node, "metadata"), "name"); root && ours != nil {
		for _, d := range []*document{od, ud} {
			if metadata := kpt.Get(d.node, "metadata"); metadata != nil && metadata.Kind == yaml.MappingNode {
				kpt.Set(metadata, "name", clone(ours))
			}
		}
	}
	changed, err := m.mergeDocument(kptfileSchema, od, ud, ld, "")
	if err != nil {
		return err
	}
	m.result[name] = l.content
	if changed {
		if m.result[name], err = ld.file(); err != nil {
			return err
		}
	}
	return nil
}

// file encodes a document that is the only one of its file.
func (d *document) file() (string, error) {
	text, err := d.write()
	return d.before + text, err
}

// parseKptfile parses a Kptfile for a merge. The caller owns its nodes.
func parseKptfile(v version, name, content string) (*document, error) {
	if _, err := kpt.ParseKptfile(content); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", v, name, err)
	}
	f, err := new(parser).parse(v, name, content)
	if err != nil {
		return nil, err
	}
	return f.documents[0], nil
}

// adoptKptfile returns the Kptfile of upstream with the local name and, for those that upstream
// does not have, the local origins.
func adoptKptfile(updated, local string) (string, error) {
	ud, err := parseKptfile(updatedVersion, kpt.KptfileName, updated)
	if err != nil {
		return "", err
	}
	ld, err := parseKptfile(localVersion, kpt.KptfileName, local)
	if err != nil {
		return "", err
	}
	changed := false
	for _, field := range origins {
		if ours := kpt.Get(ld.node, field); ours != nil && kpt.Get(ud.node, field) == nil {
			kpt.Set(ud.node, field, ours)
			changed = true
		}
	}
	metadata, name := kpt.Get(ud.node, "metadata"), kpt.Get(kpt.Get(ld.node, "metadata"), "name")
	if name != nil && metadata != nil && metadata.Kind == yaml.MappingNode && !equal(kpt.Get(metadata, "name"), name) {
		kpt.Set(metadata, "name", name)
		changed = true
	}
	if !changed {
		return updated, nil
	}
	return ud.file()
}

// ownOrigin reports whether a Kptfile has other origins than upstream gave it: a user got the
// package from elsewhere, or updated it apart from the package that contains it.
func ownOrigin(original, local string) bool {
	var origin [2][]*yaml.Node
	for i, content := range []string{original, local} {
		d, err := parseKptfile(localVersion, kpt.KptfileName, content)
		if err != nil {
			return false
		}
		for _, field := range origins {
			origin[i] = append(origin[i], kpt.Get(d.node, field))
		}
	}
	some := slices.ContainsFunc(origin[1], func(n *yaml.Node) bool { return n != nil })
	return some && !slices.EqualFunc(origin[0], origin[1], equal)
}

// sameKptfile reports whether two Kptfiles are equal except for the status and, of the root
// package, all else that tools write: the origins, and the name, which a clone of a package
// changes.
func sameKptfile(original, local string, root bool) bool {
	var bare [2]string
	for i, content := range []string{original, local} {
		d, err := parseKptfile(localVersion, kpt.KptfileName, content)
		if err != nil {
			return original == local
		}
		kpt.Remove(d.node, "status")
		if root {
			for _, field := range origins {
				kpt.Remove(d.node, field)
			}
			kpt.Remove(kpt.Get(d.node, "metadata"), "name")
		}
		withoutMergeComment(d.node)
		if bare[i], err = encode(d.root, ""); err != nil {
			return false
		}
	}
	return bare[0] == bare[1]
}

// clone copies the value of a node without its comments, which belong to the position of the node.
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
