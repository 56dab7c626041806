// Package binding decides which packages are delivered to which clusters: it computes the
// Repository of a cluster, the Binding of a package, and the conditions of a package that is
// delivered. It is pure.
//
// A cluster and its Repository have the same name. The latest published revision of each package in
// the Repository is delivered to the cluster.
package binding
