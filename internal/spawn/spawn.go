// Package spawn starts processes that end with this one.
package spawn

import (
	"os/exec"
	"runtime"
)

// A Spawner starts all processes from one thread and keeps that thread alive. Linux treats the end of the thread that
// started a process as the death of its parent, and the Go runtime ends idle threads at any time.
type Spawner struct{ requests chan func() }

// New makes a Spawner. The caller must Close it.
func New() *Spawner {
	s := &Spawner{requests: make(chan func())}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for request := range s.requests {
			request()
		}
	}()
	return s
}

// Start starts a process. It is safe for concurrent use.
func (s *Spawner) Start(cmd *exec.Cmd) error {
	started := make(chan error)
	s.requests <- func() { started <- cmd.Start() }
	return <-started
}

// Close releases the thread. The processes must have ended.
func (s *Spawner) Close() { close(s.requests) }
