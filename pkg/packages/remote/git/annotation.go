package git

import (
	"encoding/json"
	"strings"
)

// annotation is the line of a commit message that identifies the revision, as Porch writes it.
type annotation struct {
	// Package is the path of the package in the repository.
	Package       string          `json:"package,omitempty"`
	WorkspaceName string          `json:"workspaceName,omitempty"`
	Revision      string          `json:"revision,omitempty"`
	Task          json.RawMessage `json:"task,omitempty"`
}

const annotationPrefix = "kpt:"

// maxMessage bounds how much of a message is parsed, in bytes.
const maxMessage = 256 << 10

// annotations parses all such lines. Lines that cannot be parsed are ignored.
func annotations(message string) []annotation {
	if len(message) > maxMessage {
		message = message[len(message)-maxMessage:]
	}
	var all []annotation
	for text := range strings.SplitSeq(message, "\n") {
		rest, ok := strings.CutPrefix(strings.TrimSpace(text), annotationPrefix)
		if !ok {
			continue
		}
		var a annotation
		if json.Unmarshal([]byte(rest), &a) == nil {
			all = append(all, a)
		}
	}
	return all
}

// annotate returns a message that ends with the annotation.
func annotate(subject string, a annotation) (string, error) {
	text, err := json.Marshal(a)
	if err != nil {
		return "", err
	}
	return subject + "\n\n" + annotationPrefix + string(text) + "\n", nil
}
