package health

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// State is how an object does.
type State int8

// States.
const (
	// Healthy: it does what it is for.
	Healthy State = iota
	// Progressing: it is on its way there, as far as it says.
	Progressing
	// Unhealthy: it says that something is wrong.
	Unhealthy
)

// String implements fmt.Stringer.
func (s State) String() string {
	return [...]string{"Healthy", "Progressing", "Unhealthy"}[s]
}

// Verdict says how an object does, and why as far as it is not Healthy. It is comparable.
type Verdict struct {
	State State
	// Message is in the words of the object's status; bounded, one line.
	Message string
}

// maxMessage bounds the text of a Verdict.
const maxMessage = 200

// Judge judges an object of that kind by its status, nil if it has none. Generation is that of the object in the cluster, 0 if it
// is not known: a status that has not observed it speaks of the past.
func Judge(kind schema.GroupKind, status map[string]any, generation int64) Verdict {
	s := fields(status)
	if observed, ok := s.number("observedGeneration"); ok && observed < generation {
		return progressing("has not taken notice of the last change")
	}
	judge, ok := rules[kind]
	if !ok {
		judge = general
	}
	v := judge(s)
	v.Message = bounded(v.Message)
	return v
}

func bounded(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= maxMessage {
		return text
	}
	const mark = "…"
	return strings.ToValidUTF8(text[:maxMessage-len(mark)], "") + mark
}

func healthy() Verdict                { return Verdict{} }
func progressing(text string) Verdict { return Verdict{Progressing, text} }
func unhealthy(text string) Verdict   { return Verdict{Unhealthy, text} }

// fields is a status, read without trust in its form.
type fields map[string]any

// number returns a whole number; false if it is not there.
func (f fields) number(name string) (int64, bool) {
	switch n := f[name].(type) {
	case int64:
		return n, true
	case float64:
		return int64(n), true
	}
	return 0, false
}

// count returns a whole number, 0 if it is not there: API servers leave out zeroes.
func (f fields) count(name string) int64 {
	n, _ := f.number(name)
	return n
}

func (f fields) text(name string) string {
	text, _ := f[name].(string)
	return text
}

func (f fields) list(name string) []fields {
	items, _ := f[name].([]any)
	list := make([]fields, 0, len(items))
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			list = append(list, m)
		}
	}
	return list
}

// condition returns a condition, nil if it is not there.
func (f fields) condition(kind string) fields {
	for _, c := range f.list("conditions") {
		if c.text("type") == kind {
			return c
		}
	}
	return nil
}

func (f fields) is(kind, status string) bool {
	c := f.condition(kind)
	return c != nil && c.text("status") == status
}

// why returns what a condition says.
func (f fields) why(kind string) string {
	c := f.condition(kind)
	reason, message := c.text("reason"), c.text("message")
	switch {
	case message == "":
		message = reason
	case reason != "":
		message = reason + ": " + message
	}
	if message == "" {
		return kind + " is " + c.text("status")
	}
	return message
}
