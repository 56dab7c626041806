// Package render runs the pipelines of a package and its subpackages: subpackages depth first, mutators and then validators, each on
// the objects that its selectors select. It is given something that evaluates functions, and is pure otherwise.
//
// Nothing is written when a function fails. What no function changes stays byte for byte, down to the document in a file.
package render
