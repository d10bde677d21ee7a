//go:build unix && !linux

package torture

import "syscall"

// memberAttributes put a member into its own process group, so that Ctrl-C reaches only the run. When the run dies, the
// system sends SIGHUP and SIGCONT to an orphaned group with a stopped process.
func memberAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
