package clients

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/page"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
)

// Every program on the pages of drivers does what the page says: what the page enqueues is done.
func TestTheProgramsOfThePages(t *testing.T) {
	t.Parallel()
	eachPage(t, func(m *machine, enqueue, workers []program) {
		m.enqueues(enqueue)
		running := m.starts(workers)
		m.beats(workers)
		m.allDone(running)
	})
}

// A worker goes on when its connections end, while it waits and while it works.
func TestConnectionsOfAWorkerEnd(t *testing.T) {
	t.Parallel()
	eachPage(t, func(m *machine, enqueue, workers []program) {
		for i := range workers {
			m.slowWithShortLeases(&workers[i])
		}
		running := m.starts(workers)
		m.beats(workers)
		m.terminates()
		m.enqueues(enqueue)
		for range 2 {
			if !pgtest.Await(pgtest.Patience, func() bool { return m.rows("status = 1") > 0 }) {
				m.Fatal("no worker has rows")
			}
			m.terminates()
		}
		m.reaps = true // for the rows of a fetch whose reply was lost
		m.allDone(running)
	})
}

// A worker that is killed while it has rows keeps none of them: after its lease another one does them.
func TestAWorkerIsKilled(t *testing.T) {
	t.Parallel()
	eachPage(t, func(m *machine, enqueue, workers []program) {
		m.enqueues(enqueue)
		slow := slices.Clone(workers)
		for i := range slow {
			m.slowWithShortLeases(&slow[i])
		}
		killed := m.starts(slow)
		m.freezesWithRows(killed)
		others := m.starts(workers)
		for _, w := range killed {
			ok(m.T, w.Process.Kill())
			w.Wait() //nolint:errcheck // it was killed
		}
		m.reaps = true
		m.allDone(others)
		if m.requeued == 0 {
			m.Error("the worker had no rows when it was killed")
		}
	})
}

// eachPage calls run with the programs of each page, and a machine for them.
func eachPage(t *testing.T, run func(m *machine, enqueue, workers []program)) {
	t.Helper()
	pages, err := page.Read("../../docs/clients")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	count := 0
	for _, p := range pages {
		enqueue, workers := programsOf(p)
		count += len(enqueue) + len(workers)
		switch {
		case len(enqueue) > 0 && len(workers) > 0:
			t.Run(p.Path, func(t *testing.T) {
				t.Parallel()
				run(newMachine(t), enqueue, workers)
			})
		case !strings.Contains(p.Text, "was not run by a test"):
			t.Errorf("%s has no programs, and does not say that it was not run by a test", p.Path)
		}
	}
	if count < 2 {
		t.Errorf("the pages have %d programs", count)
	}
}

// readsLog begins the names of programs that read a log.
const readsLog = "log_"

// A program that reads a log handles each message once, and parks one that fails with what is behind it in its key.
func TestTheReadersOfALog(t *testing.T) {
	t.Parallel()
	pages, err := page.Read("../../docs/clients")
	ok(t, err)
	count := 0
	for _, p := range pages {
		for _, b := range p.Blocks() {
			if !strings.HasPrefix(b.Name, readsLog) {
				continue
			}
			count++
			p := program{languages[b.Language], b}
			t.Run(b.Name, func(t *testing.T) {
				t.Parallel()
				newMachine(t).readsLog(p)
			})
			t.Run(b.Name+", whose destination is away", func(t *testing.T) {
				t.Parallel()
				newMachine(t).restsAndReadsLog(p)
			})
		}
	}
	if count == 0 {
		t.Error("no page has a reader of a log")
	}
}

// refused has a reader's handler refuse a message in the middle of a page, and then its probe.
const refused = `    if b"150" in payload and refused.pop("calls", None):
        raise ConnectionRefusedError("away")
    if b"150" in payload and refused.pop("probes", None):
        raise ConnectionRefusedError("away")
`

// restsAndReadsLog is readsLog with a destination that refuses a message and its first probe. That costs no attempt, so
// nothing more is parked, and nothing is handled twice.
func (m *machine) restsAndReadsLog(p program) {
	m.Helper()
	head, body, is := strings.Cut(p.Text, "def handle(topic, payload):\n")
	if !is {
		m.Fatalf("%s has no handler", p.Name)
	}
	p.Text = head + "refused = {\"calls\": True, \"probes\": True}\n\n\ndef handle(topic, payload):\n" + refused + body
	m.readsLog(p)
}

