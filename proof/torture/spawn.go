//go:build unix

package torture

import (
	"os/exec"
	"runtime"
)

// A spawner starts processes from one thread and keeps that thread. Linux counts the end of the thread that started
// a process as the death of its parent, and the Go runtime ends idle threads as it likes.
type spawner struct{ requests chan func() }

func newSpawner() *spawner {
	s := &spawner{requests: make(chan func())}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for request := range s.requests {
			request()
		}
	}()
	return s
}

func (s *spawner) start(cmd *exec.Cmd) error {
	started := make(chan error)
	s.requests <- func() { started <- cmd.Start() }
	return <-started
}

// close lets go of the thread. The processes must have ended.
func (s *spawner) close() { close(s.requests) }
