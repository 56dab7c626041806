// Package variant decides about variants of packages: what is wrong with a PackageVariant or a PackageVariantSet, which PackageVariants a
// set keeps, and what is to be done next for a PackageVariant.
//
// It is pure, and level-triggered: a plan follows from what is there, whatever was planned before. Whoever carries it out does so in the
// order given, stops at the first error, and plans again.
package variant
