// Package deploy decides which packages go to which clusters: which Repository a cluster has, which Binding a package has, and what is
// said of a package that is carried. It is pure.
//
// A cluster and its Repository bear the same name. The latest published revision of each package in it is what the cluster gets.
package deploy
