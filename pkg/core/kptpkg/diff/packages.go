package diff

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
)

// Change is what became of an object or a file.
type Change string

// Changes. What moved stands in another file and may have changed as well.
const (
	Added   Change = "Added"
	Removed Change = "Removed"
	Changed Change = "Changed"
	Moved   Change = "Moved"
)

// Entry is an object that differs, or a file that does and holds no objects.
type Entry struct {
	Change Change `json:"change"`
	// File is where it stands; where it stood if it is gone.
	File string `json:"file"`
	// FromFile is where it stood before it moved.
	FromFile string `json:"fromFile,omitempty"`
	// Object is nil for a file.
	Object *Object `json:"object,omitempty"`
	// Masked tells that values are not shown, since they are those of a Secret.
	Masked bool `json:"masked,omitempty"`
	// Note says what Diff does not.
	Note string `json:"note,omitempty"`
	// Diff is the difference in the unified format, without the lines that name the files.
	Diff string `json:"diff,omitempty"`
}

// Object identifies an object.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// String is how a user names the object.
func (o Object) String() string {
	group, _, hasGroup := strings.Cut(o.APIVersion, "/")
	kind := o.Kind
	if hasGroup {
		kind += "." + group
	}
	if o.Namespace == "" {
		return kind + " " + o.Name
	}
	return kind + " " + o.Namespace + "/" + o.Name
}

// key is the object, whatever its version.
func (o Object) key() Object {
	group, _, hasGroup := strings.Cut(o.APIVersion, "/")
	if !hasGroup {
		group = ""
	}
	o.APIVersion = group
	if group == "kpt.dev" && o.Kind == kptpkg.KptfileKind {
		o.Name, o.Namespace = "", "" // the name of a package may change; its Kptfile is the same
	}
	return o
}

// document is an object in a file.
type document struct {
	file   string
	index  int
	object Object
	text   string
	node   *yaml.RNode
}

// Packages returns how two versions of a package differ, by file, and in a file by the place of the object. Only files that differ are
// read. The comments by which upgrades find objects again, and the status in a Kptfile, are no difference.
func Packages(before, after kptpkg.Files) []Entry {
	var entries []Entry
	var old, now []*document
	for _, name := range paths(before, after) {
		was, existed := before[name]
		is, exists := after[name]
		if existed == exists && was == is {
			continue
		}
		oldDocuments, oldErr := read(name, was)
		nowDocuments, nowErr := read(name, is)
		switch {
		case oldErr != nil || nowErr != nil:
			// What cannot be read may hold a Secret, so nothing of it is shown.
			e := Entry{Change: changeOf(existed, exists), File: name, Note: "cannot be read as YAML; its content is not shown"}
			entries = append(entries, e)
		case len(oldDocuments)+len(nowDocuments) == 0:
			entries = append(entries, compareFiles(name, changeOf(existed, exists), was, is))
		case existed && len(oldDocuments) == 0 || exists && len(nowDocuments) == 0:
			// A file of objects has become one of something else, or the other way round.
			entries = append(entries, Entry{Change: Changed, File: name, Note: "holds objects on one side only"})
			old, now = append(old, oldDocuments...), append(now, nowDocuments...)
		default:
			old, now = append(old, oldDocuments...), append(now, nowDocuments...)
			if same(oldDocuments, nowDocuments) && !isKptfile(name) && withoutMergeComments(was) != withoutMergeComments(is) {
				entries = append(entries, Entry{Change: Changed, File: name, Note: "differs in the order of its objects, or in what stands between them"})
			}
		}
	}
	entries = append(entries, objects(old, now)...)
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.File, b.File) })
	return entries
}

