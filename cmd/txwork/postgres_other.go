//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package main

import "os"

func fromTerminal() bool { return true }

func shellCode(p *os.ProcessState) int { return p.ExitCode() }
