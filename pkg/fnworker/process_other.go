//go:build !linux

package fnworker

import "syscall"

// attributes have nothing to say where nothing ends a process with its parent; a worker ends when its input does.
func attributes() *syscall.SysProcAttr { return nil }

// resident cannot be told here: the deadline and the runtime's own limit remain.
func resident(int) int64 { return 0 }

// ended cannot be told here.
func ended(int) bool { return false }

// limitMemory does nothing here.
func limitMemory(int64) error { return nil }
