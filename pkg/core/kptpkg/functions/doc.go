// Package functions has the functions that packages are rendered with: objects in, objects and results out. They are known by the
// names under which kpt's users have them as images, and do what their documentation says, in Go. It is pure: no files, no network,
// no clock.
//
// A Starlark program can run away with memory, so callers run functions in a process that they can kill.
package functions
