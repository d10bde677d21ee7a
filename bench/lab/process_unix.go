//go:build unix

package lab

import (
	"os"
	"os/exec"
	"syscall"
)

// apart gives a peer a process group, so that an interrupt of the terminal reaches only the runner, which stops it.
func apart(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func terminate(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGTERM) }
