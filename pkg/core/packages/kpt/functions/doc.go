// Package functions implements the functions with which packages are rendered: objects in, objects
// and results out. They have the names of the images of kpt's functions and do what the
// documentation of those says. It is pure: no files, no network, no clock.
//
// A Starlark program can use unlimited memory. Therefore callers run functions in a process that
// they can kill.
package functions
