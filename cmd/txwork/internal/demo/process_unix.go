//go:build unix && !linux

package demo

import "syscall"

// workerAttributes put a worker into its own process group, so that Ctrl-C reaches only the parent. When the parent
// dies, the system sends SIGHUP and SIGCONT to an orphaned group with a frozen process.
func workerAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
