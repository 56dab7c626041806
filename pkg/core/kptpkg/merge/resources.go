package merge

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
)

// merger merges the resources of one package.
type merger struct {
	versions  [3]kptpkg.Files
	parser    parser
	result    kptpkg.Files
	conflicts []Conflict
	// dropped counts the conflicts that are left out.
	dropped int
}

func resourceMerge(original, updated, local kptpkg.Files) (Result, error) {
	for v, files := range []kptpkg.Files{original, updated, local} {
		if n := documents(files); n > maxDocuments {
			return Result{}, fmt.Errorf("%s: has %d YAML documents; at most %d can be merged", version(v), n, maxDocuments)
		}
	}
	m := &merger{versions: [3]kptpkg.Files{original, updated, local}, result: kptpkg.Files{}}
	left, err := m.subpackages()
	if err != nil {
		return Result{}, err
	}
	var resources []string
	for _, name := range left {
		switch {
		case path.Base(name) == kptpkg.KptfileName:
			if err := m.kptfile(name); err != nil {
				return Result{}, err
			}
		case m.same(name):
			m.result[name] = local[name]
		case isYAML(name):
			resources = append(resources, name)
		default:
			m.text(name)
		}
	}
	if err := m.resources(resources); err != nil {
		return Result{}, err
	}
	if err := m.fitting(); err != nil {
		return Result{}, err
	}
	m.sortConflicts()
	return Result{Files: m.result, Conflicts: m.conflicts, MoreConflicts: m.dropped}, nil
}

func (m *merger) report(c Conflict) {
	if m.conflicts = append(m.conflicts, c); len(m.conflicts) >= 10*MaxConflicts {
		m.sortConflicts()
	}
}

// sortConflicts leaves the first ones in order.
func (m *merger) sortConflicts() {
	slices.SortStableFunc(m.conflicts, func(a, b Conflict) int { return strings.Compare(a.Path, b.Path) })
	kept := min(len(m.conflicts), MaxConflicts)
	m.dropped += len(m.conflicts) - kept
	m.conflicts = m.conflicts[:kept:kept]
}

// isYAML tells which files hold objects for a merge. JSON is merged as text, as kpt does.
func isYAML(name string) bool { return kptpkg.IsKRM(name) && path.Ext(name) != ".json" }

func (m *merger) get(v version, name string) (string, bool) {
	content, ok := m.versions[v][name]
	return content, ok
}

// same tells whether a file is the same in all versions.
func (m *merger) same(name string) bool {
	o, inO := m.get(originalVersion, name)
	u, inU := m.get(updatedVersion, name)
	l, inL := m.get(localVersion, name)
	return inO && inU && inL && o == l && u == l
}

// decided tells whether a file was changed on one side at most, or the same on both.
func (m *merger) decided(name string) bool {
	o, inO := m.get(originalVersion, name)
	u, inU := m.get(updatedVersion, name)
	l, inL := m.get(localVersion, name)
	return inO == inL && o == l || inO == inU && o == u || inU == inL && u == l
}

// text merges a file that holds no objects: it is replaced only if it was not changed locally.
func (m *merger) text(name string) {
	o, inO := m.get(originalVersion, name)
	u, inU := m.get(updatedVersion, name)
	l, inL := m.get(localVersion, name)
	if inL == inO && l == o {
		if inU {
			m.result[name] = u
		}
		return
	}
	if !m.decided(name) {
		c := Conflict{Path: name, Kept: Local}
		if !inL {
			c.Deleted = Local
		} else if !inU {
			c.Deleted = Upstream
		}
		m.report(c)
	}
	if inL {
		m.result[name] = l
	}
}

// outcome is what becomes of an object: where it stands, and as what.
type outcome struct{ path, before, text string }

// resources merges the objects of files.
func (m *merger) resources(names []string) error {
	var objects []*object
	rests := map[string][3]*file{}
	var merged []string
	for _, name := range names {
		parsed, err := m.parse(name)
		if err != nil {
			if !m.decided(name) {
				return err
			}
			m.text(name) // nothing of it has to be understood
			continue
		}
		for v, files := range m.versions {
			if parsed[v] == nil {
				continue
			}
			of, err := objectsOf(version(v), files, name, parsed[v].documents)
			if err != nil {
				return err
			}
			objects = append(objects, of...)
		}
		rests[name] = parsed
		merged = append(merged, name)
	}
	triples := match(objects)
	outcomes := make(map[*triple]outcome, len(triples))
	standing := map[string]*[3][]*triple{} // the objects of a path in each version, in order
	at := func(name string) *[3][]*triple {
		if standing[name] == nil {
			standing[name] = &[3][]*triple{}
		}
		return standing[name]
	}
	index := make(map[*object]*triple, len(objects))
	for _, t := range triples {
		for _, o := range t {
			if o != nil {
				index[o] = t
			}
		}
	}
	for _, o := range objects {
		of := at(o.path)
		of[o.version] = append(of[o.version], index[o])
	}
	for _, t := range triples {
		result, stays, err := m.object(t)
		if err != nil {
			return err
		}
		if stays {
			outcomes[t] = result
		}
	}
	for _, name := range merged {
		m.compose(name, at(name), outcomes, rests[name])
	}
	return nil
}

// parse parses a file in the versions that have it.
func (m *merger) parse(name string) (parsed [3]*file, err error) {
	for v, files := range m.versions {
		content, ok := files[name]
		if !ok {
			continue
		}
		if parsed[v], err = m.parser.parse(version(v), name, content); err != nil {
			return parsed, err
		}
	}
	return parsed, nil
}

