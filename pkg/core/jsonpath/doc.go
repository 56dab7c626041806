// Package jsonpath removes parts of decoded JSON that paths select.
//
// It reads the part of JSONPath (RFC 9535) that says what to take out of an API object and no more: names, wildcards, indices,
// and filters that are conjunctions, as in
//
//	$.spec.template.spec.containers[*].env[?@.name == "TOKEN"]
//
// There are no descendants (..), slices, functions, alternatives or negations. What is read means what the RFC says, with one
// addition: strings may have every escape that a string literal of JavaScript may have, as users of KubeStellar know it.
//
// Parsing and removing take time linear in the text, and in text times object. Nesting is bounded.
package jsonpath
