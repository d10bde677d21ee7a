package torture

import "syscall"

// memberAttributes put a member into its own process group, so that Ctrl-C reaches only the run. They also let the
// kernel kill the member when the run dies, because a stopped one does not notice the end of a pipe.
func memberAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
