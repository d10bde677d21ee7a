package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
)

const (
	// maxSaid is how much of one run's standard error is passed on. A command that repeats itself would otherwise fill
	// the worker's log.
	maxSaid = 64 << 10

	// maxSaidLine is where a longer line is broken.
	maxSaidLine = 8 << 10

	// saidLine is what a line counts in addition to its bytes, about as much as an entry of the log has beside them.
	saidLine = 128
)

// A said is the standard error of one run of a command. It passes whole lines on, so that runs at the same time do not
// mix theirs, and keeps the end for the row.
type said struct {
	tail
	pass func(line string) // without its end
	line []byte            // that has not ended yet
	left int               // how much is passed on yet
	lost int               // how much was not
}

func newSaid(pass func(string)) *said {
	return &said{tail: tail{limit: stderrTail}, pass: pass, left: maxSaid}
}

func (s *said) Write(p []byte) (int, error) {
	s.tail.Write(p)
	for rest := p; len(rest) > 0; {
		n, ended := len(rest), false
		if i := bytes.IndexByte(rest, '\n'); i >= 0 {
			n, ended = i, true
		}
		n = min(n, s.left, maxSaidLine-len(s.line))
		s.line = append(s.line, rest[:n]...)
		s.left -= n
		rest = rest[n:]
		switch {
		case ended && len(rest) > 0 && rest[0] == '\n':
			s.end()
			rest = rest[1:]
		case s.left == 0:
			s.lost += len(rest)
			rest = nil
		case len(s.line) == maxSaidLine:
			s.end()
		}
	}
	return len(p), nil
}

func (s *said) end() {
	s.pass(string(s.line))
	s.line = s.line[:0]
	s.left = max(s.left-saidLine, 0)
}

// close passes the last line on, and returns how much was left out.
func (s *said) close() (lost int) {
	if len(s.line) > 0 {
		s.end()
	}
	return s.lost
}

// A tail keeps the end of what is written to it.
type tail struct {
	limit int
	text  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if n := len(t.text) - t.limit; n > 0 {
		t.text = append(t.text[:0], t.text[n:]...)
	}
	return len(p), nil
}

// String returns the text after a colon, or an empty string if there is none.
func (t *tail) String() string {
	text := strings.TrimSpace(string(t.text))
	if text == "" {
		return ""
	}
	return ": " + text
}

// passLines writes lines as they are.
func passLines(w io.Writer) func(task, string) {
	return func(_ task, line string) { io.WriteString(w, line+"\n") }
}

// logLines makes lines entries of the log, for a log of which every line is JSON.
func logLines(logger *slog.Logger) func(task, string) {
	return func(t task, line string) {
		logger.Info("command wrote to standard error", "topic", t.topic, "id", t.id, "attempt", t.attempt, "text", line)
	}
}

// shared makes a writer safe for commands that run at the same time. A file is safe already, and the commands write to
// it directly.
func shared(w io.Writer) io.Writer {
	if p, ok := w.(*pipe); ok {
		w = p.Writer
	}
	if f, ok := w.(*os.File); ok {
		return f
	}
	return &lockedWriter{w: w}
}

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