func paths(before, after kptpkg.Files) []string {
	all := append(before.Paths(), after.Paths()...)
	slices.Sort(all)
	return slices.Compact(all)
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

// mentionsSecret finds Secrets in what is no file of objects, such as a template or a copy.
var mentionsSecret = regexp.MustCompile(`kind["']?\s*:\s*["']?Secret\b`)

func compareFiles(name string, change Change, was, is string) Entry {
	e := Entry{Change: change, File: name}
	if mentionsSecret.MatchString(was) || mentionsSecret.MatchString(is) {
		e.Masked, e.Note = true, "mentions a Secret but is no file of objects; its content is not shown"
		return e
	}
	e.Diff = Unified(was, is)
	return e
}

// same tells whether two files hold the same objects as far as they are compared, and in that order or another.
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

// read returns the objects of a file; none if it holds none, or something else beside them.
func read(name, content string) ([]*document, error) {
	if !kptpkg.IsKRM(name) || content == "" {
		return nil, nil
	}
	var documents []*document
	for _, text := range split(content) {
		nodes, err := kptpkg.Documents(text)
		if err != nil {
			// Perhaps only a part that depends on another, such as a directive.
			return readWhole(name, content)
		}
		for _, node := range nodes {
			if len(nodes) > 1 {
				return readWhole(name, content)
			}
			d := newDocument(name, len(documents), node)
			if d == nil {
				return nil, nil
			}
			d.setText(text)
			documents = append(documents, d)
		}
	}
	return documents, nil
}

// readWhole reads a file that cannot be cut into its documents; they are shown as they are written anew.
func readWhole(name, content string) ([]*document, error) {
	nodes, err := kptpkg.Documents(content)
	if err != nil {
		return nil, err
	}
	var documents []*document
	for i, node := range nodes {
		d := newDocument(name, i, node)
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

// newDocument returns nil for what is no object.
func newDocument(name string, index int, node *yaml.RNode) *document {
	if node.YNode().Kind != yaml.MappingNode {
		return nil
	}
	object := Object{APIVersion: text(node, "apiVersion"), Kind: text(node, "kind")}
	if object.APIVersion == "" || object.Kind == "" {
		return nil
	}
	object.Namespace, object.Name = text(node, "metadata", "namespace"), text(node, "metadata", "name")
	return &document{file: name, index: index, object: object, node: node}
}

// setText sets what is compared.
func (d *document) setText(text string) {
	if isKptfile(d.file) {
		text = withoutStatus(text, d.node.Document())
	}
	d.text = withoutMergeComments(text)
}

func text(node *yaml.RNode, path ...string) string {
	found, err := node.Pipe(yaml.Lookup(path...))
	if err != nil || found == nil || found.YNode() == nil || found.YNode().Kind != yaml.ScalarNode {
		return ""
	}
	return found.YNode().Value
}

// split cuts a file at the lines that part documents. The texts end in a newline and have no such line.
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

// objects compares objects: those of one identity in one file, then those that moved.
func objects(old, now []*document) []Entry {
	type place struct {
		file   string
		object Object
	}
	var entries []Entry
	waiting := map[place][]*document{}
	for _, d := range old {
		p := place{d.file, d.object.key()}
		waiting[p] = append(waiting[p], d)
	}
	var come []*document
	for _, d := range now {
		p := place{d.file, d.object.key()}
		if len(waiting[p]) == 0 {
			come = append(come, d)
			continue
		}
		was := waiting[p][0]
		waiting[p] = waiting[p][1:]
		if was.text != d.text {
			entries = append(entries, compareObjects(Changed, was, d))
		}
	}
	gone := map[Object][]*document{}
	for _, d := range old { // in order, so that results do not depend on that of a map
		p := place{d.file, d.object.key()}
		if len(waiting[p]) > 0 && waiting[p][0] == d {
			waiting[p] = waiting[p][1:]
			gone[p.object] = append(gone[p.object], d)
		}
	}
	coming := map[Object]int{}
	for _, d := range come {
		coming[d.object.key()]++
	}
	for _, d := range come {
		key := d.object.key()
		if coming[key] == 1 && len(gone[key]) == 1 {
			entries = append(entries, compareObjects(Moved, gone[key][0], d))
			delete(gone, key)
			continue
		}
		entries = append(entries, compareObjects(Added, nil, d))
	}
	for _, d := range old {
		if slices.Contains(gone[d.object.key()], d) {
			entries = append(entries, compareObjects(Removed, d, nil))
		}
	}
	return entries
}

// compareObjects compares two objects of which one may be nil.
func compareObjects(change Change, was, is *document) Entry {
	e := Entry{Change: change}
	shown := is
	if is == nil {
		shown = was
	}
	e.File, e.Object = shown.file, &shown.object
	if change == Moved {
		e.FromFile = was.file
	}
	before, after := textOf(was), textOf(is)
	if maskedBefore, maskedAfter, secret := mask(was, is); secret {
		e.Masked = true
		if before != after && maskedBefore == maskedAfter {
			e.Note = "differs only in how it is written, or in comments, which are not shown"
		}
		before, after = maskedBefore, maskedAfter
	}
	e.Diff = Unified(before, after)
	return e
}

func textOf(d *document) string {
	if d == nil {
		return ""
	}
	return d.text
}
