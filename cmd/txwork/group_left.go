//go:build unix && !linux

package main

import (
	"os"
	"syscall"
)

// groupLeft reports whether processes of the group are left.
func groupLeft(leader *os.Process) bool { return syscall.Kill(-leader.Pid, 0) == nil }
