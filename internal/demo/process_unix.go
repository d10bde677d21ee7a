//go:build unix && !linux

package demo

import "syscall"

// workerAttributes put a worker into a process group of its own: Ctrl-C is for the parent alone, and when
// the parent dies, the system sends SIGHUP and SIGCONT to a group that is orphaned while it is frozen.
func workerAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
