//go:build unix

package evolve_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/internal/spawn"
	"github.com/txwork/txwork/workqueue"
)

// A schema goes forward by a column, an index, a changed function and a version of the core, and back, while programs
// of both releases write and deliver. Each can start at every version that serves it, each message is delivered once
// and without an error, and what a program logs says which side is behind.
func TestTwoReleasesOnOneSchema(t *testing.T) {
	t.Parallel()
	present, future := releases(t)
	s := newStage(t)
	s.exec("CREATE TABLE delivered (id uuid NOT NULL, name text NOT NULL)")
	s.must(present, "up", 0)
	s.own()

	older, newer := s.start(present, "older"), s.start(future, "newer")
	s.progress(older, newer)
	newer.says("a migration of the table is pending")
	newer.says("txwork migrate up")
	s.exec("INSERT INTO outbox (topic, payload, due_at) SELECT 'later', 'x', now() + interval '1 day' " +
		"FROM generate_series(1, 3000)")

	for _, version := range []int{column, index, function} {
		s.must(future, "up", version)
		s.progress(older, newer)
		older = s.restart(older) // as a deployment that is rolled back does
		s.progress(older, newer)
		older.silent("pending")
		if out, err := s.run(present, "up", 0); err != nil { // a program that migrates when it starts
			t.Errorf("at version %d: %v\n%s", version, err, out)
		}
		if out, err := s.run(present, "validate", 0); err != nil {
			t.Errorf("at version %d: %v\n%s", version, err, out)
		}
	}
	if out, err := s.run(present, "down", today); err == nil || !strings.Contains(out, "upgrade the library") {
		t.Errorf("the older release takes back what it does not know: %v\n%s", err, out)
	}

	// The contraction ends what the older release may expect. Its processes go on until they are started again, and its
	// reaper resigns when it next looks at the schema.
	s.must(future, "up", contract)
	s.must(future, "validate", 0)
	s.progress(older, newer)
	newer = s.restart(newer)
	s.progress(newer)
	newer.silent("pending")
	older.stop("upgrade the library")
	for _, command := range []string{"up", "validate", "run"} {
		if out, err := s.run(present, command, 0); err == nil || !strings.Contains(out, "upgrade the library") {
			t.Errorf("%s after the contraction: %v\n%s", command, err, out)
		}
	}

	// And back. Only the newer release can, and it says what would be lost.
	s.exec("UPDATE outbox SET tenant = 'acme' WHERE topic = 'later'")
	if out := s.must(future, "counts", today); strings.TrimSpace(out) != "outbox.tenant 3000" {
		t.Errorf("migrate down would lose %q", out)
	}
	s.must(future, "down", function)
	older = s.start(present, "older again")
	s.progress(older, newer)
	for _, version := range []int{index, column, today} {
		s.must(future, "down", version)
		s.progress(older, newer)
		newer = s.restart(newer)
		s.progress(older, newer)
		newer.says("a migration of the table is pending")
	}
	s.must(present, "validate", 0)
	older.stop()
	newer.stop()
	s.settled(present)
}

// A stage is a schema and what runs on it.
type stage struct {
	t     *testing.T
	db    *pgtest.DB
	spawn *spawn.Spawner
}

func newStage(t *testing.T) *stage {
	s := &stage{t, pgtest.New(t), spawn.New()}
	t.Cleanup(s.spawn.Close)
	return s
}

func (s *stage) exec(text string) {
	s.t.Helper()
	if _, err := s.db.Pool.Exec(s.t.Context(), text); err != nil {
		s.t.Fatalf("%s: %v", text, err)
	}
}

func (s *stage) count(query string, args ...any) (n int) {
	s.t.Helper()
	if err := s.db.Pool.QueryRow(s.t.Context(), query, args...).Scan(&n); err != nil {
		s.t.Fatalf("%s: %v", query, err)
	}
	return n
}

// own makes the table of an application's own, with the library as it is.
func (s *stage) own() {
	s.t.Helper()
	up, _, err := workqueue.Spec{Schema: s.db.Schema, Table: "parcels"}.DDL()
	if err != nil {
		s.t.Fatal(err)
	}
	s.exec(up)
}

func (s *stage) command(program, command, arg string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Minute) // one that is refused has to end
	s.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, command, arg)
	cmd.Env = append(os.Environ(), "TXWORK_EVOLVE_URL="+s.db.URL, "TXWORK_EVOLVE_SCHEMA="+s.db.Schema)
	return cmd
}

