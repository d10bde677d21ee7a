//go:build !unix

package main

import (
	"os"
	"os/exec"
	"syscall"
)

// Process groups do not exist on this platform, so only the shell itself can be ended.

func ownGroup(*exec.Cmd) {}

func terminateGroup(leader *os.Process) error { return leader.Kill() }

func killGroup(leader *os.Process) { leader.Kill() }

func groupLeft(*os.Process) bool { return false }

func dieOf(syscall.Signal) { os.Exit(exitFailure) }
