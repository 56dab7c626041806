// Package clusterrepositories maintains a deployment Repository for each cluster, with the name and
// the labels of the cluster. What is published in it is delivered to the cluster (package
// bindings).
//
// It owns the Repositories that have its annotation, and the condition Detached of all. A
// Repository with the name of a cluster that a user created is used as it is. When a cluster
// leaves, its Repository stays, with the condition Detached; it is deleted when it is empty.
package clusterrepositories
