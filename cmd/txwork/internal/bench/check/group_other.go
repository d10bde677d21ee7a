//go:build !unix

package main

import "os/exec"

// ownGroup does nothing, because this platform has no process groups. The command is killed when its context ends.
func ownGroup(*exec.Cmd) {}
