// Package inventory knows the clusters of all ITSes: which there are, and which of several of one name is meant.
//
// It never takes ignorance for an answer: while an ITS in which a cluster could be was not read, nothing is said of the cluster.
package inventory
