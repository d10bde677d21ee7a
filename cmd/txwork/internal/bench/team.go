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

// An assignment tells a worker process what to do. It is the first JSON value on its standard input.
type assignment struct {
	URL     string
	Schema  string
	Session string
	Drain   Drain
}

// A report is a line of JSON on a worker process's standard output. The first one says that the process is ready, the
// last one that everything it has done is settled.
type report struct {
	Done     int64 // so far
	Attempts int64 // so far
	Settled  bool

	CPU    time.Duration // with Settled: since the start of the work
	Memory uint64        // with Settled: the peak since the start of the work
}

// A team is a group of worker processes.
type team []*member

// form starts the processes, and returns when all are ready. They report what they do to the tally.
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

// dismiss kills all processes and waits for them.
func (t team) dismiss() {
	for _, m := range t {
		m.kill()
		_ = m.wait()
	}
}

// spent adds up attempts, CPU time and memory of all members.
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
	wait    func() error // waits for its end; may be called repeatedly
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

// Run lets the process work until ctx ends, and then settle.
func (m *member) Run(ctx context.Context) error {
	if err := m.tell("begin"); err != nil {
		return m.fate(err)
	}
	defer context.AfterFunc(ctx, func() {
		_ = m.stdin.Close()
		time.AfterFunc(cleanupLimit, m.kill) // does nothing if the process has ended
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

// fate says why a process no longer answers.
func (m *member) fate(err error) error {
	m.kill()
	if ended := m.wait(); ended != nil {
		err = ended
	}
	return fmt.Errorf("a worker process has ended: %w: %s", err, bytes.TrimSpace(m.stderr))
}

// lastWords keeps the end of what is written to it.
type lastWords []byte

const lastWordsSize = 1 << 10

func (w *lastWords) Write(text []byte) (int, error) {
	*w = append(*w, text...)
	*w = (*w)[max(0, len(*w)-lastWordsSize):]
	return len(text), nil
}
