package packages

import (
	"strings"
)

// joined makes one line of several reasons.
func joined(texts []string) string {
	if len(texts) == 1 {
		return texts[0]
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// cutField cuts the field off a text that begins with one, as in "spec.tasks[0].type: Unsupported value: …".
func cutField(text string) (name, rest string) {
	name, rest, ok := strings.Cut(text, ": ")
	if !ok || strings.ContainsAny(name, " \"") || name == "" {
		return "", text
	}
	return name, rest
}

// shorten cuts a text that others wrote at a bound.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}
