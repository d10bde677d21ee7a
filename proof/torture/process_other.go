//go:build unix && !linux

package torture

import "syscall"

// memberAttributes put a member into a process group of its own: Ctrl-C is for the run alone, and when the run
// dies the system sends SIGHUP and SIGCONT to a group that is orphaned while it is stopped.
func memberAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
