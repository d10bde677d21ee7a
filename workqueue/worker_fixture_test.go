package workqueue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

const (
	patience = pgtest.Patience
	slack    = pgtest.Slack
)

// note is the body of the rig's rows.
type note struct {
	Topic   string
	Payload string
}

type noteClaim = workqueue.Claim[note]

// A rig is one queue table with everything that the tests need to use and inspect it.
type rig struct {
	*testing.T
	URL    string
	Schema string
	db     *pgtest.DB
	Spec   workqueue.Spec
	Pool   *pgxpool.Pool // the application's
	Eyes   *pgxpool.Pool // the test's own view, which no handler can starve
	Table  *workqueue.Table
	Queue  *workqueue.Queue
	Events *eventLog
	Logs   *logBuffer
	Domain workqueue.Domain[note]
}

type rigOptions struct {
	spec      func(*workqueue.Spec)
	pool      func(*pgxpool.Config)
	telemetry func(*workqueue.Telemetry)
}

// atOnce is a backoff that does not wait; never, one that outlasts every test.
var (
	atOnce = workqueue.Retry{Growth: workqueue.Constant}
	never  = workqueue.Retry{Growth: workqueue.Constant, Base: time.Hour, Cap: time.Hour}
)

// newRig creates a table in a schema of its own on the shared server.
func newRig(t *testing.T, o rigOptions) *rig {
	t.Helper()
	spec := noteSpec("notes")
	if o.spec != nil {
		o.spec(&spec)
	}
	db := pgtest.New(t, pgtest.ReusedFor(ddl(t, spec)))
	r := openRig(t, db, o)
	db.Define(t, ddl(t, r.Spec))
	return r
}

// rigOn creates the table in a schema that exists, on any server.
func rigOn(t *testing.T, url, schema string, o rigOptions) *rig {
	t.Helper()
	r := openRig(t, &pgtest.DB{Schema: schema, URL: url}, o)
	r.exec(ddl(t, r.Spec))
	return r
}

// openRig opens a table that is yet to be created.
func openRig(t *testing.T, db *pgtest.DB, o rigOptions) *rig {
	t.Helper()
	r := &rig{T: t, db: db, URL: db.URL, Schema: db.Schema, Events: &eventLog{}, Logs: &logBuffer{}}
	r.Spec = noteSpec(db.Schema)
	if o.spec != nil {
		o.spec(&r.Spec)
	}
	r.Pool = r.openPool(o.pool)
	r.Eyes = r.openPool(nil)
	tel := workqueue.Telemetry{Observer: r.Events.observe, Logger: slog.New(slog.NewTextHandler(r.Logs, nil))}
	if o.telemetry != nil {
		o.telemetry(&tel)
	}
	var err error
	if r.Table, err = workqueue.Open(r.Spec, tel); err != nil {
		t.Fatal(err)
	}
	r.Queue = r.Table.On(r.Eyes)
	r.Domain = noteDomain(r.Table)
	return r
}

func ddl(t *testing.T, spec workqueue.Spec) string {
	t.Helper()
	up, _, err := spec.DDL()
	if err != nil {
		t.Fatal(err)
	}
	return up
}

func noteSpec(schema string) workqueue.Spec {
	return workqueue.Spec{
		Schema: schema,
		Table:  "notes",
		Retry:  atOnce,
		Columns: []workqueue.Column{
			{Name: "topic", Type: "text", NotNull: true},
			{Name: "payload", Type: "text"},
		},
	}
}

func (n *note) columns(c *workqueue.Columns) {
	c.Field(workqueue.Column{Name: "topic", Type: "text", NotNull: true}, &n.Topic)
	c.Field(workqueue.Column{Name: "payload"}, &n.Payload)
}

func noteDomain(table *workqueue.Table) workqueue.Domain[note] {
	return workqueue.Domain[note]{
		Table:   table,
		Columns: (*note).columns,
	}
}

