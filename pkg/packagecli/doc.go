// Package packagecli is `kubectl starling package`: what authors and reviewers of packages do from a shell. It talks to nothing but the
// served API porch.kpt.dev, and decides what can be decided without it in pkg/core/kptpkg.
//
// A command is its flags (in its New…Command) and a run function over a Client. Nothing here ends the process: an error goes to main,
// which asks Report what to say and with which code to exit.
package packagecli
