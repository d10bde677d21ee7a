package demo

import "syscall"

// workerAttributes put a worker into a process group of its own, so that Ctrl-C is for the parent alone,
// and have the kernel kill it with its parent: a frozen worker does not notice the end of a pipe.
func workerAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
