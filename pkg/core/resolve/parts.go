package resolve

import (
	"regexp"
	"strings"
)

var (
	hintFormat = regexp.MustCompile(`\. [A-Z]`)
	stepFormat = regexp.MustCompile(`^\S+( \S+)?( \((installed|wanted)\))?( requires \S.*)?$|^and [0-9]+ more$`)
)

// Parts splits the text of a conflict as Error returns it, which is all that a condition keeps.
// There are no steps if the text has none; a text that is no conflict is a message only.
func Parts(text string) (message string, steps []string, hint string) {
	message = text
	if all := hintFormat.FindAllStringIndex(message, -1); len(all) > 0 {
		at := all[len(all)-1][0]
		message, hint = message[:at], message[at+len(". "):]
	}
	at := strings.LastIndex(message, ": ")
	if at < 0 {
		return message, nil, hint
	}
	steps = strings.Split(message[at+len(": "):], "; ")
	proper := false // a step says more than a word or two, which may be anything
	for _, step := range steps {
		if !stepFormat.MatchString(step) {
			return message, nil, hint
		}
		proper = proper || strings.Contains(step, " requires ") || strings.Contains(step, "(")
	}
	if !proper {
		return message, nil, hint
	}
	return message[:at], steps, hint
}
