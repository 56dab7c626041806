// Package folder decides about the files of a package in a local folder: the metadata of the
// revision that was pulled, and the changes when it is pulled again. It is pure.
package folder
