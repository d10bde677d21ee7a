//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the command the leader of a process group, which is interrupted as a whole when its context ends. An
// interrupt from the terminal then reaches the group only once, through this program.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
}
