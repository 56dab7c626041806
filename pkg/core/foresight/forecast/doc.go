// Package forecast computes what a change of a workload definition space (WDS) or of its clusters
// does to each cluster, before it is made. It is pure.
//
// Two Worlds, before and after the change, go through the same functions: those by which
// binding-controller computes Bindings and by which the transport computes what is delivered. The
// difference is the Forecast. It says what will be when all controllers are done, not in which
// order they get there.
//
// A World has the metadata of all objects. Content is needed only of the objects that Needs
// returns: those that change in some cluster. Clusters in which everything changes alike are one
// Group.
package forecast
