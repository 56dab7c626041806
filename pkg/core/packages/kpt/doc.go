// Package kpt reads, checks and edits the files of one package: KRM files in YAML and JSON, and the
// Kptfile. It is pure.
package kpt
