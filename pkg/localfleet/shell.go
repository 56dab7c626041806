package localfleet

import (
	"regexp"
	"strings"
)

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellQuote returns a word as a shell must read it, for commands that a user copies.
func shellQuote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// ExportKubeconfig is the command with which a shell uses the user's kubeconfig.
func (l Layout) ExportKubeconfig() string { return "export KUBECONFIG=" + shellQuote(l.Kubeconfig()) }
