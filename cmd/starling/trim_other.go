//go:build !linux

package main

// trimSoon does nothing here; see the one for Linux.
func trimSoon() {}
