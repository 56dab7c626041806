// Package mutation does what a PackageVariant asks for to the files of its package: package context, functions, and configuration that is
// injected. It is pure. What is not changed stays byte for byte, and what is keeps comments and order.
package mutation
