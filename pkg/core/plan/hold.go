package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/starlinghq/starling/pkg/core/objref"
)

// Hold is the set of objects that stay in all mailboxes exactly as they are: content, options, and
// what was changed by hand; also when they are no longer wanted there. What is not in a mailbox is
// not delivered. It is immutable; the zero Hold holds nothing.
type Hold struct {
	all  bool
	refs map[objref.Ref]struct{}
}

// HoldAll holds every object.
func HoldAll() Hold { return Hold{all: true} }

// Holds reports whether the object is held.
func (h Hold) Holds(ref objref.Ref) bool {
	_, listed := h.refs[ref]
	return h.all || listed
}

// Without returns the text of a Hold of all else, "" if there is nothing else or everything is
// held.
func (h Hold) Without(ref objref.Ref) string {
	if h.all {
		return ""
	}
	rest := Hold{refs: maps.Clone(h.refs)}
	delete(rest.refs, ref)
	return rest.String()
}

// Any reports whether anything may be held.
func (h Hold) Any() bool { return h.all || len(h.refs) > 0 }

// Equal reports whether both hold the same.
func (h Hold) Equal(other Hold) bool { return h.all == other.all && maps.Equal(h.refs, other.refs) }

// ParseHold parses the text of a Hold: "*" for every object, or a list of objects, separated by
// commas or white space, each as <resource>[.<group>]/<namespace>/<name>. The namespace of a
// cluster-scoped object is empty: "namespaces//web".
//
// A text that cannot be parsed holds everything: its author meant to hold something, and it is not
// known what. The error names each invalid entry.
func ParseHold(text string) (Hold, error) {
	h := Hold{refs: map[objref.Ref]struct{}{}}
	var errs []error
	for entry := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r' }) {
		if entry == "*" {
			h.all = true
			continue
		}
		ref, err := parseRef(entry)
		if err != nil {
			errs = append(errs, fmt.Errorf("%q: %w", entry, err))
			continue
		}
		h.refs[ref] = struct{}{}
	}
	if h.all || len(errs) > 0 {
		return HoldAll(), errors.Join(errs...)
	}
	return h, nil
}

func parseRef(text string) (objref.Ref, error) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return objref.Ref{}, errors.New("want <resource>.<group>/<namespace>/<name>, with nothing between the slashes for an object that has no namespace")
	}
	resource, group, grouped := strings.Cut(parts[0], ".")
	ref := objref.Ref{Group: group, Resource: resource, Namespace: parts[1], Name: parts[2]}
	if problems := validation.IsDNS1035Label(resource); len(problems) > 0 {
		return objref.Ref{}, fmt.Errorf("the resource %q must be a lowercase plural, like deployments", resource)
	}
	if problems := validation.IsDNS1123Subdomain(group); grouped && len(problems) > 0 {
		return objref.Ref{}, fmt.Errorf("%q is not an API group", group)
	}
	if problems := validation.IsDNS1123Label(ref.Namespace); ref.Namespace != "" && len(problems) > 0 {
		return objref.Ref{}, fmt.Errorf("%q is not a valid name of a namespace", ref.Namespace)
	}
	if problems := path.IsValidPathSegmentName(ref.Name); ref.Name == "" || len(problems) > 0 {
		return objref.Ref{}, fmt.Errorf("%q is not a valid name of an object", ref.Name)
	}
	return ref, nil
}

// String returns a text that ParseHold parses, sorted.
func (h Hold) String() string {
	if h.all {
		return "*"
	}
	entries := make([]string, 0, len(h.refs))
	for _, ref := range slices.SortedFunc(maps.Keys(h.refs), objref.Compare) {
		entries = append(entries, ref.GroupResource().String()+"/"+ref.Namespace+"/"+ref.Name)
	}
	return strings.Join(entries, ", ")
}
