package demo

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"sync/atomic"

	"github.com/txwork/txwork/internal/spawn"
)

// A member is a worker process of the crew, as the parent sees it.
type member struct {
	name      string
	cmd       *exec.Cmd
	stdin     io.WriteCloser
	live      bool        // still takes part: neither frozen nor killed
	dismissed atomic.Bool // its end is expected
	ended     chan struct{}
	err       error // the process's result; set before ended is closed
}

// A notice is a member's event.
type notice struct {
	from *member
	event
}

// start starts the process and reads its output until it ends.
func (m *member) start(s *spawn.Spawner, events func(event), messages func(string)) error {
	m.cmd.SysProcAttr = workerAttributes()
	stdin, err := m.cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := m.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	stderr, err := m.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := s.Start(m.cmd); err != nil {
		return fmt.Errorf("starting %s: %w", m.name, err)
	}
	m.stdin = stdin
	var reading sync.WaitGroup
	reading.Go(func() { readEvents(stdout, events) })
	reading.Go(func() { readLines(stderr, messages) })
	go func() {
		reading.Wait() // cmd.Wait closes the pipes, so they must be read first
		m.err = m.cmd.Wait()
		close(m.ended)
	}()
	return nil
}

func readEvents(r io.Reader, each func(event)) {
	decoder := json.NewDecoder(r)
	for {
		var e event
		if decoder.Decode(&e) != nil {
			_, _ = io.Copy(io.Discard, r) // keeps the writer from blocking
			return
		}
		each(e)
	}
}

func readLines(r io.Reader, each func(string)) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			each(line)
		}
		if err != nil {
			return
		}
	}
}

// tell sends a line. An error is ignored here: a member that is gone is noticed by its end.
func (m *member) tell(line any) {
	encoded, err := json.Marshal(line)
	if err == nil {
		_, _ = m.stdin.Write(append(encoded, '\n'))
	}
}

// kill kills the process at once, even if it is frozen.
func (m *member) kill() {
	m.dismissed.Store(true)
	_ = m.cmd.Process.Kill() // fails only if it has ended
	<-m.ended
}
