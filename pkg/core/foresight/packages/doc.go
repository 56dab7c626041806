// Package packages computes what a change does to PackageVariantSets, to PackageVariants, and to
// the packages that they create, before it is made. It is pure.
//
// Two States of a namespace, before and after the change, go through the functions by which the
// controllers plan sets and variants. The difference is what the change does.
package packages
