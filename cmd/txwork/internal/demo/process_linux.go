package demo

import "syscall"

// workerAttributes put a worker into its own process group, so that Ctrl-C reaches only the parent. They also let the
// kernel kill the worker when its parent dies, because a frozen worker does not notice the end of a pipe.
func workerAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
