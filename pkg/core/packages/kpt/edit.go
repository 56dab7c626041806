package kpt

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// Cut splits a YAML file into its documents. Each part ends in a newline, and begins with the line
// "---" if there is one: in any YAML, a line that begins with --- begins a document. Empty parts
// are joined with the next part, or with the last one. It returns nil if the file cannot be split;
// then it has to be encoded as a whole.
func Cut(content string) []string {
	if !strings.HasSuffix(content, "\n") {
		content += "\n"
	}
	var parts []string
	var part strings.Builder
	hasContent := false
	for line := range strings.Lines(content) {
		marker := strings.HasPrefix(line, "---") && (len(strings.TrimSpace(line)) == 3 || line[3] == ' ' || line[3] == '\t')
		if marker && hasContent {
			parts = append(parts, part.String())
			part.Reset()
			hasContent = false
		}
		part.WriteString(line)
		trimmed := strings.TrimSpace(line)
		switch {
		case marker:
			hasContent = hasContent || len(trimmed) > 3 && !strings.HasPrefix(strings.TrimSpace(trimmed[3:]), "#")
		case strings.HasPrefix(line, "...") || strings.HasPrefix(line, "%"):
			return nil // rare
		case trimmed != "" && !strings.HasPrefix(trimmed, "#"):
			hasContent = true
		}
	}
	if rest := part.String(); hasContent || len(parts) == 0 {
		parts = append(parts, rest)
	} else {
		parts[len(parts)-1] += rest
	}
	return parts
}

// StartsDocument reports whether a part begins with the line "---", possibly after comments.
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

// Encode encodes a document in the style of its file. If wide is true, lists are indented.
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

// IsJSON reports whether a file holds JSON, by its name.
func IsJSON(name string) bool { return path.Ext(name) == ".json" }

// IsWide reports whether lists are indented in a file.
func IsWide(content string) bool {
	return yaml.DeriveSeqIndentStyle(content) == string(yaml.WideSequenceStyle)
}

// Edit calls a function for each document of a file, which may change it and reports whether it
// did, and returns the changed file. Unchanged documents stay equal byte for byte, if the file can
// be split.
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
		if HasAlias(document.YNode()) && changed {
			return "", errors.New("has an alias: an edit of one field would also change others")
		}
		if texts[i], err = Encode(name, document, IsWide(content)); err != nil {
			return "", fmt.Errorf("document %d: %w", i+1, err)
		}
	}
	if !changedAny {
		return content, nil
	}
	return WithCR(Join(texts, len(parts) > 0 && StartsDocument(parts[0])), content), nil
}

// Join joins documents into one file. Each but the first begins with the line "---"; the first one
// does, too, if marked is true.
func Join(documents []string, marked bool) string {
	var out strings.Builder
	for i, document := range documents {
		if (i > 0 || marked) && !StartsDocument(document) {
			out.WriteString("---\n")
		}
		out.WriteString(document)
	}
	return out.String()
}

// WithoutCR replaces CRLF by LF. The YAML library would read a CR as part of a comment.
func WithoutCR(content string) string { return strings.ReplaceAll(content, "\r\n", "\n") }

// WithCR replaces LF by CRLF if all lines of before end in CRLF.
func WithCR(content, before string) string {
	if crlf := strings.Count(before, "\r\n"); crlf == 0 || crlf != strings.Count(before, "\n") {
		return content
	}
	return strings.ReplaceAll(WithoutCR(content), "\n", "\r\n")
}
