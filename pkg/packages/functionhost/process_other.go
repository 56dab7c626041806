//go:build !linux

package functionhost

import "os/exec"

// ownGroup does nothing: containers run on Linux.
func ownGroup(*exec.Cmd) {}

func endGroup(int) {}

func endOthers() {}
