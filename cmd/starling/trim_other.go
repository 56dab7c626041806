//go:build !linux

package main

// scheduleTrim does nothing; see the one for Linux.
func scheduleTrim() {}
