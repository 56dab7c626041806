package health

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/core/text"
)

// State is the health of an object.
type State int8

// States.
const (
	// Healthy means that the object works.
	Healthy State = iota
	// Progressing means that the object has not reached its desired state yet, and reports no
	// problem.
	Progressing
	// Unhealthy means that the object reports a problem.
	Unhealthy
)

// String implements fmt.Stringer.
func (s State) String() string {
	return [...]string{"Healthy", "Progressing", "Unhealthy"}[s]
}

// Verdict is the health of an object, and the reason if it is not Healthy. It is comparable.
type Verdict struct {
	State State
	// Message is the reason, in the words of the object's status. It has one line and at most 200
	// bytes.
	Message string
}

// maxMessage limits the bytes of Verdict.Message.
const maxMessage = 200

// Evaluate returns the health of an object of that kind with that status, which is nil if the
// object has none. Generation is the generation of the object in the cluster, 0 if it is unknown. A
// status that has not observed that generation is outdated, so the object is Progressing.
func Evaluate(kind schema.GroupKind, status map[string]any, generation int64) Verdict {
	s := fields(status)
	if observed, ok := s.number("observedGeneration"); ok && observed < generation {
		return progressing("its controller has not observed the last change yet")
	}
	rule, ok := rules[kind]
	if !ok {
		rule = general
	}
	v := rule(s)
	v.Message = text.Clip(text.OneLine(v.Message), maxMessage)
	return v
}

func healthy() Verdict                   { return Verdict{} }
func progressing(message string) Verdict { return Verdict{Progressing, message} }
func unhealthy(message string) Verdict   { return Verdict{Unhealthy, message} }

// fields is a status. Its methods accept fields of unexpected types and treat them as absent.
type fields map[string]any

// number returns a whole number, and whether the field exists.
func (f fields) number(name string) (int64, bool) {
	switch n := f[name].(type) {
	case int64:
		return n, true
	case float64:
		return int64(n), true
	}
	return 0, false
}

// count returns a whole number, 0 if the field is absent: API servers omit zeroes.
func (f fields) count(name string) int64 {
	n, _ := f.number(name)
	return n
}

func (f fields) text(name string) string {
	value, _ := f[name].(string)
	return value
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

// condition returns the condition of that type, nil if it is absent.
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

// why returns the reason and the message of a condition.
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
