// Package apiserver serves porch.kpt.dev/v1alpha1 as an aggregated API server. pkg/packages/store
// stores the objects.
//
// It keeps no state. Paging, resumable watches, selectors, optimistic concurrency, dry runs and
// preconditions are those of the stored objects: a list or a watch of PackageRevisions is one of
// the stored objects, translated object by object.
package apiserver
