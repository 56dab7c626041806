// Package render computes what clusters get of an object of a workload definition space (WDS) or of
// a package: its content, and how a cluster applies it. It is pure, and the only place that does
// so: the transport delivers by it, and what commands and Transactions say of clusters comes from
// it.
//
// The steps, in order:
//
//   - Render: what CustomTransforms and the rules of kinds leave of the object, the options that
//     its annotations request, and its templates. They are the same for all clusters.
//   - Scope.Carry: the options with which a Binding carries the object, beside the other objects
//     that it lists. Several Bindings are united by options.Merge.
//   - Manifest.At: the content for one cluster, with its properties.
//   - ChangeOf: what changes in a cluster that has the object already.
package render
