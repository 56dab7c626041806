package merge

import (
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// version is one of the three versions of a merge.
type version int

const (
	originalVersion version = iota
	updatedVersion
	localVersion
)

// String returns the name of the version in errors.
func (v version) String() string {
	return [...]string{"old upstream", "new upstream", "local package"}[v]
}

// document is a YAML document of a file.
type document struct {
	path string
	// before is the text before the document, mostly comments.
	before string
	// text is the document, with the line "---" before it if there is one.
	text string
	// line is the line at which text begins in the file, counted from 0.
	line int
	// root is the document node without aliases, which has the comments, and node is its content.
	// They belong to one merge.
	root, node *yaml.Node
}

func (d *document) raw() string { return d.before + d.text }

// file is a file of YAML documents.
type file struct {
	documents []*document
	// rest is the text after the last document.
	rest string
}

// maxAliased bounds the number of nodes from expanded aliases in one merge.
const maxAliased = 200_000

// parser parses files and caches them: most files are equal in two of three versions.
type parser struct {
	known   map[string]*file // by path and content
	aliased int
}

func (p *parser) parse(v version, name, content string) (*file, error) {
	id := name + "\x00" + content
	if f, ok := p.known[id]; ok {
		return f, nil
	}
	f := &file{}
	start, at, line := 0, 0, 0 // offset of the next document with the text before it; offset and line of this chunk
	for chunk := range chunks(content) {
		nodes, err := parseChunk(chunk)
		if err == nil && len(nodes) == 1 {
			d := &document{path: name, before: content[start:at], text: chunk, line: line}
			if d.root, err = p.withoutAliases(nodes[0].Document()); err == nil {
				d.node = d.root.Content[0]
				f.documents = append(f.documents, d)
				start = at + len(chunk)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", v, name, moved(err, line))
		}
		at += len(chunk)
		line += strings.Count(chunk, "\n")
	}
	f.rest = content[start:]
	if p.known == nil {
		p.known = map[string]*file{}
	}
	p.known[id] = f
	return f, nil
}

// parseChunk parses a chunk, which holds at most one document.
func parseChunk(chunk string) ([]*yaml.RNode, error) {
	if strings.Trim(strings.TrimPrefix(chunk, "---"), " \r\n") == "" {
		return nil, nil
	}
	nodes, err := kpt.Documents(chunk)
	if err == nil && len(nodes) > 1 {
		err = &kpt.LineError{Line: 1, Reason: "has documents that are not separated by ---"}
	}
	return nodes, err
}

// maxDocuments bounds the number of documents of a package. Each has a cost, even if it is empty.
const maxDocuments = 50_000

// documents returns an upper bound of the number of documents of a package.
func documents(files kpt.Files) int {
	n := 0
	for name, content := range files {
		if isYAML(name) {
			n += 1 + strings.Count(content, "\n---")
		}
	}
	return n
}

// chunks yields the parts of a file that begin with "---", and the text before the first.
func chunks(content string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		start, directive := 0, false // %YAML belongs to the document that follows
		for at := 0; at < len(content); {
			end := strings.IndexByte(content[at:], '\n') + at + 1
			if end == at {
				end = len(content)
			}
			directive = directive || content[at] == '%'
			if at > start && isSeparator(content[at:end]) && directive {
				directive = false
			} else if at > start && isSeparator(content[at:end]) {
				if !yield(content[start:at]) {
					return
				}
				start = at
			}
			at = end
		}
		if start < len(content) {
			yield(content[start:])
		}
	}
}

// isSeparator reports whether a line separates documents.
func isSeparator(line string) bool {
	rest, ok := strings.CutPrefix(line, "---")
	return ok && (rest == "" || strings.ContainsRune(" \t\r\n", rune(rest[0])))
}

// moved converts the line of an error in a document to a line of the file.
func moved(err error, by int) error {
	if at, ok := errors.AsType[*kpt.LineError](err); ok {
		return &kpt.LineError{Line: max(1, at.Line) + by, Reason: at.Reason}
	}
	return fmt.Errorf("line %d: %w", by+1, err) // the line of the document
}

// withoutAliases returns a tree in which each alias is replaced by a copy of its target, so that
// parts of the tree can be moved.
func (p *parser) withoutAliases(n *yaml.Node) (*yaml.Node, error) {
	if !kpt.HasAlias(n) {
		return n, nil
	}
	return p.expand(n)
}

func (p *parser) expand(n *yaml.Node) (*yaml.Node, error) {
	p.aliased++
	if p.aliased > maxAliased {
		return nil, &kpt.LineError{Line: n.Line, Reason: fmt.Sprintf("the aliases of the package expand to more than %d nodes", maxAliased)}
	}
	target := n
	if n.Kind == yaml.AliasNode {
		target = n.Alias
	}
	c := *target
	c.Anchor, c.Alias = "", nil
	if c.Tag == yaml.MergeTag {
		c.Tag = "" // otherwise it would be encoded as "!!merge <<"
	}
	c.HeadComment, c.LineComment, c.FootComment = n.HeadComment, n.LineComment, n.FootComment
	c.Content = make([]*yaml.Node, 0, len(target.Content))
	for _, child := range target.Content {
		expanded, err := p.expand(child)
		if err != nil {
			return nil, err
		}
		c.Content = append(c.Content, expanded)
	}
	return &c, nil
}

// write encodes a merged document in its style, without the text before it.
func (d *document) write() (string, error) {
	text, err := encode(d.root, d.text)
	if err == nil && !readsAs(text, d.node) {
		err = errors.New("the merged document cannot be written as YAML")
	}
	if err != nil {
		return "", fmt.Errorf("%s: line %d: %w", d.path, d.line+d.node.Line, err)
	}
	if line, _, _ := strings.Cut(d.text, "\n"); isSeparator(line) {
		text = "---\n" + text
	}
	if strings.Contains(d.text, "\r\n") {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	return text, nil
}

func encode(n *yaml.Node, before string) (string, error) {
	spellNulls(n, false)
	return kpt.Encode("", yaml.NewRNode(n), kpt.IsWide(before))
}

func readsAs(text string, n *yaml.Node) bool {
	documents, err := kpt.Documents(text)
	return err == nil && len(documents) == 1 && equal(documents[0].YNode(), n)
}

// spellNulls writes empty nulls as "null" where they would be encoded as an empty string: in flow
// style and as keys.
func spellNulls(n *yaml.Node, flow bool) {
	if flow && n.Kind == yaml.ScalarNode && n.Value == "" && n.ShortTag() == yaml.NodeTagNull {
		n.Value = "null"
	}
	for i, child := range n.Content {
		key := n.Kind == yaml.MappingNode && i%2 == 0
		spellNulls(child, key || flow || n.Style&yaml.FlowStyle != 0)
	}
}
