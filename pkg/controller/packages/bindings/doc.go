// Package bindings creates the Bindings of packages: the latest published revision of each package
// in the Repository of a cluster has one, with that cluster as its destination. A new revision
// changes the Binding in place. When the package is deleted, the Binding is deleted.
//
// It owns the Bindings that have its labels and the name that follows from their package. The
// transport-controller delivers them.
package bindings