func (s *stage) run(program, command string, version int) (string, error) {
	out, err := s.command(program, command, strconv.Itoa(version)).CombinedOutput()
	return string(out), err
}

func (s *stage) must(program, command string, version int) string {
	s.t.Helper()
	cmd := s.command(program, command, strconv.Itoa(version))
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		s.t.Fatalf("%s %d: %v\n%s%s", command, version, err, &out, &log)
	}
	return out.String()
}

// A process writes and delivers.
type process struct {
	stage   *stage
	program string
	name    string
	cmd     *exec.Cmd
	ended   chan error
	log     *journal
}

// A journal is what a process has logged.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(text []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(text)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func (s *stage) start(program, name string) *process {
	s.t.Helper()
	p := &process{s, program, name, s.command(program, "run", name), make(chan error, 1), new(journal)}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := s.spawn.Start(p.cmd); err != nil {
		s.t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	return p
}

// stop ends a process as a deployment does. It has logged no error but such as have one of the given texts.
func (p *process) stop(allowed ...string) {
	p.stage.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.stage.t.Fatal(err)
	}
	wrong := func(line string) bool {
		return (strings.Contains(line, "level=ERROR") || strings.Contains(line, " ERROR ")) &&
			!slices.ContainsFunc(allowed, func(text string) bool { return strings.Contains(line, text) })
	}
	err := <-p.ended
	if lines := slices.Collect(strings.Lines(p.log.String())); err != nil || slices.ContainsFunc(lines, wrong) {
		p.stage.t.Errorf("%s ended with %v\n%s", p.name, err, p.log)
	}
}

func (s *stage) restart(p *process) *process {
	s.t.Helper()
	p.stop()
	return s.start(p.program, p.name)
}

// progress waits until each of some processes has delivered more messages.
func (s *stage) progress(all ...*process) {
	s.t.Helper()
	for _, p := range all {
		const delivered = "SELECT count(*) FROM delivered WHERE name = $1"
		before := s.count(delivered, p.name)
		ok := pgtest.Await(pgtest.Patience, func() bool {
			select {
			case err := <-p.ended:
				s.t.Fatalf("%s ended: %v\n%s", p.name, err, p.log)
			default:
			}
			return s.count(delivered, p.name) >= before+20
		})
		if !ok {
			s.t.Fatalf("%s delivers nothing\n%s", p.name, p.log)
		}
	}
}

func (p *process) says(text string) {
	p.stage.t.Helper()
	if !strings.Contains(p.log.String(), text) {
		p.stage.t.Errorf("%s does not say %q:\n%s", p.name, text, p.log)
	}
}

// silent checks that a process has no line about the outbox with a text. The application's own table stays as it is.
func (p *process) silent(text string) {
	p.stage.t.Helper()
	for line := range strings.Lines(p.log.String()) {
		if strings.Contains(line, text) && strings.Contains(line, ".outbox") {
			p.stage.t.Errorf("%s says %q:\n%s", p.name, text, p.log)
		}
	}
}

// settled lets a program deliver what is left, and checks that each message was delivered once and without an error.
func (s *stage) settled(program string) {
	s.t.Helper()
	s.exec("CREATE TABLE written AS SELECT id FROM outbox WHERE topic = 'evolve'")
	last := s.start(program, "last")
	s.progress(last)
	const left = "SELECT count(*) FROM outbox JOIN written USING (id) WHERE completed_at IS NULL"
	if !pgtest.Await(pgtest.Patience, func() bool { return s.count(left) == 0 }) {
		s.t.Errorf("%d messages are left\n%s", s.count(left), last.log)
	}
	last.stop()
	for what, query := range map[string]string{
		"messages had an error":         "SELECT count(*) FROM outbox WHERE last_error IS NOT NULL OR failed_at IS NOT NULL",
		"messages were not delivered":   "SELECT count(*) FROM written WHERE id NOT IN (SELECT id FROM delivered)",
		"messages were delivered again": "SELECT count(*) - count(DISTINCT id) FROM delivered",
		"parcels had an error":          "SELECT count(*) FROM parcels WHERE last_error IS NOT NULL OR attempts > 1",
	} {
		if n := s.count(query); n > 0 {
			s.t.Errorf("%d %s", n, what)
		}
	}
	s.t.Logf("%d messages, %d parcels", s.count("SELECT count(*) FROM written"),
		s.count("SELECT count(*) FROM parcels"))
}
