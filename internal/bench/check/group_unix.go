//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the command the leader of a process group.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
