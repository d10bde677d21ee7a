//go:build unix

package torture

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Only the server's reply makes a commit certain. Anything else is a maybe.
func TestOutcomeOfCommit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want Outcome
	}{
		{nil, Committed},
		{pgx.ErrTxCommitRollback, RolledBack},
		{&pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "40001"}, RolledBack},
		{&pgconn.PgError{SeverityUnlocalized: "FATAL", Code: "57P01"}, Maybe},
		{io.ErrUnexpectedEOF, Maybe},
	} {
		if got := outcomeOfCommit(c.err); got != c.want {
			t.Errorf("%v is %v, want %v", c.err, got, c.want)
		}
	}
}

func TestWhatIsWrittenTwiceIsOneRow(t *testing.T) {
	t.Parallel()
	rows := newTally()
	rows.add([]announced{announce("timers", "a"), announce("inbox", "a")})
	rows.add([]announced{announce("timers", "a"), announce("timers", "b")})
	if got := rows.count(); got != 3 {
		t.Errorf("got %d rows, want 3", got)
	}
}

func TestJournalOfAProcessThatDied(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.journal")
	j, err := openJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	j.append(line{What: lineStart, Name: "first"})
	j.append(line{What: lineEnd, Name: "second"})
	if _, err := j.file.WriteString(`{"w":"st`); err != nil {
		t.Fatal(err)
	}
	var read []string
	each := func(l line) { read = append(read, l.Name) }
	if err := readJournals(filepath.Dir(path), each); err != nil || strings.Join(read, " ") != "first second" {
		t.Errorf("read %v, error %v", read, err)
	}
	if _, err := j.file.WriteString("\n{}\n"); err != nil {
		t.Fatal(err)
	}
	if err := readJournals(filepath.Dir(path), each); err == nil {
		t.Error("an unreadable line in the middle is not an error")
	}
	if err := j.close(); err != nil {
		t.Error(err)
	}
}

// A fault that the machine cannot provide is skipped, with a message.
func TestWhatIsMissingIsSkipped(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	l := &lab{options: Options{Progress: &said, DatabaseURL: "postgres://somewhere"}}
	_, err := l.need(t.Context(), "a-package", "/nowhere/*/program")
	var s skipped
	if !errors.As(err, &s) || !strings.Contains(s.reason, "a-package") {
		t.Errorf("the error is %v", err)
	}
	c := newConductor(l, []string{"worker-kill", "postgres-crash"}, 1)
	if err := c.configure(); err != nil {
		t.Fatal(err)
	}
	if len(c.skips) != 1 || c.skips[0].Fault != "postgres-crash" ||
		!strings.Contains(said.String(), "SKIPPED postgres-crash: ") {
		t.Errorf("skipped %v, said %q", c.skips, said.String())
	}
}

