// Package variant validates PackageVariants and PackageVariantSets, computes the PackageVariants
// that a set wants, and plans the next steps of a PackageVariant.
//
// It is pure and level-triggered: a plan depends on the current state only, not on earlier plans.
// The caller carries a plan out in the given order, stops at the first error, and plans again.
package variant