func (m *machine) readsLog(p program) {
	m.Helper()
	up, err := migrations.SQL(migrations.FileOptions{Schema: "txwork", Domains: []migrations.Domain{migrations.Log}})
	ok(m.T, err)
	for _, statement := range []string{up, "CALL txwork.outbox_log_tick()", "SELECT txwork.outbox_log_subscribe('audit')",
		"SELECT txwork.outbox_log_append('order.placed', convert_to(n::text, 'UTF8'), key => 'k' || n % 7) " +
			"FROM generate_series(1, 300) AS n",
		`SELECT txwork.outbox_log_append('order.lost', '\xff', key => 'lost') FROM generate_series(1, 2)`} {
		_, err := m.pool.Exec(m.Context(), statement)
		ok(m.T, err)
	}
	running := m.starts([]program{p})
	read := pgtest.Await(pgtest.Patience, func() (all bool) {
		ok(m.T, m.pool.QueryRow(m.Context(), "SELECT messages = 0 FROM txwork.outbox_log_lag()").Scan(&all))
		return all
	})
	ok(m.T, running[0].Process.Signal(syscall.SIGTERM))
	err = running[0].Wait()
	var parked int
	ok(m.T, m.pool.QueryRow(m.Context(), "SELECT count(*) FROM txwork.outbox_log_parked WHERE key = 'lost'").Scan(&parked))
	said := running[0].Stdout.(*bytes.Buffer).String()
	var others int
	ok(m.T, m.pool.QueryRow(m.Context(), "SELECT count(*) FROM txwork.outbox_log_parked WHERE key <> 'lost'").Scan(&others))
	if n := strings.Count(said, "order.placed "); !read || err != nil || n != 300 || parked != 2 || others > 0 {
		m.Errorf("%v; all are read: %t; %d are handled, %d parked, and %d that have not failed\n%s", stopped(err), read, n,
			parked, others, said)
	}
}

// A program is a block of a page with a file name.
type program struct {
	language language
	page.Block
}

// programsOf returns those that enqueue, and the others, which work.
func programsOf(p page.Page) (enqueue, workers []program) {
	for _, b := range p.Blocks() {
		language, is := languages[b.Language]
		switch {
		case !is || b.Name == "" || strings.HasPrefix(b.Name, readsLog):
		case strings.HasPrefix(b.Name, "enqueue"):
			enqueue = append(enqueue, program{language, b})
		default:
			workers = append(workers, program{language, b})
		}
	}
	return enqueue, workers
}

// A machine has a server with all domains in schema txwork, as the pages assume, and a directory for programs.
type machine struct {
	*testing.T
	dir  string
	url  string
	pool *pgxpool.Pool

	reaps    bool // while it waits, requeues what has expired, as the maintenance of the tables does
	requeued int
}

// observer is the name of the test's own sessions.
const observer = "observer"

var tables = []string{"outbox", "inbox", "timers", "jobs"}

