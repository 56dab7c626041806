// Package cli implements `kubectl starling package`: the commands for authors and reviewers of
// packages. It only talks to the API porch.kpt.dev. Decisions that need no request are in
// pkg/core/packages/kpt.
//
// A command consists of its flags (in its new…Command) and a run function with a Client. No code
// here exits the process: main passes the error to Report, which prints it and returns the exit
// code.
package cli
