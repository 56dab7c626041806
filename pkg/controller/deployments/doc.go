// Package deployments turns packages into Bindings: the latest published revision of each package in the Repository of a cluster has one,
// with that cluster as its destination. A new revision changes it in place; a package that is really deleted takes it away.
//
// It owns the Bindings that have its labels and the name that follows from their package. The transport-controller carries them out.
package deployments