func (r *rig) openPool(configure func(*pgxpool.Config)) *pgxpool.Pool {
	r.Helper()
	config, err := pgxpool.ParseConfig(r.URL)
	if err != nil {
		r.Fatal(err)
	}
	config.MaxConns = 8
	r.db.Watch(config)
	if configure != nil {
		configure(config)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(pool.Close)
	return pool
}

func (r *rig) exec(sql string, args ...any) {
	r.Helper()
	if _, err := r.Eyes.Exec(r.Context(), sql, args...); err != nil {
		r.Fatalf("%s: %v", sql, err)
	}
}

// ask returns the one value of a query.
func ask[V any](r *rig, sql string, args ...any) V {
	r.Helper()
	var v V
	if err := r.Eyes.QueryRow(r.Context(), sql, args...).Scan(&v); err != nil {
		r.Fatalf("%s: %v", sql, err)
	}
	return v
}

// insert enqueues a row for each of the given topics, in one transaction.
func (r *rig) insert(topics ...string) []uuid.UUID {
	r.Helper()
	rows := make([]workqueue.NewRow, len(topics))
	for i, topic := range topics {
		rows[i].Values = []any{topic, "payload of " + topic}
	}
	return r.insertRows(rows...)
}

// insertMany enqueues n rows of one topic.
func (r *rig) insertMany(topic string, n int) []uuid.UUID {
	r.Helper()
	return r.insert(slices.Repeat([]string{topic}, n)...)
}

func (r *rig) insertRows(rows ...workqueue.NewRow) []uuid.UUID {
	r.Helper()
	var ids []uuid.UUID
	err := pgx.BeginFunc(r.Context(), r.Eyes, func(tx pgx.Tx) (err error) {
		ids, err = r.insertIn(tx, rows...)
		return err
	})
	if err != nil {
		r.Fatal(err)
	}
	return ids
}

func (r *rig) insertIn(tx pgx.Tx, rows ...workqueue.NewRow) ([]uuid.UUID, error) {
	inserted, err := r.Table.Insert(r.Context(), workqueue.Pgx(tx), rows...)
	ids := make([]uuid.UUID, len(inserted))
	for i, in := range inserted {
		ids[i] = in.ID
	}
	return ids, err
}

// noteRow is a row as the database has it.
type noteRow struct {
	Status               workqueue.Status
	Attempts             int
	DueIn                time.Duration
	LockedUntil          time.Time
	Token                uuid.UUID
	Error                string
	Completed, Cancelled bool
	Topic                string
}

// row returns a row; the zero row with status -1 if there is none.
func (r *rig) row(id uuid.UUID) noteRow {
	r.Helper()
	var n noteRow
	var due float64
	err := r.Eyes.QueryRow(r.Context(),
		`SELECT status, attempts, extract(epoch FROM due_at - clock_timestamp())::float8,
			coalesce(locked_until, 'epoch'), coalesce(owner_token, '00000000-0000-0000-0000-000000000000'),
			coalesce(last_error, ''), completed_at IS NOT NULL, cancelled_at IS NOT NULL, topic
		FROM notes WHERE id = $1`, id).Scan(&n.Status, &n.Attempts, &due, &n.LockedUntil, &n.Token, &n.Error, &n.Completed, &n.Cancelled, &n.Topic)
	if errors.Is(err, pgx.ErrNoRows) {
		return noteRow{Status: -1}
	}
	if err != nil {
		r.Fatal(err)
	}
	n.DueIn = time.Duration(due * float64(time.Second))
	return n
}

// count counts rows.
func (r *rig) count(where string, args ...any) int {
	r.Helper()
	return ask[int](r, "SELECT count(*)::int FROM notes WHERE "+where, args...)
}

// eventually waits until a condition holds.
func (r *rig) eventually(what string, condition func() bool) {
	r.Helper()
	r.eventuallyWithin(patience, what, condition)
}

// eventuallyWithin is eventually for conditions that take longer.
func (r *rig) eventuallyWithin(limit time.Duration, what string, condition func() bool) {
	r.Helper()
	came := pgtest.Await(limit, func() bool { return r.Context().Err() != nil || condition() })
	if err := r.Context().Err(); err != nil {
		r.Fatal(err)
	}
	if !came {
		r.Fatalf("still waiting for: %s\ntable: %s\nlogs:\n%s", what, r.summary(), r.Logs.tail())
	}
}

func (r *rig) summary() string {
	var s string
	err := r.Eyes.QueryRow(context.Background(),
		`SELECT coalesce(string_agg(format('%s rows with status %s', n, status), ', '), 'empty')
		FROM (SELECT status, count(*) AS n FROM notes GROUP BY status ORDER BY status) AS g`).Scan(&s)
	if err != nil {
		return err.Error()
	}
	return s
}

// awaitStatus waits until every one of the rows has the status.
func (r *rig) awaitStatus(status workqueue.Status, ids ...uuid.UUID) {
	r.Helper()
	r.eventually(fmt.Sprintf("%d rows %v", len(ids), status), func() bool {
		return r.count("id = ANY($1) AND status = $2", ids, int(status)) == len(ids)
	})
}

// receive takes one value from a channel, or fails.
func receive[V any](t testing.TB, from <-chan V, what string) V {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("still waiting for: %s", what)
		panic("unreachable")
	}
}

// A running worker.
type running struct {
	*workqueue.Worker
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// start runs a worker until the test ends or stops it.
func (r *rig) start(o workqueue.WorkerOptions, handler workqueue.Handler[note]) *running {
	r.Helper()
	return r.startOn(r.Pool, r.Domain, o, handler)
}

func (r *rig) startOn(pool *pgxpool.Pool, domain workqueue.Domain[note], o workqueue.WorkerOptions,
	handler workqueue.Handler[note]) *running {
	r.Helper()
	w, err := workqueue.NewWorker(pool, domain, handler, o)
	if err != nil {
		r.Fatal(err)
	}
	return r.run(w)
}

// run runs a worker until the test ends or stops it.
func (r *rig) run(w *workqueue.Worker) *running {
	r.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	run := &running{Worker: w, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(run.done)
		run.err = w.Run(ctx)
	}()
	r.Cleanup(func() {
		cancel()
		<-run.done
	})
	return run
}

// stop ends the worker and returns what Run returned.
func (w *running) stop(t testing.TB) error {
	t.Helper()
	w.cancel()
	return w.wait(t)
}

func (w *running) wait(t testing.TB) error {
	t.Helper()
	select {
	case <-w.done:
		return w.err
	case <-time.After(patience):
		t.Fatal("Run does not return")
		panic("unreachable")
	}
}

// eventLog records the events of an Observer.
type eventLog struct {
	mu     sync.Mutex
	events []workqueue.Event
}

func (l *eventLog) observe(_ context.Context, e workqueue.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

func (l *eventLog) count(match func(workqueue.Event) bool) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, e := range l.events {
		if match(e) {
			n++
		}
	}
	return n
}

func operation(name string) func(workqueue.Event) bool {
	return func(e workqueue.Event) bool { return e.Operation == name }
}

// refused matches an operation that ended with the error.
func refused(name string, target error) func(workqueue.Event) bool {
	return func(e workqueue.Event) bool { return e.Operation == name && errors.Is(e.Err, target) }
}

// logBuffer is a writer for logs that may be read at the same time.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *logBuffer) tail() string {
	lines := strings.Split(b.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
