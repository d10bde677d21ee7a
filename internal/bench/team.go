package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"
)

// An assignment is what a worker process is told, as the first value of JSON on its standard input.
type assignment struct {
	URL     string
	Schema  string
	Session string
	Drain   Drain
}

// A report is a line of JSON on a worker process's standard output. The first one says that it is ready; the last
// one, that all it has done is settled.
type report struct {
	Done     int64 // so far
	Attempts int64 // so far
	Settled  bool

	CPU    time.Duration // with Settled: since it was told to begin
	Memory uint64        // with Settled: the most that it held since then
}

// A team is worker processes.
type team []*member

// form starts the processes and returns when all are ready. The tally counts what they do.
func (l *lab) form(ctx context.Context, d Drain, t *tally) (_ team, err error) {
	var all team
	defer func() {
		if err != nil {
			all.dismiss()
		}
	}()
	for range d.Processes {
		m, err := l.enlist(ctx, t)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
		if err := m.tell(assignment{l.url, l.schema, l.session, d}); err != nil {
			return nil, m.fate(err)
		}
	}
	for _, m := range all {
		if err := m.said.Decode(&m.last); err != nil {
			return nil, m.fate(err)
		}
	}
	return all, nil
}

// dismiss leaves no process behind, whatever they do.
func (t team) dismiss() {
	for _, m := range t {
		m.kill()
		_ = m.wait()
	}
}

// attempts, cpu and memory are those of all.
func (t team) spent() (attempts int64, cpu time.Duration, memory uint64) {
	for _, m := range t {
		attempts += m.last.Attempts
		cpu += m.last.CPU
		memory += m.last.Memory
	}
	return attempts, cpu, memory
}

// A member is a worker process. It implements [runner].
type member struct {
	command *exec.Cmd
	stdin   io.WriteCloser
	said    *json.Decoder
	stderr  lastWords
	tally   *tally
	last    report
	wait    func() error // for its end; it may be called again
}

func (l *lab) enlist(ctx context.Context, t *tally) (_ *member, err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	m := &member{tally: t}
	if m.command, err = l.Process(); err != nil {
		return nil, err
	}
	if m.stdin, err = m.command.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := m.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	m.said, m.command.Stderr = json.NewDecoder(stdout), &m.stderr
	m.wait = sync.OnceValue(m.command.Wait)
	return m, m.command.Start()
}

func (m *member) kill() { _ = m.command.Process.Kill() }

func (m *member) tell(v any) error { return json.NewEncoder(m.stdin).Encode(v) }

// Run has it work until ctx ends, and then settle.
func (m *member) Run(ctx context.Context) error {
	if err := m.tell("begin"); err != nil {
		return m.fate(err)
	}
	defer context.AfterFunc(ctx, func() {
		_ = m.stdin.Close()
		time.AfterFunc(cleanupLimit, m.kill) // which a process that has ended does not feel
	})()
	for !m.last.Settled {
		before := m.last.Done
		if err := m.said.Decode(&m.last); err != nil {
			return m.fate(err)
		}
		m.tally.addMany(m.last.Done - before)
	}
	return m.wait()
}

// fate tells why a process no longer talks.
func (m *member) fate(err error) error {
	m.kill()
	if ended := m.wait(); ended != nil {
		err = ended
	}
	return fmt.Errorf("a worker process has ended: %w: %s", err, bytes.TrimSpace(m.stderr))
}

// lastWords keep the end of what is written.
type lastWords []byte

const lastWordsSize = 1 << 10

func (w *lastWords) Write(text []byte) (int, error) {
	*w = append(*w, text...)
	*w = (*w)[max(0, len(*w)-lastWordsSize):]
	return len(text), nil
}
