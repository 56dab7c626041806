// Package workload returns the objects of a package that are delivered to a cluster: the objects in
// its files, except the Kptfile, the package context, and objects that are marked as local
// configuration.
//
// It reads files as kubectl does, because authors expect the result of kubectl apply.
package workload