// If the server's clock was set forward and back, each of its times is converted to one of ours.
func TestTimesOfASetClock(t *testing.T) {
	t.Parallel()
	forward, back := dawn.Add(time.Minute), dawn.Add(2*time.Minute)
	l := &lab{clocks: []clockStep{
		{offset: -time.Hour},
		{offset: -30 * time.Minute, before: 100, after: 110, from: forward, until: forward.Add(3 * time.Second)},
		{offset: -30*time.Minute - 7*time.Second, before: 200, after: 210, from: back,
			until: back.Add(3 * time.Second)},
	}}
	for _, c := range []struct {
		name string
		at   time.Time
		seq  int64
		step int // step whose time the session sees
	}{
		{"at first", dawn.Add(time.Second), 1, 0},
		{"just before the step forward", forward.Add(-time.Millisecond), 101, 0},
		{"after it, with the old time", forward.Add(time.Second), 105, 0},
		{"after it, with the new time", forward.Add(time.Second), 105, 1},
		{"numbered in the step, told after it", forward.Add(3*time.Second + lag/2), 110, 1},
		{"later", forward.Add(20 * time.Second), 111, 1},
		{"just before the step back", back.Add(-time.Millisecond), 201, 1},
		{"after that, with the old time", back.Add(time.Second), 205, 1},
		{"after that, with the new time", back.Add(time.Second), 205, 2},
		{"numbered in that step, told after it", back.Add(3*time.Second + lag/2), 210, 2},
		{"in the time that comes again", back.Add(4 * time.Second), 211, 2},
	} {
		server := c.at.Add(l.clocks[c.step].offset)
		if got, step := l.ours(server, c.seq); !got.Equal(c.at) || step != c.step {
			t.Errorf("%s: converted with an error of %v, as step %d", c.name, got.Sub(c.at), step)
		}
		version, next := Change{XID: 1, At: c.at, step: c.step}, []Change{{XID: 2, At: c.at.Add(time.Millisecond)}}
		if got := l.ourCommit(server, version, next); !got.Equal(c.at) {
			t.Errorf("%s: the commit time is %v", c.name, got)
		}
	}
	// A transaction begins before a step and ends after it.
	for step := 1; step < len(l.clocks); step++ {
		begun := l.clocks[step].from.Add(-time.Second)
		committed := begun.Add(3 * time.Second)
		next := []Change{{XID: 1, At: begun}, {XID: 2, At: committed.Add(time.Millisecond)}}
		if got := l.ourCommit(committed.Add(l.clocks[step].offset), Change{XID: 1, At: begun, step: step - 1},
			next); !got.Equal(committed) {
			t.Errorf("a commit after step %d is converted with an error of %v", step, got.Sub(committed))
		}
	}
}

// If a commit may have had two times, it gets none, whether it was a quick one before a step back or a long one that
// ended after it.
func TestACommitThatCannotBeTold(t *testing.T) {
	t.Parallel()
	l := &lab{clocks: []clockStep{
		{offset: -time.Hour},
		{offset: -time.Hour - 6*time.Second, before: 100, after: 110, from: dawn, until: dawn.Add(3 * time.Second)},
	}}
	insert := Change{Seq: 50, Op: 'I', XID: 1, At: dawn.Add(-time.Second), Committed: dawn.Add(-time.Hour)}
	for _, c := range []struct {
		name  string
		later []Change
		want  time.Time
	}{
		{"nobody waited for it", nil, time.Time{}},
		{"only the end of the run is known", []Change{{Op: 'F', At: dawn}}, time.Time{}},
		{"somebody waited for it for long", []Change{{Op: 'U', XID: 2, At: dawn.Add(7 * time.Second)}}, time.Time{}},
		{"somebody saw it before the other time", []Change{{Op: 'U', XID: 2, At: dawn.Add(time.Second)}}, dawn},
	} {
		h := l.dated(&History{Changes: append([]Change{insert}, c.later...)})
		if got := h.Changes[0].Committed; !got.Equal(c.want) {
			t.Errorf("%s: told as %v, want %v", c.name, got, c.want)
		}
	}
}

// A deployment may stop a process whose handler ends it. That is not a failure.
func TestAProcessThatItsHandlerEndsIsNoFailure(t *testing.T) {
	t.Parallel()
	for script, failures := range map[string]int{
		fmt.Sprintf("exit %d", exitCode):                        0,
		fmt.Sprintf("echo 'panic: %s' >&2; exit 2", childPanic): 0,
		"echo 'panic: of ours' >&2; exit 2":                     1,
		"exit 0":                                                0,
	} {
		m := &member{cmd: exec.Command("sh", "-c", script), ended: make(chan struct{})}
		m.cmd.Stderr = &m.stderr
		m.err = m.cmd.Run()
		close(m.ended)
		l := &lab{}
		if inOrder := l.endedInOrder(m); inOrder != (script == "exit 0") || len(l.failures) != failures {
			t.Errorf("%q: in order %v, failures %q", script, inOrder, l.failures)
		}
	}
}
