package diff

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// Change is the type of a change of an object or a file.
type Change string

// Changes. Moved means moved to another file, and possibly changed.
const (
	Added   Change = "Added"
	Removed Change = "Removed"
	Changed Change = "Changed"
	Moved   Change = "Moved"
)

// Entry is an object that differs, or a file without objects that differs.
type Entry struct {
	Change Change `json:"change"`
	// File is the file of the object. If it was removed, it is the file before.
	File string `json:"file"`
	// FromFile is the file before the object was moved.
	FromFile string `json:"fromFile,omitempty"`
	// Object is nil for a file.
	Object *kpt.Object `json:"object,omitempty"`
	// Masked is true if the values are not shown because they are those of a Secret.
	Masked bool `json:"masked,omitempty"`
	// Note describes a difference that is not in Diff.
	Note string `json:"note,omitempty"`
	// Diff is the difference in the unified format, without the lines that name the files.
	Diff string `json:"diff,omitempty"`
}

// keyOf returns the identity of an object, which does not include its version.
func keyOf(o kpt.Object) kpt.Object {
	o.APIVersion = kpt.GroupOf(o.APIVersion)
	if o.APIVersion == "kpt.dev" && o.Kind == kpt.KptfileKind {
		o.Name, o.Namespace = "", "" // the Kptfile of a renamed package is the same object
	}
	return o
}

// document is an object in a file.
type document struct {
	file   string
	object kpt.Object
	text   string
	node   *yaml.RNode
}

// Packages returns the differences of two versions of a package, ordered by file and position. It
// parses only files that differ. It ignores merge comments and the status of Kptfiles.
func Packages(before, after kpt.Files) []Entry {
	var entries []Entry
	var old, now []*document
	for _, name := range kpt.PathsOf(before, after) {
		was, existed := before[name]
		is, exists := after[name]
		if existed == exists && was == is {
			continue
		}
		oldDocuments, oldErr := read(name, was)
		nowDocuments, nowErr := read(name, is)
		switch {
		case oldErr != nil || nowErr != nil:
			e := Entry{Change: changeOf(existed, exists), File: name, Note: "is not valid YAML; the content is not shown, because it may hold a Secret"}
			entries = append(entries, e)
		case len(oldDocuments)+len(nowDocuments) == 0:
			entries = append(entries, compareFiles(name, changeOf(existed, exists), was, is))
		case existed && len(oldDocuments) == 0 || exists && len(nowDocuments) == 0:
			// A file of objects was replaced by one without objects, or vice versa.
			entries = append(entries, Entry{Change: Changed, File: name, Note: "has objects in one version only; they are listed as added or removed"})
			old, now = append(old, oldDocuments...), append(now, nowDocuments...)
		default:
			old, now = append(old, oldDocuments...), append(now, nowDocuments...)
			if same(oldDocuments, nowDocuments) && !isKptfile(name) && withoutMergeComments(was) != withoutMergeComments(is) {
				entries = append(entries, Entry{Change: Changed, File: name, Note: "differs in the order of its objects, or in the text between them"})
			}
		}
	}
	entries = append(entries, objects(old, now)...)
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.File, b.File) })
	return entries
}

func changeOf(existed, exists bool) Change {
	switch {
	case !existed:
		return Added
	case !exists:
		return Removed
	default:
		return Changed
	}
}

// mentionsSecret finds Secrets in files without objects, such as templates and copies.
var mentionsSecret = regexp.MustCompile(`kind["']?\s*:\s*["']?Secret\b`)

func compareFiles(name string, change Change, was, is string) Entry {
	e := Entry{Change: change, File: name}
	if mentionsSecret.MatchString(was) || mentionsSecret.MatchString(is) {
		e.Masked, e.Note = true, "mentions a Secret but has no objects; the content is not shown"
		return e
	}
	e.Diff = unified(was, is)
	return e
}

// same reports whether two files hold the same objects, in any order, ignoring what is not
// compared.
func same(old, now []*document) bool {
	if len(old) != len(now) {
		return false
	}
	order := func(a, b *document) int {
		return cmp.Or(strings.Compare(a.object.String(), b.object.String()), strings.Compare(a.text, b.text))
	}
	x, y := slices.SortedFunc(slices.Values(old), order), slices.SortedFunc(slices.Values(now), order)
	return slices.EqualFunc(x, y, func(a, b *document) bool { return a.object == b.object && a.text == b.text })
}

