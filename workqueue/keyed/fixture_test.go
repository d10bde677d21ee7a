package keyed_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

const patience = pgtest.Patience

// A rig is a table with keyed rows.
type rig struct {
	*testing.T
	pool  *pgxpool.Pool
	table *workqueue.Table
	queue *workqueue.Queue
}

func spec(schema string) workqueue.Spec {
	return workqueue.Spec{
		Schema: schema,
		Table:  "work",
		Columns: append([]workqueue.Column{{Name: "n", Type: "bigint", NotNull: true}},
			workqueue.ColumnsOf(keys)...),
		Sweeps:      []string{keyed.SweepSuffix},
		Folds:       []workqueue.Fold{keyed.Fold},
		KeyColumn:   keyed.KeyColumn,
		Retry:       workqueue.Retry{Growth: workqueue.Constant},
		MaxAttempts: 3,
	}
}

func newRig(t *testing.T, change ...func(*workqueue.Spec)) *rig {
	t.Helper()
	db := pgtest.New(t, pgtest.Reused)
	s := spec(db.Schema)
	for _, f := range change {
		f(&s)
	}
	table, err := workqueue.Open(s, workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, pool: db.Pool, table: table, queue: table.On(db.Pool)}
	core, _, err := s.DDL()
	r.ok(err)
	rules, _, err := keyed.DDL(s)
	r.ok(err)
	db.Define(t, core+rules)
	return r
}

func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) exec(sql string, args ...any) {
	r.Helper()
	_, err := r.pool.Exec(context.Background(), sql, args...)
	r.ok(err)
}

// atOnce executes a statement, and fails the test if it waits for a lock.
func (r *rig) atOnce(sql string) {
	r.Helper()
	r.ok(pgx.BeginFunc(context.Background(), r.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(context.Background(), "SET LOCAL lock_timeout = '2s'")
		if err == nil {
			_, err = tx.Exec(context.Background(), sql)
		}
		return err
	}))
}

func ask[V any](r *rig, sql string, args ...any) (v V) {
	r.Helper()
	r.ok(r.pool.QueryRow(context.Background(), sql, args...).Scan(&v))
	return v
}

func row(n int, g keyed.Rule) workqueue.NewRow {
	return workqueue.NewRow{Values: append([]any{n}, keyValues(g)...)}
}

// held is a row that waits for something else first, such as a join.
func held(n int, g keyed.Rule) workqueue.NewRow {
	r := row(n, g)
	r.Waiting = true
	return r
}

// late is a row that is due in an hour.
func late(n int, g keyed.Rule) workqueue.NewRow {
	r := row(n, g)
	r.DueAt = time.Now().Add(time.Hour)
	return r
}

// serial is an ordered key that its dead letters do not block.
func serial(key string) keyed.Rule { return keyed.Ordered{Key: key, OnFailure: keyed.Skip} }

func (r *rig) insertIn(tx pgx.Tx, rows ...workqueue.NewRow) []uuid.UUID {
	r.Helper()
	inserted, err := r.table.Insert(context.Background(), workqueue.Pgx(tx), rows...)
	r.ok(err)
	ids := make([]uuid.UUID, len(inserted))
	for i, in := range inserted {
		ids[i] = in.ID
	}
	return ids
}

func (r *rig) insert(rows ...workqueue.NewRow) (ids []uuid.UUID) {
	r.Helper()
	r.ok(pgx.BeginFunc(context.Background(), r.pool, func(tx pgx.Tx) error {
		ids = r.insertIn(tx, rows...)
		return nil
	}))
	return ids
}

func (r *rig) begin() pgx.Tx {
	r.Helper()
	tx, err := r.pool.Begin(context.Background())
	r.ok(err)
	r.Cleanup(func() { tx.Rollback(context.Background()) })
	return tx
}

// claim folds, as a worker does, and claims all rows it can.
func (r *rig) claim() (token uuid.UUID, ns []int, ids []uuid.UUID) {
	r.Helper()
	r.fold()
	token = workqueue.NewOwnerToken()
	rows, err := r.queue.Claim(context.Background(), token, time.Minute, 100)
	r.ok(err)
	for _, row := range rows {
		ns = append(ns, int(row.Values[0].(int64)))
		ids = append(ids, row.ID)
	}
	return token, ns, ids
}

// expect claims rows and compares them with those that are wanted.
func (r *rig) expect(want ...int) (uuid.UUID, []uuid.UUID) {
	r.Helper()
	token, ns, ids := r.claim()
	if fmt.Sprint(ns) != fmt.Sprint(want) {
		r.Fatalf("claimed %v, want %v\n%s", ns, want, r.dump())
	}
	return token, ids
}

// fold releases the rows that their keys have room for, and returns how many.
func (r *rig) fold() int {
	r.Helper()
	before := r.through()
	_, err := r.queue.Fold(context.Background())
	r.ok(err)
	return r.through() - before
}

func (r *rig) through() int {
	r.Helper()
	return ask[int](r, "SELECT count(*) FROM work WHERE completed_at IS NULL AND NOT waiting")
}

// sweep runs a sweep now, even if the last one was less than five seconds ago.
func (r *rig) sweep() {
	r.Helper()
	r.exec("UPDATE work_key_cursor SET swept_at = '-infinity'")
	_, err := r.queue.Sweep(context.Background(), 1000)
	r.ok(err)
}

func (r *rig) dump() string {
	return ask[string](r,
		`SELECT coalesce(string_agg(format('n %s status %s waiting %s key %s seq %s due in %s error %s', n, status, waiting, concurrency_key, key_seq,
		due_at - clock_timestamp(), last_error), E'\n' ORDER BY n), 'empty') FROM work`)
}

func (r *rig) eventually(what string, condition func() bool) {
	r.Helper()
	if !pgtest.Await(patience, condition) {
		r.Fatalf("still waiting for: %s\n%s", what, r.dump())
	}
}

// A body is the domain columns of a claimed row.
type body struct {
	N   int64
	Key *string
}

func (b *body) columns(c *workqueue.Columns) {
	c.Field(workqueue.Column{Name: "n"}, &b.N)
	c.Field(workqueue.Column{Name: keyed.KeyColumn}, &b.Key)
}

// keys are the columns of a rule, and keyValues their values.
func keys(r *keyed.Rule, c *workqueue.Columns) { keyed.Columns(c, *r) }

func keyValues(r keyed.Rule) []any { return workqueue.ValuesOf(&r, keys) }

// work runs a worker until the test ends.
func (r *rig) work(o workqueue.WorkerOptions, handle workqueue.Handler[body]) {
	r.Helper()
	r.workIn(nil, o, handle)
}

// workIn runs a worker of some lanes of a table with a queue and a priority.
func (r *rig) workIn(lanes [][]any, o workqueue.WorkerOptions, handle workqueue.Handler[body]) {
	r.Helper()
	d := workqueue.Domain[body]{Table: r.table, Columns: (*body).columns, Lanes: lanes}
	if lanes != nil {
		d.Columns = func(b *body, c *workqueue.Columns) {
			b.columns(c)
			c.Field(workqueue.Column{Name: "queue"}, nil)
			c.Field(workqueue.Column{Name: "priority"}, nil)
		}
	}
	w, err := workqueue.NewWorker(r.pool, d, handle, o)
	r.ok(err)
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		if err := w.Run(ctx); err != nil {
			r.Error(err)
		}
	})
	r.Cleanup(func() { cancel(); done.Wait() })
}
