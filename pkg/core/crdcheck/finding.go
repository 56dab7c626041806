package crdcheck

import (
	"cmp"
	"slices"

	"github.com/starlinghq/starling/pkg/core/text"
)

// A Reason is the reason of a condition Validated=False.
type Reason string

// Reasons of findings.
const (
	CRDConflict        Reason = "CRDConflict"
	SchemaIncompatible Reason = "SchemaIncompatible"
)

const (
	findingLimit = 10  // findings in one message
	objectLimit  = 3   // objects that one finding names
	textLimit    = 400 // bytes of one finding
)

// A Finding is one thing that speaks against a CRD.
type Finding struct {
	Reason  Reason
	Warning bool // else it is an error
	// Hard is set if the API server would refuse the CRD, so that nobody can accept it.
	Hard    bool
	CRD     string
	Version string // "" if it is not about one version
	Path    string // in the schema, or in the CRD if Version is ""
	What    string // what is wrong, in words
	Objects Objects
}

// Objects are the objects that a finding is about.
type Objects struct {
	Names []string // the first three: namespace/name, or the name
	Count int
}

// add counts one object.
func (o *Objects) add(name string) {
	if len(o.Names) < objectLimit {
		o.Names = append(o.Names, name)
	}
	o.Count++
}

// String returns the finding as part of a condition message.
func (f *Finding) String() string {
	message := f.What
	if f.Reason == SchemaIncompatible {
		subject := f.CRD
		if f.Version != "" {
			subject += " " + f.Version
		}
		message = subject + ": " + message
	}
	message = text.Clip(text.OneLine(message), textLimit)
	if f.Objects.Count > 0 {
		message += " (" + text.Count(f.Objects.Count, "object") + ": " +
			text.Some(f.Objects.Names, f.Objects.Count-len(f.Objects.Names)) + ")"
	}
	return message
}

// A Report is the result of all checks.
type Report struct {
	Findings []Finding
}

// Errors returns the findings that are no warnings: conflicts first, then hard ones, then by CRD.
func (r Report) Errors() []Finding {
	errors := slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return f.Warning })
	slices.SortStableFunc(errors, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(a.CRD, b.CRD))
	})
	return errors
}

func rank(f *Finding) int {
	switch {
	case f.Reason == CRDConflict:
		return 0
	case f.Hard:
		return 1
	default:
		return 2
	}
}

// Warnings returns the findings that are no errors, by CRD.
func (r Report) Warnings() []Finding {
	warnings := slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return !f.Warning })
	slices.SortStableFunc(warnings, func(a, b Finding) int { return cmp.Compare(a.CRD, b.CRD) })
	return warnings
}

// Reason returns the reason of the first error, or "".
func (r Report) Reason() Reason {
	if errors := r.Errors(); len(errors) > 0 {
		return errors[0].Reason
	}
	return ""
}

// Message returns all findings of one kind in one line. It names at most ten.
func Message(findings []Finding) string {
	var messages []string
	for i := range findings {
		messages = append(messages, findings[i].String())
	}
	return text.Join(messages, "; ", findingLimit)
}
