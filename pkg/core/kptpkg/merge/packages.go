package merge

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
)

// subpackages decides on subpackages that come or go as a whole, and returns the paths of all versions that are left to be merged.
func (m *merger) subpackages() ([]string, error) {
	original, updated, local := m.versions[originalVersion], m.versions[updatedVersion], m.versions[localVersion]
	all := map[string]bool{}
	dirs := map[string]bool{}
	for _, files := range m.versions {
		for name := range files {
			all[name] = true
		}
		for _, dir := range files.Packages() {
			dirs[dir] = dir != ""
		}
	}
	decided := map[string]bool{}                         // as wholes
	for _, dir := range slices.Sorted(maps.Keys(dirs)) { // parents before their children
		if !dirs[dir] || below(decided, dir) {
			continue
		}
		is := func(files kptpkg.Files) bool { _, ok := files[path.Join(dir, kptpkg.KptfileName)]; return ok }
		inO, inU, inL := is(original), is(updated), is(local)
		if inO == inU && inU == inL || !inU && !inL {
			continue
		}
		o, u, l := under(original, dir), under(updated, dir), under(local, dir)
		c := Conflict{Path: path.Join(dir, kptpkg.KptfileName), Kept: Local}
		switch {
		case inU && inL && len(o) == 0 && !maps.Equal(u, l):
			return nil, fmt.Errorf("subpackage %s was added upstream and locally; rename the local one", dir)
		case inO && inL && len(u) == 0:
			decided[dir] = true
			if unchanged(o, l) == nil {
				continue
			}
			c.Deleted = Upstream
			for name, content := range l {
				m.result[path.Join(dir, name)] = content
			}
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
	left := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !below(decided, name) {
			left = append(left, name)
		}
	}
	return left, nil
}

// below tells whether a path is one of some directories, or below one.
func below(dirs map[string]bool, name string) bool {
	for ; name != "."; name = path.Dir(name) {
		if dirs[name] {
			return true
		}
	}
	return false
}

// under returns the files below a directory, by their paths from there.
func under(files kptpkg.Files, dir string) kptpkg.Files {
	inside := kptpkg.Files{}
	for name, content := range files {
		if rest, ok := strings.CutPrefix(name, dir+"/"); ok {
			inside[rest] = content
		}
	}
	return inside
}

// unchanged returns an error that lists what was changed in a package since it was made from original. How something is written, and
// what tools write, is no change.
func unchanged(original, local kptpkg.Files) error {
	const many = 5
	all := maps.Clone(original)
	maps.Copy(all, local)
	var changed []string
	for _, name := range all.Paths() {
		o, inO := original[name]
		l, inL := local[name]
		switch {
		case !inO:
			changed = append(changed, name+" (added)")
		case !inL:
			changed = append(changed, name+" (deleted)")
		case o == l:
		case path.Base(name) == kptpkg.KptfileName && sameKptfile(o, l, name == kptpkg.KptfileName):
		case path.Base(name) != kptpkg.KptfileName && isYAML(name) && sameObjects(name, o, l):
		default:
			changed = append(changed, name)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	list := strings.Join(changed[:min(many, len(changed))], ", ")
	if more := len(changed) - many; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("%w: %s", ErrLocalChanges, list)
}

// sameObjects tells whether two files hold the same documents with the same comments, but for those that keep names.
func sameObjects(name, original, local string) bool {
	var texts [2][]string
	for i, content := range []string{original, local} {
		f, err := new(parser).parse(localVersion, name, content)
		if err != nil {
			return false
		}
		for _, d := range f.documents {
			withoutMergeComment(d.node)
			text, err := encode(d.root, "")
			if err != nil {
				return false
			}
			texts[i] = append(texts[i], text)
		}
	}
	return slices.Equal(texts[0], texts[1])
}
