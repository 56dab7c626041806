// Package version has the version of Starling.
package version

// version is set at link time; see LDFLAGS in the Makefile.
var version = "v0.0.0-dev"

// Get returns the version of this program, such as "v0.1.0".
func Get() string { return version }
