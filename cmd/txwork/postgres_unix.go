//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// fromTerminal reports whether a signal such as that of Ctrl-C probably came from the terminal, which sends it to every
// process of the foreground group, so also to the command that this one runs.
func fromTerminal() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	foreground, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && foreground == unix.Getpgrp()
}

// shellCode is the exit code of a process as shells report it: 128 and the number of the signal that ended it.
func shellCode(p *os.ProcessState) int {
	if status, is := p.Sys().(syscall.WaitStatus); is && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return p.ExitCode()
}
