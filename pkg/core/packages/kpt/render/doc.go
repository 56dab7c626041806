// Package render runs the pipelines of a package and its subpackages: subpackages depth first,
// mutators before validators, each on the objects that its selectors select. The caller provides
// the evaluation of functions; otherwise it is pure.
//
// If a function fails, nothing changes. Every document that no function changes stays equal byte
// for byte.
package render
