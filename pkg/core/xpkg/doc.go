// Package xpkg knows the format of Crossplane's packages: the names of their images, the stream of
// objects in package.yaml, the names that follow from them, and the ImageConfigs that say how an
// image is fetched. Package pkg/xpkg fetches them.
//
// Packages have unknown authors. Everything is therefore bounded, and what is not understood is an
// error.
package xpkg
