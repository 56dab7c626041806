package merge

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
)

// version is one of the three that are merged.
type version int

const (
	originalVersion version = iota
	updatedVersion
	localVersion
)

// String is what a user calls the version.
func (v version) String() string {
	return [...]string{"old upstream", "new upstream", "local package"}[v]
}

// document is a YAML document of a file.
type document struct {
	path string
	// before is what stands before it and is no document, comments as a rule.
	before string
	// text is the document, with the line that parts it from what is before it.
	text string
	// line is where text begins in the file, counted from 0.
	line int
	// root is the whole document without aliases, for its comments, and node what it holds. They belong to one merge.
	root, node *yaml.Node
}

func (d *document) raw() string { return d.before + d.text }

// file is a file of YAML documents.
type file struct {
	documents []*document
	// rest is what follows the last document and is none.
	rest string
}

// maxAliased bounds the nodes that aliases are expanded to in one merge.
const maxAliased = 200_000

// parser parses files. It knows what it has parsed: most files are the same in two of three versions.
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
	start, at, line := 0, 0, 0 // of the next document with what is before it, and of this chunk
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

// parseChunk parses what holds one document at most.
func parseChunk(chunk string) ([]*yaml.RNode, error) {
	if strings.Trim(strings.TrimPrefix(chunk, "---"), " \r\n") == "" {
		return nil, nil
	}
	nodes, err := kptpkg.Documents(chunk)
	if err == nil && len(nodes) > 1 {
		err = errors.New("line 1: has documents that are not parted by ---")
	}
	return nodes, err
}

// maxDocuments bounds the documents of a package: each costs something, even if it is empty.
const maxDocuments = 50_000

// documents is the number of documents of a package, or a little more.
func documents(files kptpkg.Files) int {
	n := 0
	for name, content := range files {
		if isYAML(name) {
			n += 1 + strings.Count(content, "\n---")
		}
	}
	return n
}

// chunks yields the parts of a file that begin with "---", and what is before the first.
func chunks(content string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		start, directive := 0, false // %YAML belongs to the document that follows
		for at := 0; at < len(content); {
			end := strings.IndexByte(content[at:], '\n') + at + 1
			if end == at {
				end = len(content)
			}
			directive = directive || content[at] == '%'
			if at > start && parts(content[at:end]) && directive {
				directive = false
			} else if at > start && parts(content[at:end]) {
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

// parts tells whether a line parts documents.
func parts(line string) bool {
	rest, ok := strings.CutPrefix(line, "---")
	return ok && (rest == "" || strings.ContainsRune(" \t\r\n", rune(rest[0])))
}

// moved says at which line of the file an error is that names a line of a document.
func moved(err error, by int) error {
	text := strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\n", " "), "yaml: ")
	before, after, found := strings.Cut(text, "line ")
	line := 0
	if n, scanned := fmt.Sscanf(after, "%d", &line); !found || n != 1 || scanned != nil {
		return fmt.Errorf("line %d: %s", by+1, text) // of the document at least
	}
	return fmt.Errorf("%sline %d%s", before, line+by, strings.TrimLeft(after, "0123456789"))
}

// withoutAliases returns a tree in which each alias is a copy of what it stands for, so that a part of it can stand elsewhere.
func (p *parser) withoutAliases(n *yaml.Node) (*yaml.Node, error) {
	if !hasAlias(n) {
		return n, nil
	}
	return p.expand(n)
}

func (p *parser) expand(n *yaml.Node) (*yaml.Node, error) {
	p.aliased++
	if p.aliased > maxAliased {
		return nil, fmt.Errorf("line %d: the aliases of the package stand for more than %d nodes", n.Line, maxAliased)
	}
	target := n
	if n.Kind == yaml.AliasNode {
		target = n.Alias
	}
	c := *target
	c.Anchor, c.Alias = "", nil
	if c.Tag == yaml.MergeTag {
		c.Tag = "" // or it would be written as "!!merge <<"
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

func hasAlias(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || slices.ContainsFunc(n.Content, hasAlias)
}

// write returns the text of a document that was merged, in the style that it has; not what is before it.
func (d *document) write() (string, error) {
	text, err := encode(d.root, d.text)
	if err == nil && !readsAs(text, d.node) {
		err = errors.New("cannot be written as YAML once it is merged")
	}
	if err != nil {
		return "", fmt.Errorf("%s: line %d: %w", d.path, d.line+d.node.Line, err)
	}
	if line, _, _ := strings.Cut(d.text, "\n"); parts(line) {
		text = "---\n" + text
	}
	if strings.Contains(d.text, "\r\n") {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	return text, nil
}

func encode(n *yaml.Node, before string) (string, error) {
	spellNulls(n, false)
	var out bytes.Buffer
	indent := yaml.SequenceIndentStyle(yaml.DeriveSeqIndentStyle(before))
	if err := yaml.NewEncoderWithOptions(&out, &yaml.EncoderOptions{SeqIndent: indent}).Encode(n); err != nil {
		return "", err
	}
	return out.String(), nil
}

func readsAs(text string, n *yaml.Node) bool {
	documents, err := kptpkg.Documents(text)
	return err == nil && len(documents) == 1 && equal(documents[0].YNode(), n)
}

// spellNulls spells the nulls that are written as nothing where they would be written as an empty text: in flow style and as keys.
func spellNulls(n *yaml.Node, flow bool) {
	if flow && n.Kind == yaml.ScalarNode && n.Value == "" && n.ShortTag() == yaml.NodeTagNull {
		n.Value = "null"
	}
	for i, child := range n.Content {
		key := n.Kind == yaml.MappingNode && i%2 == 0
		spellNulls(child, key || flow || n.Style&yaml.FlowStyle != 0)
	}
}
