package clients

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/page"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
)

// Every program on the pages of drivers does what the page says: what the page enqueues is done.
func TestTheProgramsOfThePages(t *testing.T) {
	t.Parallel()
	pages, err := page.Read("../../docs/clients")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	run := 0
	for _, p := range pages {
		programs := programsOf(p)
		if len(programs) == 0 {
			if !strings.Contains(p.Text, "was not run by a test") {
				t.Errorf("%s has no program, and does not say that it was not run by a test", p.Path)
			}
			continue
		}
		run += len(programs)
		t.Run(p.Path, func(t *testing.T) {
			t.Parallel()
			newMachine(t).runs(programs)
		})
	}
	if run < 2 {
		t.Errorf("the pages have %d programs", run)
	}
}

// A program is a block of a page with a file name.
type program struct {
	language language
	page.Block
}

func programsOf(p page.Page) (programs []program) {
	for _, b := range p.Blocks() {
		if language, ok := languages[b.Language]; ok && b.Name != "" {
			programs = append(programs, program{language, b})
		}
	}
	return programs
}

// A machine has a server with all domains in schema txwork, as the pages assume, and a directory for programs.
type machine struct {
	*testing.T
	dir  string
	url  string
	pool *pgxpool.Pool
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	server, err := localpg.Start(t.Context(), localpg.Options{})
	ok(t, err)
	t.Cleanup(func() { server.Stop() })
	pool, err := pgxpool.New(t.Context(), server.URL())
	ok(t, err)
	t.Cleanup(pool.Close)
	up, err := migrations.SQL(migrations.FileOptions{Schema: "txwork"})
	ok(t, err)
	_, err = pool.Exec(t.Context(), up)
	ok(t, err)
	return &machine{t, t.TempDir(), server.URL(), pool}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// command runs a file, with the address of the server where the pages expect it.
func (m *machine) command(p program) *exec.Cmd {
	m.Helper()
	interpreter := p.language.command(m.T)
	if interpreter == nil {
		m.Skip("the driver is missing: " + p.language.install)
	}
	c := exec.CommandContext(m.Context(), interpreter[0], append(interpreter[1:], p.Name)...)
	c.Dir = m.dir
	c.Env = append(environment(), "DATABASE_URL="+m.url)
	return c
}

// runs writes the programs, runs enqueue and then the others until all rows have ended, and stops them as a platform
// does, by SIGTERM.
func (m *machine) runs(programs []program) {
	m.Helper()
	for _, p := range programs {
		ok(m.T, os.WriteFile(filepath.Join(m.dir, p.Name), []byte(p.Text), 0o644))
	}
	var workers []*exec.Cmd
	for _, p := range programs {
		if !strings.HasPrefix(p.Name, "enqueue") {
			workers = append(workers, m.command(p))
		} else if out, err := m.command(p).CombinedOutput(); err != nil {
			m.Fatalf("%s: %v\n%s", p.Name, err, out)
		}
	}
	if len(workers) == 0 {
		return
	}
	outputs := make([]bytes.Buffer, len(workers))
	for i, w := range workers {
		w.Stdout, w.Stderr = &outputs[i], &outputs[i]
		ok(m.T, w.Start())
	}
	if m.rows("status = 2")+m.rows("status < 2") == 0 {
		m.Error("the page enqueues nothing")
	}
	done := pgtest.Await(30*time.Second, func() bool { return m.rows("status <> 2") == 0 })
	for _, w := range workers {
		w.Process.Signal(syscall.SIGTERM) //nolint:errcheck // one that has ended is reported below
	}
	for i, w := range workers {
		if err := w.Wait(); err != nil || !done {
			m.Errorf("%v: %v; all rows are done: %t\n%s", w.Args, stopped(err), done, outputs[i].Bytes())
		}
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
	for _, table := range []string{"outbox", "inbox", "timers", "jobs"} {
		counts = append(counts, "(SELECT count(*) FROM txwork."+table+" WHERE "+condition+")")
	}
	ok(m.T, m.pool.QueryRow(m.Context(), "SELECT "+strings.Join(counts, " + ")).Scan(&n))
	return n
}
