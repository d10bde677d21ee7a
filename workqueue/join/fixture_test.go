package join_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/internal/sdktest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(sdktest.Under(m)) }

// stepSpec is the Spec of a domain table with joins. A row has one attempt, unless a test changes that.
func stepSpec(schema string) workqueue.Spec {
	return workqueue.Spec{
		Schema:      schema,
		Table:       "steps",
		Columns:     []workqueue.Column{{Name: "name", Type: "text", NotNull: true}, join.Column},
		Sweeps:      []string{join.Sweep},
		Folds:       []workqueue.Fold{join.Fold},
		MaxAttempts: 1,
		Retry:       workqueue.Retry{Growth: workqueue.Constant},
	}
}

func deleteDone(s *workqueue.Spec) { s.DeleteDone = true }

// never is a due time that no test reaches. A test that claims rows makes them due first.
var never = time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)

// A fixture is a table with joins in a schema of its own.
type fixture struct {
	testing.TB
	*pgtest.DB
	table *workqueue.Table
	queue *workqueue.Queue
	joins *join.Joins
}

func newFixture(t testing.TB, configure ...func(*workqueue.Spec)) *fixture {
	t.Helper()
	db := pgtest.New(t, pgtest.Reused)
	spec := stepSpec(db.Schema)
	for _, change := range configure {
		change(&spec)
	}
	table, err := workqueue.Open(spec, workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	joins, err := join.Open(table)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{TB: t, DB: db, table: table, queue: table.On(db.Pool), joins: joins}
	db.Define(t, ddl(t, spec))
	return f
}

// ddl is the migration of the domain table.
func ddl(t testing.TB, spec workqueue.Spec) string {
	t.Helper()
	table, _, err := spec.DDL()
	if err != nil {
		t.Fatal(err)
	}
	joins, _, err := join.DDL(spec)
	if err != nil {
		t.Fatal(err)
	}
	return table + joins
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) exec(query string, args ...any) {
	f.Helper()
	if _, err := f.Pool.Exec(f.Context(), query, args...); err != nil {
		f.Fatalf("%s: %v", query, err)
	}
}

// ask returns the one value of a query.
func ask[V any](f *fixture, query string, args ...any) (v V) {
	f.Helper()
	if err := f.Pool.QueryRow(f.Context(), query, args...).Scan(&v); err != nil {
		f.Fatalf("%s: %v", query, err)
	}
	return v
}

// inTx runs work in a transaction that commits.
func (f *fixture) inTx(work func(tx workqueue.Tx) error) error {
	return pgx.BeginFunc(f.Context(), f.Pool, func(tx pgx.Tx) error { return work(workqueue.Pgx(tx)) })
}

// insert writes n rows that are not due.
func (f *fixture) insert(ctx context.Context, tx workqueue.Tx, n int, change func(*workqueue.NewRow)) ([]uuid.UUID,
	error) {
	rows := make([]workqueue.NewRow, n)
	for i := range rows {
		rows[i] = workqueue.NewRow{DueAt: never, Values: []any{"step", true}}
		if change != nil {
			change(&rows[i])
		}
	}
	inserted, err := f.table.Insert(ctx, tx, rows...)
	ids := make([]uuid.UUID, len(inserted))
	for i, in := range inserted {
		ids[i] = in.ID
	}
	return ids, err
}

func waiting(r *workqueue.NewRow) { r.Waiting = true }

// steps inserts n rows in a separate transaction.
func (f *fixture) steps(n int, change ...func(*workqueue.NewRow)) (ids []uuid.UUID) {
	f.Helper()
	f.ok(f.inTx(func(tx workqueue.Tx) (err error) {
		ids, err = f.insert(f.Context(), tx, n, func(r *workqueue.NewRow) {
			for _, c := range change {
				c(r)
			}
		})
		return err
	}))
	return ids
}

// A fan is a join with its steps and continuations.
type fan struct {
	id                 uuid.UUID
	members            []uuid.UUID
	onComplete, onFail uuid.UUID
}

// fan starts a join over n new rows with both continuations, in one transaction.
func (f *fixture) fan(n int, change ...func(*join.Join)) (fan fan) {
	f.Helper()
	f.ok(f.inTx(func(tx workqueue.Tx) error {
		members, err := f.insert(f.Context(), tx, n, nil)
		if err != nil {
			return err
		}
		next, err := f.insert(f.Context(), tx, 2, waiting)
		if err != nil {
			return err
		}
		j := join.Join{Members: members, OnComplete: next[0], OnFail: next[1]}
		for _, c := range change {
			c(&j)
		}
		fan.members, fan.onComplete, fan.onFail = j.Members, j.OnComplete, j.OnFail
		ids, err := f.joins.Start(f.Context(), tx, j)
		if err == nil {
			fan.id = ids[0]
		}
		return err
	}))
	return fan
}

func policy(p join.Policy) func(*join.Join) { return func(j *join.Join) { j.Policy = p } }

// start starts joins in a separate transaction.
func (f *fixture) start(joins ...join.Join) (ids []uuid.UUID, err error) {
	err = f.inTx(func(tx workqueue.Tx) error {
		ids, err = f.joins.Start(f.Context(), tx, joins...)
		return err
	})
	return ids, err
}

// state folds all notes and reads a join.
func (f *fixture) state(id uuid.UUID) (s join.State) {
	f.Helper()
	f.fold()
	f.ok(f.inTx(func(tx workqueue.Tx) (err error) {
		s, err = f.joins.Get(f.Context(), tx, id)
		return err
	}))
	return s
}

// counts are the part of a join's state that most tests check.
type counts struct {
	status                  join.Status
	succeeded, failed, late int
}

func (f *fixture) want(id uuid.UUID, want counts) {
	f.Helper()
	s := f.state(id)
	if got := (counts{s.Status, s.Succeeded, s.Failed, s.Late}); got != want {
		f.Errorf("join is %+v, want %+v (%s)", got, want, s.LastError)
	}
}

// What may have happened to a continuation.
const (
	waits     = "waits"
	released  = "released"
	notNeeded = "not needed"
	cancelled = "cancelled"
	gone      = "gone"
)

// fate folds all notes and returns what has happened to a continuation.
func (f *fixture) fate(id uuid.UUID) (fate string) {
	f.Helper()
	f.fold()
	err := f.Pool.QueryRow(f.Context(), `SELECT CASE
			WHEN status = 0 AND waiting THEN 'waits'
			WHEN status = 0 THEN 'released'
			WHEN status = 2 AND cancelled_at IS NOT NULL AND attempts = 0 THEN 'not needed'
			WHEN status = 3 AND cancelled_at IS NOT NULL AND failed_at IS NOT NULL AND attempts = 0 THEN 'cancelled'
			ELSE 'status ' || status END
		FROM steps WHERE id = $1`, id).Scan(&fate)
	if errors.Is(err, pgx.ErrNoRows) {
		return gone
	}
	f.ok(err)
	if fate == notNeeded || fate == cancelled {
		if reason := ask[string](f, "SELECT coalesce(last_error, '') FROM steps WHERE id = $1", id); reason == "" {
			f.Errorf("%s is %s and does not say why", id, fate)
		}
	}
	return fate
}

// wantNext compares the fates of a join's continuations.
func (f *fixture) wantNext(fan fan, onComplete, onFail string) {
	f.Helper()
	if f.table.Spec().DeleteDone && onFail == notNeeded {
		onFail = gone
	}
	if got := f.fate(fan.onComplete); got != onComplete {
		f.Errorf("on complete: %s, want %s", got, onComplete)
	}
	if got := f.fate(fan.onFail); got != onFail {
		f.Errorf("on fail: %s, want %s", got, onFail)
	}
}

// claim makes rows due and claims them.
func (f *fixture) claim(ids ...uuid.UUID) (token uuid.UUID) {
	f.Helper()
	f.exec("UPDATE steps SET due_at = now() WHERE id = ANY ($1)", ids)
	token = workqueue.NewOwnerToken()
	f.fold()
	rows, err := f.queue.Claim(f.Context(), token, time.Minute, len(ids))
	f.ok(err)
	if len(rows) != len(ids) {
		f.Fatalf("claimed %d rows of %d", len(rows), len(ids))
	}
	return token
}

// ack settles rows as done.
func (f *fixture) ack(ids ...uuid.UUID) {
	f.Helper()
	_, err := f.queue.Ack(f.Context(), f.claim(ids...), ids)
	f.ok(err)
	f.fold()
}

// fail settles rows as failed.
func (f *fixture) fail(ids ...uuid.UUID) {
	f.Helper()
	_, err := f.queue.Fail(f.Context(), f.claim(ids...), ids, "no good")
	f.ok(err)
	f.fold()
}

// fold folds, as workers do after their settles, until no note is due.
func (f *fixture) fold() {
	f.Helper()
	_, err := f.queue.Fold(f.Context())
	f.ok(err)
}

// sweep sweeps and folds, as workers and the reaper do, and returns how many joins the sweep handled.
func (f *fixture) sweep() (joins int) {
	f.Helper()
	joins = ask[int](f, "SELECT steps_join_sweep(100)")
	f.fold()
	return joins
}

// lookNow makes the next sweep look at every join.
func (f *fixture) lookNow() {
	f.Helper()
	f.exec("UPDATE steps_join SET look_at = now() - interval '1 second'")
}

func isDeadlock(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "40P01"
}
