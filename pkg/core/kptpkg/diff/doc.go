// Package diff says how two versions of a package differ: object by object, and file by file where a file holds no objects. It is
// pure.
//
// What is in the data of a Secret never comes out, nor do the comments of a Secret; whether two values are equal does.
package diff
