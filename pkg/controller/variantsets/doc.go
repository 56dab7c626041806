// Package variantsets keeps PackageVariantSets: one PackageVariant for each of their targets, and a status that says how far these are.
//
// What is to be done is decided by pkg/core/variant; here it is gathered from caches, and carried out. An event asks for a set to be planned
// only if the set can depend on what changed, and a set that is asked for often is planned less often: planning costs a fraction of one
// processor at most, however many targets there are and however much happens to them.
package variantsets
