// Package version tells which Starling this is.
package version

// version is set by the linker.
var version = "v0.0.0-dev"

// Get returns the version of this program, such as "v0.1.0".
func Get() string { return version }
