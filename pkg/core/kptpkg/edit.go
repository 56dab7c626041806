package kptpkg

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// Cut cuts a file of YAML into its documents: each part ends in a newline, and begins with the line "---" if there is one. A line that
// begins with --- begins one, in whatever YAML. Parts that hold nothing go with the next, or the last. It returns nil where a file cannot
// be cut; then it is written as a whole.
func Cut(content string) []string {
	if !strings.HasSuffix(content, "\n") {
		content += "\n"
	}
	var parts []string
	var part strings.Builder
	something := false
	for line := range strings.Lines(content) {
		marker := strings.HasPrefix(line, "---") && (len(strings.TrimSpace(line)) == 3 || line[3] == ' ' || line[3] == '\t')
		if marker && something {
			parts = append(parts, part.String())
			part.Reset()
			something = false
		}
		part.WriteString(line)
		trimmed := strings.TrimSpace(line)
		switch {
		case marker:
			something = something || len(trimmed) > 3 && !strings.HasPrefix(strings.TrimSpace(trimmed[3:]), "#")
		case strings.HasPrefix(line, "...") || strings.HasPrefix(line, "%"):
			return nil // rare
		case trimmed != "" && !strings.HasPrefix(trimmed, "#"):
			something = true
		}
	}
	if rest := part.String(); something || len(parts) == 0 {
		parts = append(parts, rest)
	} else {
		parts[len(parts)-1] += rest
	}
	return parts
}

// StartsDocument tells whether a part begins with its own marker, behind comments maybe.
func StartsDocument(part string) bool {
	for line := range strings.Lines(part) {
		switch trimmed := strings.TrimSpace(line); {
		case strings.HasPrefix(line, "---"):
			return true
		case trimmed != "" && !strings.HasPrefix(trimmed, "#"):
			return false
		}
	}
	return false
}

// Encode writes a document in the style of its file; wide tells that lists are indented there.
func Encode(name string, node *yaml.RNode, wide bool) (string, error) {
	if IsJSON(name) {
		return encodeJSON(node)
	}
	style := yaml.CompactSequenceStyle
	if wide {
		style = yaml.WideSequenceStyle
	}
	text, err := yaml.MarshalWithOptions(node.Document(), &yaml.EncoderOptions{SeqIndent: style})
	return string(text), err
}

// IsJSON tells whether a file is written as JSON.
func IsJSON(name string) bool { return path.Ext(name) == ".json" }

// IsWide tells whether lists are indented in a file.
func IsWide(content string) bool {
	return yaml.DeriveSeqIndentStyle(content) == string(yaml.WideSequenceStyle)
}

// Edit returns a file with documents changed by a function, which is called for each, and tells whether it has changed it. The bytes of
// the others stay, if the file can be cut.
func Edit(name, content string, change func(document *yaml.RNode) (changed bool, err error)) (string, error) {
	documents, err := Documents(WithoutCR(content))
	if err != nil {
		return "", err
	}
	parts := Cut(content)
	if len(parts) != len(documents) {
		parts = nil
	}
	changedAny := false
	texts := make([]string, len(documents))
	for i, document := range documents {
		changed, err := change(document)
		if err != nil {
			return "", err
		}
		if changedAny = changedAny || changed; parts != nil && !changed {
			texts[i] = parts[i]
			continue
		}
		if hasAlias(document.YNode()) && changed {
			return "", errors.New("has an alias, which edits of one place would change in others, too")
		}
		if texts[i], err = Encode(name, document, IsWide(content)); err != nil {
			return "", fmt.Errorf("document %d: %w", i+1, err)
		}
		if i == 0 && parts != nil && StartsDocument(parts[0]) && !StartsDocument(texts[0]) {
			texts[0] = "---\n" + texts[0] // as it was
		}
	}
	if !changedAny {
		return content, nil
	}
	var out strings.Builder
	for i, text := range texts {
		if i > 0 && !StartsDocument(text) {
			out.WriteString("---\n")
		}
		out.WriteString(text)
	}
	return WithCR(out.String(), content), nil
}

// WithoutCR is a file whose lines end in LF alone: a CR would be taken for a part of comments.
func WithoutCR(content string) string { return strings.ReplaceAll(content, "\r\n", "\n") }

// WithCR has lines end in CR and LF if those of what was before all did.
func WithCR(content, before string) string {
	if crlf := strings.Count(before, "\r\n"); crlf == 0 || crlf != strings.Count(before, "\n") {
		return content
	}
	return strings.ReplaceAll(WithoutCR(content), "\n", "\r\n")
}
