// Package combine makes tables of what clusters report of an object, as StatusCollectors ask.
//
// Compile understands a StatusCollector, once. A Table holds what its expressions yielded for each cluster, so that one further
// report costs the evaluation of its own rows only; what it returns is a function of the question alone, whatever was asked
// before. The package is pure.
//
// Expressions are those of Kubernetes (its CEL environment, all libraries), and of plain CEL where that allows more: lists and maps of
// mixed types. What an evaluation may cost is bounded as in Kubernetes; what all evaluations of one StatusCollector for one object may
// cost, likewise.
package combine