// object decides what becomes of an object.
func (m *merger) object(t *triple) (result outcome, stays bool, err error) {
	o, u, l := t.original(), t.updated(), t.local()
	switch {
	case u == nil && l == nil:
		return outcome{}, false, nil
	case o == nil && u == nil:
		return l.as(l.path), true, nil
	case o == nil && l == nil:
		return u.as(u.path), true, nil
	case l == nil:
		if !equal(o.node, u.node) {
			m.conflict(u, Local, Local)
		}
		return outcome{}, false, nil
	case u == nil:
		if equal(o.node, l.node) {
			return outcome{}, false, nil
		}
		m.conflict(l, Local, Upstream)
		return l.as(l.path), true, nil
	}
	where := l.path
	if o != nil && l.path == o.path {
		where = u.path
	}
	switch {
	case u.raw() == l.raw(), o != nil && o.raw() == u.raw():
		return l.as(where), true, nil
	case o != nil && o.raw() == l.raw():
		return u.as(where), true, nil
	}
	return m.mergeObject(o, u, l, where)
}

func (o *object) as(where string) outcome { return outcome{where, o.before, o.text} }

func (m *merger) mergeObject(o, u, l *object, where string) (outcome, bool, error) {
	kinds := schemaOf(textOf(get(u.node, "apiVersion")), u.own.kind)
	if kinds == nil {
		kinds = schemaOf(textOf(get(l.node, "apiVersion")), l.own.kind)
	}
	if o == nil {
		o = &object{document: &document{}}
	}
	changed, err := m.mergeDocument(kinds, o.document, u.document, l.document, l.own.String())
	if err != nil {
		return outcome{}, false, err
	}
	result := l.as(where)
	if changed {
		if result.text, err = l.write(); err != nil {
			return outcome{}, false, err
		}
	}
	if l.before == o.before {
		result.before = u.before
	}
	return result, true, nil
}

// mergeDocument merges into the nodes of the local one.
func (m *merger) mergeDocument(kinds schema, o, u, l *document, object string) (changed bool, err error) {
	merging := &fields{conflict: func(field string, kept, deleted Side) {
		m.report(Conflict{Path: l.path, Object: object, Field: field, Kept: kept, Deleted: deleted})
	}}
	merging.mergeComments(o.root, u.root, l.root)
	l.root.Content[0] = merging.merge(&place{known: kinds}, o.node, u.node, l.node)
	l.node = l.root.Content[0]
	if f := merging.failed; f != nil {
		d := [3]*document{o, u, l}[f.version]
		return false, fmt.Errorf("%s: %s: line %d: %s", f.version, d.path, d.line+f.line, f.text)
	}
	return merging.changed, nil
}

func (m *merger) conflict(o *object, kept, deleted Side) {
	m.report(Conflict{Path: o.path, Object: o.own.String(), Kept: kept, Deleted: deleted})
}

// compose writes a file of what stands in it now. Order is the local one, and upstream's if the local one was not changed; what is new
// stands after what it follows upstream.
func (m *merger) compose(name string, standing *[3][]*triple, outcomes map[*triple]outcome, parsed [3]*file) {
	here := func(t *triple) bool {
		result, ok := outcomes[t]
		return ok && result.path == name
	}
	ours, theirs := filter(standing[localVersion], here), filter(standing[updatedVersion], here)
	order := interleave(ours, theirs)
	if slices.Equal(standing[localVersion], standing[originalVersion]) {
		order = interleave(theirs, ours)
	}
	o, u, l := parsed[originalVersion], parsed[updatedVersion], parsed[localVersion]
	if len(order) == 0 {
		m.composeEmpty(name, u != nil && len(u.documents) == 0, l != nil && len(l.documents) == 0)
		return
	}
	rest := ""
	switch {
	case l == nil || u != nil && o != nil && l.rest == o.rest:
		if u != nil {
			rest = u.rest
		}
	default:
		rest = l.rest
	}
	var out strings.Builder
	add := func(text string) {
		if out.Len() > 0 && text != "" {
			if written := out.String(); written[len(written)-1] != '\n' {
				out.WriteByte('\n')
			}
			if line, _, _ := strings.Cut(text, "\n"); !parts(line) {
				out.WriteString("---\n")
			}
		}
		out.WriteString(text)
	}
	for _, t := range order {
		add(outcomes[t].before + outcomes[t].text)
	}
	add(rest)
	m.result[name] = out.String()
}

// composeEmpty decides on a file in which no object is left: it goes, unless one of the sides has it as a file without objects.
func (m *merger) composeEmpty(name string, theirs, ours bool) {
	o, inO := m.get(originalVersion, name)
	u, inU := m.get(updatedVersion, name)
	l, inL := m.get(localVersion, name)
	switch {
	case ours && (theirs || !inU):
		m.text(name)
	case ours && (!inO || o != l):
		m.result[name] = l
	case theirs && (inL || !inO):
		m.result[name] = u
	}
}

// fitting checks that no file is below another one, which each side can do to the other.
func (m *merger) fitting() error {
	for _, name := range slices.Sorted(maps.Keys(m.result)) {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, file := m.result[dir]; file {
				return fmt.Errorf("%s is a file on one side and the directory of %s on the other; rename one of them in the local package", dir, name)
			}
		}
	}
	return nil
}
