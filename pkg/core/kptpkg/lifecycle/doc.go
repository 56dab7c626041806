// Package lifecycle decides what may become of a revision of a package: its name, its way from draft to deletion, and the gates on
// that way. It is pure.
package lifecycle
