package reaper_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/workqueue"
)

// quiet discards the log, which would contain the failures that tests provoke.
var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// A database is a schema with a leader table.
type database struct {
	*pgtest.DB
	t testing.TB
}

func newDatabase(t testing.TB, options ...pgtest.Option) *database {
	t.Helper()
	db := &database{pgtest.New(t, options...), t}
	db.createLeader()
	return db
}

// newServer starts a server for one test, for tests that affect or observe a whole server.
func newServer(t testing.TB, settings map[string]string) (*localpg.Server, *database) {
	t.Helper()
	server, err := localpg.Start(t.Context(), localpg.Options{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	db := &database{&pgtest.DB{Pool: newPool(t, server.URL()), Schema: "own", URL: server.URL()}, t}
	db.exec("CREATE SCHEMA own")
	db.createLeader()
	return server, db
}

func newPool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func (db *database) createLeader() {
	db.t.Helper()
	text, err := migrations.SQL(migrations.FileOptions{Schema: db.Schema,
		Domains: []migrations.Domain{migrations.Reaper}})
	if err != nil {
		db.t.Fatal(err)
	}
	db.exec(text)
}

// table creates the table of a Spec.
func (db *database) table(spec workqueue.Spec) *workqueue.Table {
	db.t.Helper()
	return db.observed(spec, nil)
}

func (db *database) observed(spec workqueue.Spec, observer workqueue.Observer) *workqueue.Table {
	db.t.Helper()
	spec.Schema = db.Schema
	up, _, err := spec.DDL()
	if err != nil {
		db.t.Fatal(err)
	}
	db.exec(up)
	return db.open(spec, observer)
}

// open opens a table that exists.
func (db *database) open(spec workqueue.Spec, observer workqueue.Observer) *workqueue.Table {
	db.t.Helper()
	spec.Schema = db.Schema
	table, err := workqueue.Open(spec, workqueue.Telemetry{Logger: quiet, Observer: observer})
	if err != nil {
		db.t.Fatal(err)
	}
	return table
}

func (db *database) options() reaper.Options { return shortTimes(db.Schema) }

func shortTimes(schema string) reaper.Options {
	return reaper.Options{Schema: schema, Interval: 200 * time.Millisecond, Lease: pgtest.Lease, Logger: quiet}
}

func (db *database) exec(sql string) {
	db.t.Helper()
	if _, err := db.Pool.Exec(context.Background(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		db.t.Fatalf("%s: %v", sql, err)
	}
}

func (db *database) int(sql string, args ...any) int {
	db.t.Helper()
	return query[int](db.t, db.Pool, sql, args...)
}

func query[T any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	var value T
	if err := pool.QueryRow(context.Background(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// The kinds of rows that a reaper meets.
const (
	expired = "status = 1, attempts = 1, due_at = now() - interval '1 hour', locked_until = now() - interval '1 " +
		"minute', owner_token = gen_random_uuid()"
	exhausted = "status = 1, attempts = 15, due_at = now() - interval '1 hour', locked_until = now() - interval '1 " +
		"minute', owner_token = gen_random_uuid()"
	running = "status = 1, attempts = 1, due_at = now() - interval '2 hours', locked_until = now() + interval '1 " +
		"hour', owner_token = gen_random_uuid()"
	ready = "due_at = now() - interval '1 hour'"
)

func done(age string) string {
	return "status = 2, attempts = 1, completed_at = now() - interval '" + age + "'"
}

func failed(age string) string {
	return "status = 3, attempts = 1, completed_at = now() - interval '" + age + "', failed_at = now() - interval '" +
		age + "'"
}

func cancelled(age string) string {
	return failed(age) + ", cancelled_at = now() - interval '" + age + "'"
}

// rows inserts n rows of a kind.
func (db *database) rows(table *workqueue.Table, n int, kind string) {
	db.t.Helper()
	var columns, values []string
	for _, assignment := range strings.Split(kind, ", ") {
		column, value, _ := strings.Cut(assignment, " = ")
		columns, values = append(columns, column), append(values, value)
	}
	db.exec(fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM generate_series(1, %d)",
		table.Name(), strings.Join(columns, ", "), strings.Join(values, ", "), n))
}

// count returns the number of a table's rows in a status.
func (db *database) count(table *workqueue.Table, status workqueue.Status) int {
	db.t.Helper()
	return db.int("SELECT count(*) FROM "+table.Name()+" WHERE status = $1", int16(status))
}

func (db *database) runOnce(o reaper.Options, tables ...*workqueue.Table) reaper.Report {
	db.t.Helper()
	report, err := reaper.RunOnce(db.t.Context(), db.Pool, tables, o)
	if err != nil {
		db.t.Fatal(err)
	}
	return report
}

// run starts Run. The function stop ends it and waits until it has returned; every test has to call it.
func (db *database) run(pool *pgxpool.Pool, o reaper.Options, tables ...*workqueue.Table) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- reaper.Run(ctx, pool, tables, o) }()
	stop = func() {
		db.t.Helper()
		cancel()
		select {
		case err, open := <-ended:
			if open && err != nil {
				db.t.Errorf("Run: %v", err)
			}
			if open {
				close(ended)
			}
		case <-time.After(pgtest.Patience):
			db.t.Error("Run did not stop")
		}
	}
	db.t.Cleanup(stop)
	return stop
}

// leader returns the current or last leadership of a table, and nil if no reaper has ever led it.
func (db *database) leader(table *workqueue.Table) *reaper.Leadership {
	db.t.Helper()
	all, err := reaper.Leaders(context.Background(), db.Pool, db.Schema)
	if err != nil {
		db.t.Fatal(err)
	}
	for _, l := range all {
		if l.Table == table.Name() {
			return &l
		}
	}
	return nil
}

// awaitTerm waits until a reaper leads a table in the term.
func (db *database) awaitTerm(table *workqueue.Table, term int64) {
	db.t.Helper()
	db.await(fmt.Sprintf("a leader with term %d", term), func() bool {
		l := db.leader(table)
		return l != nil && l.Term == term && l.ExpiresIn > 0
	})
}

func (db *database) await(what string, condition func() bool) {
	db.t.Helper()
	if !pgtest.Await(pgtest.Patience, condition) {
		db.t.Fatalf("no %s", what)
	}
}

// onQuery is a tracer that is called before every statement.
type onQuery func(sql string)

func (f onQuery) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	f(data.SQL)
	return ctx
}

func (onQuery) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// traced calls f before every statement of the database's pool.
func traced(f func(sql string)) pgtest.Option {
	return pgtest.WithPool(func(c *pgxpool.Config) { c.ConnConfig.Tracer = onQuery(f) })
}
