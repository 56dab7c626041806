package merge

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/text"
)

// subpackages decides about subpackages that were added or deleted as a whole, and about those with
// an upstream of their own, and returns all other paths, which have to be merged.
func (m *merger) subpackages() ([]string, error) {
	original, updated, local := m.versions[originalVersion], m.versions[updatedVersion], m.versions[localVersion]
	dirs := map[string]bool{}
	for _, files := range m.versions {
		for _, dir := range files.Packages() {
			dirs[dir] = dir != ""
		}
	}
	decided := map[string]bool{}                         // as a whole
	for _, dir := range slices.Sorted(maps.Keys(dirs)) { // parents before their children
		if !dirs[dir] || below(decided, dir) {
			continue
		}
		is := func(files kpt.Files) bool { _, ok := files[path.Join(dir, kpt.KptfileName)]; return ok }
		inO, inU, inL := is(original), is(updated), is(local)
		c := Conflict{Path: path.Join(dir, kpt.KptfileName), Kept: Local}
		if inO && inL && ownOrigin(original[c.Path], local[c.Path]) {
			decided[dir] = true
			l := under(local, dir)
			m.keep(dir, l)
			if u := under(updated, dir); !maps.Equal(under(original, dir), u) && !maps.Equal(u, l) {
				c.Deleted = deleted(len(u) > 0, true)
				m.report(c)
			}
			continue
		}
		if inO == inU && inU == inL || !inU && !inL {
			continue
		}
		o, u, l := under(original, dir), under(updated, dir), under(local, dir)
		switch {
		case inU && inL && len(o) == 0 && !maps.Equal(u, l):
			return nil, fmt.Errorf("subpackage %s was added upstream and locally; rename the local one", dir)
		case inO && inL && len(u) == 0:
			decided[dir] = true
			if unchanged(o, l, false) == nil {
				continue
			}
			c.Deleted = Upstream
			m.keep(dir, l)
		case inO && inU && len(l) == 0:
			decided[dir] = true
			if maps.Equal(o, u) {
				continue
			}
			c.Deleted = Local
		default:
			continue
		}
		m.report(c)
	}
	return slices.DeleteFunc(kpt.PathsOf(m.versions[:]...), func(name string) bool { return below(decided, name) }), nil
}

// keep copies the files of a directory, by their paths relative to it, into the result.
func (m *merger) keep(dir string, files kpt.Files) {
	for name, content := range files {
		m.result[path.Join(dir, name)] = content
	}
}

// below reports whether a path is one of some directories, or below one.
func below(dirs map[string]bool, name string) bool {
	for ; name != "."; name = path.Dir(name) {
		if dirs[name] {
			return true
		}
	}
	return false
}

// under returns the files below a directory, by their paths relative to it.
func under(files kpt.Files, dir string) kpt.Files {
	inside := kpt.Files{}
	for name, content := range files {
		if rest, ok := strings.CutPrefix(name, dir+"/"); ok {
			inside[rest] = content
		}
	}
	return inside
}

// unchanged returns an error that lists the local changes of a package. It ignores notation, and
// changes that tools make to a root package, or to a subpackage.
func unchanged(original, local kpt.Files, root bool) error {
	var changed []string
	for _, name := range kpt.PathsOf(original, local) {
		o, inO := original[name]
		l, inL := local[name]
		switch {
		case path.Base(name) == contextFile && inL && sameContext(o, l):
		case !inO:
			changed = append(changed, name+" (added)")
		case !inL:
			changed = append(changed, name+" (deleted)")
		case o == l:
		case path.Base(name) == kpt.KptfileName && sameKptfile(o, l, root && name == kpt.KptfileName):
		case path.Base(name) != kpt.KptfileName && isYAML(name) && sameObjects(name, o, l):
		default:
			changed = append(changed, name)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	const limit = 5
	return fmt.Errorf("%w: %s", ErrLocalChanges, text.List(changed, limit))
}

// contextFile holds the name of a package or subpackage in a deployment repository. The server adds
// it, and sets the fields contextFields of the data in it.
const contextFile = "package-context.yaml"

var contextFields = []string{"name", "package-path"}

// sameContext reports whether two context files differ only in what the server sets. The original
// is empty if there is none.
func sameContext(original, local string) bool {
	bare := func(content string) (all []*yaml.Node, ok bool) {
		documents, err := kpt.Documents(content)
		for _, d := range documents {
			data := kpt.Get(d.YNode(), "data")
			if d.GetKind() == "ConfigMap" && data != nil {
				for _, field := range contextFields {
					kpt.Remove(data, field)
				}
				if len(data.Content) == 0 {
					kpt.Remove(d.YNode(), "data")
				}
			}
			all = append(all, d.YNode())
		}
		return all, err == nil
	}
	if original == "" {
		original = newContext
	}
	o, okO := bare(original)
	l, okL := bare(local)
	return okO && okL && slices.EqualFunc(o, l, equal)
}

// newContext is the context file that the server adds, without what it sets.
const newContext = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kptfile.kpt.dev\n  annotations:\n    config.kubernetes.io/local-config: \"true\"\n"

// sameObjects reports whether two files hold the same documents with the same comments, except
// merge comments.
func sameObjects(name, original, local string) bool {
	var texts [2][]string
	for i, content := range []string{original, local} {
		f, err := new(parser).parse(localVersion, name, content)
		if err != nil {
			return false
		}
		for _, d := range f.documents {
			withoutMergeComment(d.node)
			encoded, err := encode(d.root, "")
			if err != nil {
				return false
			}
			texts[i] = append(texts[i], encoded)
		}
	}
	return slices.Equal(texts[0], texts[1])
}