// read returns the objects of a file; none if any of its documents is not an object.
func read(name, content string) ([]*document, error) {
	if !kpt.IsKRM(name) || content == "" {
		return nil, nil
	}
	var documents []*document
	for _, text := range split(content) {
		nodes, err := kpt.Documents(text)
		if err != nil {
			// The part may depend on another one, such as a directive.
			return readWhole(name, content)
		}
		for _, node := range nodes {
			if len(nodes) > 1 {
				return readWhole(name, content)
			}
			d := newDocument(name, node)
			if d == nil {
				return nil, nil
			}
			d.setText(text)
			documents = append(documents, d)
		}
	}
	return documents, nil
}

// readWhole reads a file that cannot be split into its documents. They are shown as they are
// encoded again.
func readWhole(name, content string) ([]*document, error) {
	nodes, err := kpt.Documents(content)
	if err != nil {
		return nil, err
	}
	var documents []*document
	for _, node := range nodes {
		d := newDocument(name, node)
		if d == nil {
			return nil, nil
		}
		text, err := node.String()
		if err != nil {
			return nil, err
		}
		d.setText(text)
		documents = append(documents, d)
	}
	return documents, nil
}

// newDocument returns nil if the document is not an object.
func newDocument(name string, node *yaml.RNode) *document {
	if node.YNode().Kind != yaml.MappingNode {
		return nil
	}
	object, ok := kpt.ObjectOf(node)
	if !ok {
		return nil
	}
	return &document{file: name, object: object, node: node}
}

// setText sets the text that is compared.
func (d *document) setText(text string) {
	if isKptfile(d.file) {
		text = withoutStatus(text, d.node.Document())
	}
	d.text = withoutMergeComments(text)
}

// split splits a file at the lines that separate documents. The parts end in a newline and do not
// include the separators.
func split(content string) []string {
	var texts []string
	var part strings.Builder
	flush := func() {
		if text := strings.Trim(part.String(), "\n"); strings.TrimSpace(text) != "" {
			texts = append(texts, text+"\n")
		}
		part.Reset()
	}
	for line := range strings.Lines(content) {
		if rest, parts := strings.CutPrefix(line, "---"); parts && (strings.TrimSpace(rest) == "" || rest[0] == ' ' || rest[0] == '\t') {
			flush()
			if text := strings.TrimLeft(rest, " \t"); strings.TrimSpace(text) != "" {
				part.WriteString(text)
			}
			continue
		}
		part.WriteString(line)
	}
	flush()
	return texts
}

// objects compares objects: first those with the same identity in the same file, then those that
// moved.
func objects(old, now []*document) []Entry {
	type place struct {
		file   string
		object kpt.Object
	}
	var entries []Entry
	unmatched := map[place][]*document{}
	for _, d := range old {
		p := place{d.file, keyOf(d.object)}
		unmatched[p] = append(unmatched[p], d)
	}
	var added []*document
	for _, d := range now {
		p := place{d.file, keyOf(d.object)}
		if len(unmatched[p]) == 0 {
			added = append(added, d)
			continue
		}
		was := unmatched[p][0]
		unmatched[p] = unmatched[p][1:]
		if was.text != d.text {
			entries = append(entries, compareObjects(Changed, was, d))
		}
	}
	removed := map[kpt.Object][]*document{}
	for _, d := range old { // not in the random order of the map
		p := place{d.file, keyOf(d.object)}
		if len(unmatched[p]) > 0 && unmatched[p][0] == d {
			unmatched[p] = unmatched[p][1:]
			removed[p.object] = append(removed[p.object], d)
		}
	}
	count := map[kpt.Object]int{}
	for _, d := range added {
		count[keyOf(d.object)]++
	}
	for _, d := range added {
		key := keyOf(d.object)
		if count[key] == 1 && len(removed[key]) == 1 {
			entries = append(entries, compareObjects(Moved, removed[key][0], d))
			delete(removed, key)
			continue
		}
		entries = append(entries, compareObjects(Added, nil, d))
	}
	for _, d := range old {
		if slices.Contains(removed[keyOf(d.object)], d) {
			entries = append(entries, compareObjects(Removed, d, nil))
		}
	}
	return entries
}

// compareObjects compares two objects of which one may be nil.
func compareObjects(change Change, was, is *document) Entry {
	shown := cmp.Or(is, was)
	e := Entry{Change: change, File: shown.file, Object: &shown.object}
	if change == Moved {
		e.FromFile = was.file
	}
	before, after := textOf(was), textOf(is)
	if maskedBefore, maskedAfter, secret := mask(was, is); secret {
		e.Masked = true
		if before != after && maskedBefore == maskedAfter {
			e.Note = "differs only in notation or comments, which are not shown for a Secret"
		}
		before, after = maskedBefore, maskedAfter
	}
	e.Diff = unified(before, after)
	return e
}

func textOf(d *document) string {
	if d == nil {
		return ""
	}
	return d.text
}
