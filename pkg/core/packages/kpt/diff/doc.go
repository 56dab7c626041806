// Package diff compares two versions of a package: object by object, and files without objects as
// text. It is pure.
//
// The result never contains the data or the comments of a Secret. It only shows whether two values
// are equal.
package diff
