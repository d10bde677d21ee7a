//go:build unix

package torture

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A commit is what the server says. Anything else is a maybe.
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
		t.Error("a line in the middle that cannot be read is no error")
	}
	if err := j.close(); err != nil {
		t.Error(err)
	}
}

// What a machine lacks is a reason to skip, and said aloud.
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
	if len(c.skips) != 1 || c.skips[0].Fault != "postgres-crash" || !strings.Contains(said.String(), "SKIPPED postgres-crash: ") {
		t.Errorf("skipped %v, said %q", c.skips, said.String())
	}
}

// A server whose clock was set forward twice: each of its times belongs to one of ours.
func TestTimesOfASetClock(t *testing.T) {
	t.Parallel()
	l := &lab{clocks: []clockStep{{dawn, -time.Hour}, {dawn.Add(time.Minute), -30 * time.Minute}}}
	for _, at := range []time.Duration{time.Second, 61 * time.Second} {
		offset := -time.Hour
		if at > time.Minute {
			offset = -30 * time.Minute
		}
		if got := l.ours(dawn.Add(at + offset)); !got.Equal(dawn.Add(at)) {
			t.Errorf("%v is told as %v", at, got.Sub(dawn))
		}
	}
	// A session may have the old time for a second after the jump.
	if got := l.ours(dawn.Add(61*time.Second - time.Hour)); !got.Equal(dawn.Add(61 * time.Second)) {
		t.Errorf("a session with the old time is told as %v", got.Sub(dawn))
	}
}
