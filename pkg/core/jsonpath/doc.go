// Package jsonpath removes parts of decoded JSON that paths select.
//
// It supports the part of JSONPath (RFC 9535) that is needed to remove fields from an API object:
// names, wildcards, indices, and filters that are conjunctions, as in
//
//	$.spec.template.spec.containers[*].env[?@.name == "TOKEN"]
//
// Descendants (..), slices, functions, alternatives and negations are not supported. The semantics
// are those of the RFC, with one addition: strings may have every escape of a string literal in
// JavaScript, as in KubeStellar.
//
// The time to parse is linear in the length of the path. The time to remove is linear in the length
// of the path times the size of the object. Nesting is bounded.
package jsonpath
