package crdcheck

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// eachElement is the path element of the items of a list and of the values of a map.
const eachElement = "[*]"

// A path is a place in a schema. It is a linked list and never changes: paths of siblings share
// their parent, and no memory that one of them could overwrite. A nil path is the root.
type path struct {
	parent  *path
	element string
}

// field returns the path of a property.
func (p *path) field(name string) *path {
	return &path{parent: p, element: fieldElement(name)}
}

// each returns the path of the items of a list, or of the values of a map.
func (p *path) each() *path {
	return &path{parent: p, element: eachElement}
}

// String returns "spec.items[*].size"; "" is the root.
func (p *path) String() string {
	var elements []string
	for ; p != nil; p = p.parent {
		elements = append(elements, p.element)
	}
	slices.Reverse(elements)
	return strings.TrimPrefix(strings.Join(elements, ""), ".")
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9_$-]+$`)

// fieldElement returns ".name", or ["name"] if the name has other characters.
func fieldElement(name string) string {
	if plainName.MatchString(name) {
		return "." + name
	}
	return "[" + strconv.Quote(name) + "]"
}
