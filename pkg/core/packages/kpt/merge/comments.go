package merge

import (
	"maps"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/manifests"
)

// AddMergeComments adds the upstream name of each object, as kpt does: a comment "# kpt-merge:
// <namespace>/<name>" after its metadata, so that upgrades find the object after it was renamed. It
// is called after a clone or an upgrade. Everything else stays equal byte for byte, and so do
// documents that have such a comment, or another comment there, or that cannot be parsed or merged.
func AddMergeComments(files kpt.Files) kpt.Files {
	out := maps.Clone(files)
	if documents(files) > maxDocuments {
		return out
	}
	in := manifests.In(files)
	for name, content := range files {
		if isYAML(name) && in(name) {
			out[name] = addComments(content)
		}
	}
	return out
}

func addComments(content string) string {
	var out strings.Builder
	for chunk := range chunks(content) {
		documents, err := parseChunk(chunk)
		if err == nil && len(documents) == 1 {
			chunk = addComment(chunk, documents[0].YNode())
		}
		out.WriteString(chunk)
	}
	return out.String()
}

// addComment adds the comment after the metadata of a document, unless that would change the value
// of the document.
func addComment(content string, n *yaml.Node) string {
	field := yaml.NewRNode(n).Field("metadata")
	if field == nil || kpt.TextOf(kpt.Get(n, "kind")) == "" {
		return content
	}
	key, metadata := field.Key.YNode(), field.Value.YNode()
	name := kpt.TextOf(kpt.Get(metadata, "name"))
	if _, found := commentOf(field); found || name == "" || strings.ContainsAny(name, "\r\n") {
		return content
	}
	lines := strings.SplitAfterN(content, "\n", key.Line+1)
	if key.Line > len(lines) {
		return content
	}
	line := lines[key.Line-1]
	bare := strings.TrimRight(line, " \t\r\n")
	namespace := kpt.TextOf(kpt.Get(metadata, "namespace"))
	comment := " # " + mergeComment + " " + namespace + "/" + name
	lines[key.Line-1] = bare + comment + line[len(strings.TrimRight(line, "\r\n")):]
	result := strings.Join(lines, "")
	if again, err := kpt.Documents(result); err == nil && len(again) == 1 && equal(again[0].YNode(), n) {
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
