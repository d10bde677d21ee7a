package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// asCommand makes the test binary run the command, for tests of signals and pipes.
const asCommand = "TXWORK_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(realMain())
	}
	goleak.VerifyTestMain(m)
}

// A cli runs command lines on its own schema.
type cli struct {
	t      *testing.T
	db     *pgtest.DB
	url    string // without the schema in its search_path
	outbox *outbox.Outbox
	passed []string // flags that a message advised
}

// newCLI creates an empty schema.
func newCLI(t *testing.T) *cli {
	t.Helper()
	t.Parallel()
	return openCLI(t, pgtest.New(t))
}

func openCLI(t *testing.T, db *pgtest.DB) *cli {
	t.Helper()
	box, err := outbox.Open(outbox.Options{Schema: db.Schema})
	must(t, err)
	return &cli{t: t, db: db, url: pgtest.URL(t), outbox: box}
}

// newMigratedCLI creates a schema with the tables of txwork.
func newMigratedCLI(t *testing.T) *cli {
	t.Helper()
	t.Parallel()
	c := openCLI(t, pgtest.New(t, pgtest.Reused))
	text, err := migrations.SQL(migrations.FileOptions{Schema: c.db.Schema})
	must(t, err)
	c.db.Define(t, text)
	return c
}

// in returns the same cli for a subtest.
func (c *cli) in(t *testing.T) *cli {
	sub := *c
	sub.t = t
	return &sub
}

// A result is the exit code and the output of a command line.
type result struct {
	t              *testing.T
	code           int
	stdout, stderr string
}

// args appends the flags that name the database and the schema.
func (c *cli) args(args ...string) []string {
	return append(args, "--database-url", c.url, "--schema", c.db.Schema)
}

func (c *cli) run(args ...string) result {
	c.t.Helper()
	return c.runWith(c.t.Context(), strings.NewReader(""), args...)
}

func (c *cli) runWith(ctx context.Context, stdin io.Reader, args ...string) result {
	c.t.Helper()
	return execute(c.t, ctx, stdin, nil, c.args(args...)...)
}

// execute runs a command line in this process.
func execute(t *testing.T, ctx context.Context, stdin io.Reader, env map[string]string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := &app{stdin: stdin, stdout: &stdout, stderr: &stderr, getenv: func(name string) string { return env[name] }}
	code := a.run(ctx, args)
	if slices.Contains(args, "--json") {
		printsForms(t, args, stdout.String(), stderr.String())
	}
	return result{t: t, code: code, stdout: stdout.String(), stderr: stderr.String()}
}

// ok fails the test unless the command succeeded.
func (r result) ok() result {
	r.t.Helper()
	return r.exits(exitOK)
}

func (r result) exits(code int) result {
	r.t.Helper()
	if r.code != code {
		r.t.Fatalf("exit code %d, want %d\nstdout: %s\nstderr: %s", r.code, code, r.stdout, r.stderr)
	}
	return r
}

// says fails the test unless standard error contains the texts.
func (r result) says(texts ...string) result {
	r.t.Helper()
	contains(r.t, "stderr", r.stderr, texts...)
	return r
}

// prints fails the test unless standard output contains the texts.
func (r result) prints(texts ...string) result {
	r.t.Helper()
	contains(r.t, "stdout", r.stdout, texts...)
	return r
}

func contains(t *testing.T, name, got string, want ...string) {
	t.Helper()
	for _, text := range want {
		if !strings.Contains(got, text) {
			t.Errorf("%s is\n%s\nwant in it: %s", name, got, text)
		}
	}
}

// decode reads the one line of JSON that the command printed.
func decode[T any](r result) T {
	r.t.Helper()
	if strings.Count(r.stdout, "\n") != 1 || !strings.HasSuffix(r.stdout, "\n") {
		r.t.Fatalf("want one line of JSON, got %q", r.stdout)
	}
	var v T
	must(r.t, json.Unmarshal([]byte(r.stdout), &v))
	return v
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// enqueue writes messages as an application does.
func (c *cli) enqueue(msgs ...outbox.Message) []uuid.UUID {
	c.t.Helper()
	var enqueued []workqueue.Enqueued
	must(c.t, pgx.BeginFunc(c.t.Context(), c.db.Pool, func(tx pgx.Tx) (err error) {
		enqueued, err = c.outbox.EnqueueMany(c.t.Context(), workqueue.Pgx(tx), msgs...)
		return err
	}))
	return workqueue.IDs(enqueued)
}

// queue returns the operations of the outbox.
func (c *cli) queue() *workqueue.Queue { return c.outbox.Table().On(c.db.Pool) }

// fold applies the notes, as workers do.
func (c *cli) fold() {
	c.t.Helper()
	_, err := c.queue().Fold(c.t.Context())
	must(c.t, err)
}

// fail makes the messages dead letters.
func (c *cli) fail(cause string, ids ...uuid.UUID) {
	c.t.Helper()
	owner := workqueue.NewOwnerToken()
	c.fold()
	_, err := c.queue().Claim(c.t.Context(), owner, time.Minute, workqueue.MaxBatch)
	must(c.t, err)
	_, err = c.queue().Fail(c.t.Context(), owner, ids, cause)
	must(c.t, err)
}

// exec runs a statement in which {schema} is replaced by the schema.
func (c *cli) exec(statement string, args ...any) {
	c.t.Helper()
	_, err := c.db.Pool.Exec(c.t.Context(), strings.ReplaceAll(statement, "{schema}", c.db.Schema), args...)
	must(c.t, err)
}

// value reads one value.
func value[T any](c *cli, query string, args ...any) (v T) {
	c.t.Helper()
	must(c.t, c.db.Pool.QueryRow(c.t.Context(), strings.ReplaceAll(query, "{schema}", c.db.Schema), args...).Scan(&v))
	return v
}

// createTable creates a table of the application's own.
func (c *cli) createTable(spec workqueue.Spec) *workqueue.Table {
	c.t.Helper()
	spec.Schema = c.db.Schema
	up, _, err := spec.DDL()
	must(c.t, err)
	c.db.Define(c.t, up)
	table, err := workqueue.Open(spec, workqueue.Telemetry{})
	must(c.t, err)
	return table
}

// insert writes rows into a table of the application's own.
func (c *cli) insert(table *workqueue.Table, rows ...workqueue.NewRow) []uuid.UUID {
	c.t.Helper()
	ids := make([]uuid.UUID, len(rows))
	must(c.t, pgx.BeginFunc(c.t.Context(), c.db.Pool, func(tx pgx.Tx) error {
		inserted, err := table.Insert(c.t.Context(), workqueue.Pgx(tx), rows...)
		for i, row := range inserted {
			ids[i] = row.ID
		}
		return err
	}))
	return ids
}

// quiet fails the test if the command wrote to standard error.
func (r result) quiet() result {
	r.t.Helper()
	if r.stderr != "" {
		r.t.Errorf("stderr is %s", r.stderr)
	}
	return r
}
