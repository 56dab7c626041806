//go:build !linux

package functionrunner

import "syscall"

// processAttributes has no effect here: no option ends a process with its parent. A worker ends
// when its input ends.
func processAttributes() *syscall.SysProcAttr { return nil }

// residentMemory is unknown here. The deadline and the runtime's own limit remain.
func residentMemory(int) int64 { return 0 }

// hasExited is unknown here.
func hasExited(int) bool { return false }

// limitMemory has no effect here.
func limitMemory(int64) error { return nil }
