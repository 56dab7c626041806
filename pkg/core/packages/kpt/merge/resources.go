package merge

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/openapi"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/manifests"
)

// merger merges the resources of one package.
type merger struct {
	versions  [3]kpt.Files
	schemas   *schemas
	parser    parser
	result    kpt.Files
	conflicts []Conflict
	// dropped is the number of conflicts that are not in conflicts.
	dropped int
}

func resourceMerge(original, updated, local kpt.Files, others Schemas) (Result, error) {
	for v, files := range []kpt.Files{original, updated, local} {
		if n := documents(files); n > maxDocuments {
			return Result{}, fmt.Errorf("%s: has %d YAML documents; at most %d can be merged", version(v), n, maxDocuments)
		}
	}
	m := &merger{versions: [3]kpt.Files{original, updated, local}, result: kpt.Files{}}
	m.schemas = newSchemas(m.versions, others)
	var in [3]func(string) bool
	for v, files := range m.versions {
		in[v] = manifests.In(files)
	}
	hasObjects := func(name string) bool { // as far as any version knows
		return isYAML(name) && in[originalVersion](name) && in[updatedVersion](name) && in[localVersion](name)
	}
	left, err := m.subpackages()
	if err != nil {
		return Result{}, err
	}
	var resources []string
	for _, name := range left {
		switch {
		case path.Base(name) == kpt.KptfileName:
			if err := m.kptfile(name); err != nil {
				return Result{}, err
			}
		case hasObjects(name) && !m.same(name):
			resources = append(resources, name)
		default:
			m.text(name)
		}
	}
	if err := m.resources(resources); err != nil {
		return Result{}, err
	}
	if err := m.checkPaths(); err != nil {
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

// sortConflicts sorts the conflicts and drops all but the first MaxConflicts.
func (m *merger) sortConflicts() {
	slices.SortStableFunc(m.conflicts, func(a, b Conflict) int { return strings.Compare(a.Path, b.Path) })
	n := min(len(m.conflicts), MaxConflicts)
	m.dropped += len(m.conflicts) - n
	m.conflicts = m.conflicts[:n:n]
}

// isYAML reports whether a file is merged object by object. JSON is merged as text, as in kpt.
func isYAML(name string) bool { return kpt.IsKRM(name) && path.Ext(name) != ".json" }

// blob is a file in one version; the zero value if that version does not have it.
type blob struct {
	content string
	exists  bool
}

// file returns a file in the three versions.
func (m *merger) file(name string) (original, updated, local blob) {
	var all [3]blob
	for v, files := range m.versions {
		all[v].content, all[v].exists = files[name]
	}
	return all[originalVersion], all[updatedVersion], all[localVersion]
}

// same reports whether a file is equal in all versions.
func (m *merger) same(name string) bool {
	o, u, l := m.file(name)
	return o == u && u == l
}

// decided reports whether a file needs no merge: at most one side changed it, or both sides changed
// it equally.
func (m *merger) decided(name string) bool {
	o, u, l := m.file(name)
	return o == l || o == u || u == l
}

// text merges a file without objects: the upstream file is used only if there are no local changes.
func (m *merger) text(name string) {
	o, u, l := m.file(name)
	if l == o {
		l = u
	} else if !m.decided(name) {
		m.report(Conflict{Path: name, Kept: Local, Deleted: deleted(u.exists, l.exists)})
	}
	if l.exists {
		m.result[name] = l.content
	}
}

// outcome is the result of an object: its path and its text.
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
			m.text(name) // no merge is needed
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
	byPath := map[string]*[3][]*triple{} // the objects of a path in each version, in order
	at := func(name string) *[3][]*triple {
		if byPath[name] == nil {
			byPath[name] = &[3][]*triple{}
		}
		return byPath[name]
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
		result, exists, err := m.object(t)
		if err != nil {
			return err
		}
		if exists {
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

// object merges one object. exists is false if the result does not have it.
func (m *merger) object(t *triple) (result outcome, exists bool, err error) {
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
	var unknown error
	kinds := func() *openapi.ResourceSchema {
		found, err := m.schemas.find(kpt.TextOf(kpt.Get(u.node, "apiVersion")), u.own.kind)
		if found == nil && err == nil {
			found, err = m.schemas.find(kpt.TextOf(kpt.Get(l.node, "apiVersion")), l.own.kind)
		}
		unknown = err
		return found
	}
	if o == nil {
		o = &object{document: &document{}}
	}
	changed, err := m.mergeDocument(kinds, o.document, u.document, l.document, l.own.String())
	if unknown != nil {
		return outcome{}, false, &SchemaError{l.own.String(), unknown}
	}
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

// mergeDocument merges a document into the nodes of the local version.
func (m *merger) mergeDocument(kinds func() *openapi.ResourceSchema, o, u, l *document, object string) (changed bool, err error) {
	merging := &fields{conflict: func(field string, kept, deleted Side) {
		m.report(Conflict{Path: l.path, Object: object, Field: field, Kept: kept, Deleted: deleted})
	}}
	merging.mergeComments(o.root, u.root, l.root)
	l.root.Content[0] = merging.merge(&place{find: kinds}, o.node, u.node, l.node)
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

// compose writes a file with the objects that it has in the result. They have the local order, or
// the upstream order if the local order is that of original. A new object follows the object that
// it follows upstream.
func (m *merger) compose(name string, objects *[3][]*triple, outcomes map[*triple]outcome, parsed [3]*file) {
	elsewhere := func(t *triple) bool { return outcomes[t].path != name }
	ours, theirs := without(objects[localVersion], elsewhere), without(objects[updatedVersion], elsewhere)
	order := interleave(ours, theirs)
	if slices.Equal(objects[localVersion], objects[originalVersion]) {
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
	add := func(part string) {
		if out.Len() > 0 && part != "" {
			if written := out.String(); written[len(written)-1] != '\n' {
				out.WriteByte('\n')
			}
			if line, _, _ := strings.Cut(part, "\n"); !isSeparator(line) {
				out.WriteString("---\n")
			}
		}
		out.WriteString(part)
	}
	for _, t := range order {
		add(outcomes[t].before + outcomes[t].text)
	}
	add(rest)
	m.result[name] = out.String()
}

// composeEmpty merges a file without objects in the result: it is deleted, unless one side has it
// as a file without objects.
func (m *merger) composeEmpty(name string, theirs, ours bool) {
	o, u, l := m.file(name)
	switch {
	case ours && (theirs || !u.exists):
		m.text(name)
	case ours && o != l:
		m.result[name] = l.content
	case theirs && (l.exists || !o.exists):
		m.result[name] = u.content
	}
}

// checkPaths checks that no file is the directory of another file, which can result if one side
// replaced a file by a directory.
func (m *merger) checkPaths() error {
	for _, name := range slices.Sorted(maps.Keys(m.result)) {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, file := m.result[dir]; file {
				return fmt.Errorf("%s is a file on one side and the directory of %s on the other; rename one of them in the local package", dir, name)
			}
		}
	}
	return nil
}
