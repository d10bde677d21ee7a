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

// A member of the crew is a worker process seen from the outside.
type member struct {
	name      string
	cmd       *exec.Cmd
	stdin     io.WriteCloser
	live      bool        // takes part: neither frozen nor killed
	dismissed atomic.Bool // its end is no surprise
	ended     chan struct{}
	err       error // how it ended; set before ended is closed
}

// A notice is a member's event.
type notice struct {
	from *member
	event
}

// start runs the process and reads what it says until it ends.
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
		reading.Wait() // Wait closes the pipes
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
			_, _ = io.Copy(io.Discard, r) // so that the writer never blocks
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

// tell sends a line. A member that is gone is noticed by its end, not here.
func (m *member) tell(line any) {
	encoded, err := json.Marshal(line)
	if err == nil {
		_, _ = m.stdin.Write(append(encoded, '\n'))
	}
}

// kill ends the process at once, also a frozen one.
func (m *member) kill() {
	m.dismissed.Store(true)
	_ = m.cmd.Process.Kill() // fails only if it has ended
	<-m.ended
}
