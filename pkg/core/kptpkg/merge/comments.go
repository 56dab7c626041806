package merge

import (
	"maps"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
)

// AddMergeComments notes in each object how upstream calls it, as kpt does: a comment "# kpt-merge: <namespace>/<name>" behind its
// metadata, so that upgrades find it again once it is renamed. Who clones or upgrades a package calls it. Everything else stays byte for
// byte; what has such a comment, or another one there, or cannot be read or merged, stays whole.
func AddMergeComments(files kptpkg.Files) kptpkg.Files {
	marked := maps.Clone(files)
	if documents(files) > maxDocuments {
		return marked
	}
	for name, content := range files {
		if isYAML(name) {
			marked[name] = markFile(content)
		}
	}
	return marked
}

func markFile(content string) string {
	var out strings.Builder
	for chunk := range chunks(content) {
		documents, err := parseChunk(chunk)
		if err == nil && len(documents) == 1 {
			chunk = mark(chunk, documents[0].YNode())
		}
		out.WriteString(chunk)
	}
	return out.String()
}

// mark puts the comment behind the metadata of a document, if it reads as the same afterwards.
func mark(content string, n *yaml.Node) string {
	metadata := get(n, "metadata")
	name := textOf(get(metadata, "name"))
	if textOf(get(n, "kind")) == "" || name == "" || strings.ContainsAny(name, "\r\n") {
		return content
	}
	var key *yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i+1] == metadata {
			key = n.Content[i]
		}
	}
	if _, marked := commentOf(key, metadata); marked {
		return content
	}
	lines := strings.SplitAfterN(content, "\n", key.Line+1)
	if key.Line > len(lines) {
		return content
	}
	line := lines[key.Line-1]
	bare := strings.TrimRight(line, " \t\r\n")
	namespace := textOf(get(metadata, "namespace"))
	comment := " # " + mergeComment + " " + namespace + "/" + name
	lines[key.Line-1] = bare + comment + line[len(strings.TrimRight(line, "\r\n")):]
	result := strings.Join(lines, "")
	if again, err := kptpkg.Documents(result); err == nil && len(again) == 1 && equal(again[0].YNode(), n) {
		if ns, upstream, ok := mergeName(again[0].YNode()); ok && ns == namespace && upstream == name {
			return result
		}
	}
	return content
}

// withoutMergeComment removes the comment that AddMergeComments adds.
func withoutMergeComment(n *yaml.Node) {
	for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
		if n.Content[i].Value != "metadata" {
			continue
		}
		for _, comment := range []*string{&n.Content[i].LineComment, &n.Content[i+1].LineComment, &n.Content[i+1].HeadComment} {
			if strings.HasPrefix(strings.TrimLeft(*comment, "# "), mergeComment) {
				*comment = ""
			}
		}
	}
}
