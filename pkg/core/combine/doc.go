// Package combine makes tables of the statuses that clusters report for an object, as
// StatusCollectors define them.
//
// Compile compiles a StatusCollector once. A Table caches the results of its expressions for each
// cluster, so that a new report costs only the evaluation of its own rows. The tables depend only
// on the question, not on earlier questions. The package is pure.
//
// Expressions are evaluated in the CEL environment of Kubernetes, with all its libraries.
// Expressions that only plain CEL allows, such as lists and maps of mixed types, are evaluated in
// plain CEL. The cost of an evaluation is limited as in Kubernetes, and so is the cost of all
// evaluations of one StatusCollector for one object.
package combine
