// Package clusterrepositories keeps a deployment Repository for each cluster: of the same name, with the same labels. What is published in
// it goes to the cluster (package deployments).
//
// It owns the Repositories that have its annotation, and the condition Detached of all. A Repository of a cluster's name that somebody
// else made is used as it is. When a cluster leaves, its Repository stays, and says so; it goes when nothing is in it.
package clusterrepositories
