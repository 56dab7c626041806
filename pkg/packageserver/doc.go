// Package packageserver serves porch.kpt.dev/v1alpha1 as an aggregated API server: an API like any other, whose objects are kept by
// pkg/packages.
//
// It holds no state. What kubectl needs of an API (paging, watches that resume, selectors, optimistic concurrency, dry runs,
// preconditions) is that of the objects kept: a list or a watch of PackageRevisions is one of those, object by object.
package packageserver
