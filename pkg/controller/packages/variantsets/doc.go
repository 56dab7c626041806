// Package variantsets reconciles PackageVariantSets: one PackageVariant for each of their targets,
// and a status that reports their progress.
//
// pkg/core/packages/variant decides; this package gathers from caches and acts. An event requeues a
// set only if the set can depend on what changed, and a set that is requeued often is planned less
// often. So planning takes a bounded share of one processor, however many targets change.
package variantsets
