//go:build !unix

package main

import "os/exec"

// ownGroup does nothing: there are no process groups here. The command is killed when its context ends.
func ownGroup(*exec.Cmd) {}
