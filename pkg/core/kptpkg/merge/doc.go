// Package merge brings a new version of an upstream package into a package that was made from an older version of it: three-way merges
// of files, with kpt's strategies. It is pure, and its results depend on nothing but its inputs.
//
// What a merge does not have to touch comes out byte for byte: files, and in a file that is touched the documents that are not. A
// document that is merged is written anew, with its comments, the order of its fields and its style of lists; aliases in it are
// expanded, and blank lines may go.
package merge
