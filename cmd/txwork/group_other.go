//go:build !unix

package main

import (
	"os"
	"os/exec"
)

// There are no process groups here: only the shell itself can be ended.

func ownGroup(*exec.Cmd) {}

func terminateGroup(leader *os.Process) error { return leader.Kill() }

func killGroup(leader *os.Process) { leader.Kill() }
