package diff

import (
	"path"
	"regexp"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// mergeComment is the comment that a clone adds to each object, so that upgrades find the object
// again.
var mergeComment = regexp.MustCompile(`(?m)[ \t]*#[ \t]*kpt-merge:[^\n]*?(\r?)$`)

// withoutMergeComments removes merge comments. Otherwise a clone would differ from its upstream in
// every object.
func withoutMergeComments(text string) string {
	if !strings.Contains(text, "kpt-merge:") {
		return text
	}
	return mergeComment.ReplaceAllString(text, "$1")
}

// withoutStatus removes the status from the text of a Kptfile. The server writes it, and users do
// not review it.
func withoutStatus(text string, node *yaml.Node) string {
	root := node
	if root.Kind == yaml.DocumentNode && len(root.Content) == 1 {
		root = root.Content[0]
	}
	if root.Kind != yaml.MappingNode || root.Style&yaml.FlowStyle != 0 {
		return text
	}
	lines := strings.SplitAfter(text, "\n")
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value != "status" {
			continue
		}
		from, to := root.Content[i].Line-1, len(lines)
		if i+2 < len(root.Content) {
			next := root.Content[i+2]
			to = next.Line - 1
			if next.HeadComment != "" {
				to -= strings.Count(next.HeadComment, "\n") + 1
			}
		}
		if from < 0 || from > to || to > len(lines) {
			return text
		}
		return strings.Join(lines[:from], "") + strings.Join(lines[to:], "")
	}
	return text
}

func isKptfile(name string) bool { return path.Base(name) == kpt.KptfileName }
