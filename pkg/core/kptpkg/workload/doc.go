// Package workload finds out what of a package goes to a cluster: the objects in its files, but for the Kptfile, the package context
// and what is marked as local configuration.
//
// A file is read as kubectl reads it, since that is what its author expects of a cluster.
package workload
