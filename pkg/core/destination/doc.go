// Package destination decides what a change of CustomResourceDefinitions in a workload definition
// space does to the clusters that they are bound to. It is pure.
//
// A package brings CRDs into the space, which are workload objects there: policies carry them to
// clusters. Evaluate computes which Bindings change and where, and checks each destination:
//
//   - MissingDependency: a CRD would leave a cluster that custom resources of it are bound to.
//   - VersionConflict: a package does not suit the Kubernetes version of a cluster, or a package
//     that another space has there.
//   - CRDConflict: another space delivers a CRD of the same name with different content.
//   - SchemaIncompatible: custom resources that are bound to a cluster violate the new schema, or
//     the cluster stores them in a version that is removed.
//
// What is not known of a cluster is a warning, never an error.
//
// A thousand clusters fall into few situations: two clusters with equal situations have the same
// verdict, whatever their names. Each situation is validated once.
package destination
