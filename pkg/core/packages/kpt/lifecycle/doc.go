// Package lifecycle validates revisions of packages: their names, their tasks, and the transitions
// of their lifecycle, with readiness gates. It is pure.
package lifecycle
