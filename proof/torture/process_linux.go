package torture

import "syscall"

// memberAttributes put a member into a process group of its own, so that Ctrl-C is for the run alone, and have the
// kernel kill it with the run: a stopped one does not notice the end of a pipe.
func memberAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
