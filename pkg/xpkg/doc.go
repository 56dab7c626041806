// Package xpkg fetches packages of Crossplane's format from OCI registries and from a local
// directory, and caches them.
//
// An image has the package in the file package.yaml, in the layer that has the annotation
// io.crossplane.xpkg: base, or else in any layer. What is read is always verified: the content of a
// digest is the same everywhere, so it is cached by digest and never expires.
//
// Errors of a registry or of the directory have a kind: see remote.KindOf in package
// pkg/packages/remote. NotFound means that the registry does not have the repository, tag or
// digest; Unreachable, that it does not answer. Errors in the content of a package are
// InvalidPackageErrors of pkg/core/xpkg.
package xpkg