func newMachine(t *testing.T) *machine {
	t.Helper()
	server, err := localpg.Start(t.Context(), localpg.Options{})
	ok(t, err)
	t.Cleanup(func() { server.Stop() })
	config, err := pgxpool.ParseConfig(server.URL())
	ok(t, err)
	config.ConnConfig.RuntimeParams["application_name"] = observer
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	ok(t, err)
	t.Cleanup(pool.Close)
	up, err := migrations.SQL(migrations.FileOptions{Schema: "txwork"})
	ok(t, err)
	_, err = pool.Exec(t.Context(), up)
	ok(t, err)
	return &machine{T: t, dir: t.TempDir(), url: server.URL(), pool: pool}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// command writes a program to a file and returns what runs it, with the address of the server as the pages expect it.
func (m *machine) command(p program) *exec.Cmd {
	m.Helper()
	interpreter := p.language.command(m.Context())
	if interpreter == nil {
		m.Skip("the driver is missing: " + p.language.install)
	}
	ok(m.T, os.WriteFile(filepath.Join(m.dir, p.Name), []byte(p.Text), 0o644))
	c := exec.CommandContext(m.Context(), interpreter[0], append(interpreter[1:], p.Name)...)
	c.Dir = m.dir
	c.Env = append(Environment(), "DATABASE_URL="+m.url)
	return c
}

func (m *machine) enqueues(programs []program) {
	m.Helper()
	for _, p := range programs {
		if out, err := m.command(p).CombinedOutput(); err != nil {
			m.Fatalf("%s: %v\n%s", p.Name, err, out)
		}
	}
	if m.rows("true") == 0 {
		m.Fatal("the page enqueues nothing")
	}
}

func (m *machine) starts(programs []program) (workers []*exec.Cmd) {
	m.Helper()
	for _, p := range programs {
		w := m.command(p)
		w.Stdout = new(bytes.Buffer)
		w.Stderr = w.Stdout
		ok(m.T, w.Start())
		workers = append(workers, w)
	}
	return workers
}

// beats waits until each program has said on which host it runs, and in which language.
func (m *machine) beats(programs []program) {
	m.Helper()
	host, err := os.Hostname()
	ok(m.T, err)
	for _, p := range programs {
		if !pgtest.Await(pgtest.Patience, func() (beats bool) {
			ok(m.T, m.pool.QueryRow(m.Context(), "SELECT EXISTS (SELECT FROM txwork.process "+
				"WHERE host = $1 AND starts_with(language, $2) AND serves <> '[]')", host, p.language.name+" ").Scan(&beats))
			return beats
		}) {
			m.Fatalf("%s sends no beat", p.Name)
		}
	}
}

// terminates ends a session of the workers, or more. One in psql has none most of the time.
func (m *machine) terminates() {
	m.Helper()
	if !pgtest.Await(pgtest.Patience, func() bool {
		var n int
		ok(m.T, m.pool.QueryRow(m.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND application_name <> $1`, observer).Scan(&n))
		return n > 0
	}) {
		m.Fatal("the workers have no sessions")
	}
}

// freezesWithRows stops workers when they have rows, and no statement of theirs runs that would still settle some.
func (m *machine) freezesWithRows(workers []*exec.Cmd) {
	m.Helper()
	signal := func(s os.Signal) {
		for _, w := range workers {
			ok(m.T, w.Process.Signal(s))
		}
	}
	if !pgtest.Await(pgtest.Patience, func() bool {
		if m.rows("status = 1") == 0 {
			return false
		}
		signal(syscall.SIGSTOP)
		if m.rows("status = 1 AND "+idle) > 0 {
			return true
		}
		signal(syscall.SIGCONT)
		return false
	}) {
		m.Fatal("no worker has rows")
	}
}

// idle is true if no other session runs a statement.
const idle = `NOT EXISTS (SELECT FROM pg_stat_activity
	WHERE state = 'active' AND backend_type = 'client backend' AND pid <> pg_backend_pid())`

var lease = regexp.MustCompile(`30 s|1 minute`)

// slowWithShortLeases changes a program so that a kill meets it while it has rows, and little time passes until others
// get them.
func (m *machine) slowWithShortLeases(p *program) {
	m.Helper()
	handler := regexp.MustCompile(`(?m)^( *)` + regexp.QuoteMeta(p.language.handler) + `$`)
	if !handler.MatchString(p.Text) || !lease.MatchString(p.Text) {
		m.Fatalf("%s has no handler or no lease", p.Name)
	}
	p.Text = handler.ReplaceAllStringFunc(p.Text, func(statement string) string {
		indent, _, _ := strings.Cut(statement, p.language.handler)
		return statement + "\n" + indent + p.language.pause
	})
	p.Text = lease.ReplaceAllLiteralString(p.Text, "4 s")
}

// allDone waits until all rows are done, and stops the workers as a platform does, by SIGTERM.
func (m *machine) allDone(workers []*exec.Cmd) {
	m.Helper()
	done := pgtest.Await(pgtest.Patience, func() bool {
		if m.reaps {
			m.requeue()
		}
		return m.rows("status <> 2") == 0
	})
	for _, w := range workers {
		w.Process.Signal(syscall.SIGTERM) //nolint:errcheck // one that has ended is reported below
	}
	for _, w := range workers {
		if err := w.Wait(); err != nil || !done {
			m.Errorf("%v: %v; all rows are done: %t\n%s", w.Args, stopped(err), done, w.Stdout)
		}
	}
}

func (m *machine) requeue() {
	m.Helper()
	for _, table := range tables {
		var n int
		ok(m.T, m.pool.QueryRow(m.Context(), "SELECT requeued FROM txwork."+table+"_reap_expired()").Scan(&n))
		m.requeued += n
	}
}

// stopped is an error with what the process has left.
func stopped(err error) error {
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		return errors.New(exit.String())
	}
	return err
}

// rows counts rows of all domains.
func (m *machine) rows(condition string) (n int) {
	m.Helper()
	var counts []string
	for _, table := range tables {
		counts = append(counts, "(SELECT count(*) FROM txwork."+table+" WHERE "+condition+")")
	}
	ok(m.T, m.pool.QueryRow(m.Context(), "SELECT "+strings.Join(counts, " + ")).Scan(&n))
	return n
}
