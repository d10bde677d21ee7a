//go:build !unix

package demo

import (
	"errors"
	"os"
	"syscall"
)

var errNoSignals = errors.New("the demo freezes processes with SIGSTOP, which this system does not have: run it on " +
	"Linux, macOS or a BSD")

func workerAttributes() *syscall.SysProcAttr { return nil }

func freeze(*os.Process) error { return errNoSignals }

func thaw(*os.Process) error { return errNoSignals }
