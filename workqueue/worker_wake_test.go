package workqueue_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
)

// The two ways in which a worker learns of rows. A test that runs with both isolates each of them by turning the other
// off.
var wakeModes = map[string]workqueue.WorkerOptions{
	"notifications": {PollInterval: time.Hour},
	"polling":       {PollInterval: 50 * time.Millisecond, NoListen: true},
}

func ackAll(context.Context, *noteClaim) error { return nil }

// startIdle starts a worker that has nothing to do and waits until it listens, if it does.
func (r *rig) startIdle(o workqueue.WorkerOptions, handler workqueue.Handler[note]) *running {
	r.Helper()
	first := r.insert("warm up")
	w := r.start(o, handler)
	if !o.NoListen {
		r.awaitListener()
	}
	r.awaitStatus(workqueue.Done, first...)
	return w
}

func (r *rig) awaitListener() {
	r.Helper()
	r.eventually("a listener", func() bool {
		return ask[bool](r, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query = $1)", `LISTEN "`+r.Table.Name()+
			`"`)
	})
}

// Rows that no handler has begun are given back, as at the end of a process. Other processes claim them at once, and
// each row of one settle is announced.
func TestReleasedRowsAreTakenByOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	ids, owner := r.insertMany("held", 3), workqueue.NewOwnerToken()
	q := r.Queue
	if held, err := q.Claim(t.Context(), owner, time.Minute, len(ids)); err != nil || len(held) != len(ids) {
		t.Fatalf("%d rows are claimed, %v", len(held), err)
	}
	r.startIdle(workqueue.WorkerOptions{PollInterval: time.Hour}, ackAll)
	if _, err := q.Release(t.Context(), owner, ids); err != nil {
		t.Fatal(err)
	}
	r.awaitStatus(workqueue.Done, ids...)
	if n := r.count("attempts <> 1"); n > 0 {
		t.Errorf("%d rows were attempted more than once", n)
	}
}

// A transaction that began before others and commits after the cursor has passed its rows.
func TestLateCommitIsPickedUp(t *testing.T) {
	t.Parallel()
	for name, options := range wakeModes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{})
			r.startIdle(options, ackAll)
			for range 5 {
				late, err := r.Eyes.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				ids, err := r.insertIn(late, workqueue.NewRow{Values: []any{"late", ""}})
				if err != nil {
					t.Fatal(err)
				}
				r.awaitStatus(workqueue.Done, r.insertMany("early", 30)...)
				if err := late.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
				r.awaitStatus(workqueue.Done, ids...)
			}
		})
	}
}

// The same while the queue is never empty, so that no claim returns fewer rows than its limit.
func TestLateCommitIsPickedUpUnderLoad(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	late, err := r.Eyes.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ids, err := r.insertIn(late, workqueue.NewRow{Values: []any{"late", ""}})
	if err != nil {
		t.Fatal(err)
	}
	r.insertMany("backlog", 4000)
	var committed atomic.Bool
	var after atomic.Int32 // rows of the backlog that were handled after the commit and before the late row
	passed := make(chan struct{})
	var once sync.Once
	r.start(workqueue.WorkerOptions{NoListen: true, Concurrency: 1}, func(ctx context.Context, c *noteClaim) error {
		switch {
		case c.Body.Topic == "late":
			committed.Store(false)
		case committed.Load():
			after.Add(1)
		default:
			once.Do(func() { close(passed) })
		}
		return nil
	})
	receive(t, passed, "the cursor to pass the late row")
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	committed.Store(true)
	r.awaitStatus(workqueue.Done, ids...)
	r.eventually("the backlog", func() bool { return r.count("status <> 2") == 0 })
	t.Logf("%d rows of the backlog went before the late one", after.Load())
}

// Rows return to their old place behind every cursor, and no notification announces them.
func TestReleasedRowsAreFound(t *testing.T) {
	t.Parallel()
	for name, listen := range map[string]bool{"listening": true, "polling": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{})
			ids := r.insertMany("released", 50)
			token := workqueue.NewOwnerToken()
			if rows, err := r.Queue.Claim(t.Context(), token, time.Hour, 100); err != nil || len(rows) != 50 {
				t.Fatalf("claimed %d, %v", len(rows), err)
			}
			r.startIdle(workqueue.WorkerOptions{PollInterval: 50 * time.Millisecond, NoListen: !listen}, ackAll)
			r.awaitStatus(workqueue.Done, r.insertMany("newer", 50)...)
			if released, err := r.Queue.Release(t.Context(), token, ids); err != nil || len(released) != 50 {
				t.Fatalf("released %d, %v", len(released), err)
			}
			r.awaitStatus(workqueue.Done, ids...)
			if n := r.count("attempts <> 1"); n > 0 {
				t.Errorf("%d rows have not got their attempt back", n)
			}
		})
	}
}

// Every statement that makes a row ready wakes an idle listening worker.
func TestEveryReturnToReadyIsAnnounced(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.startIdle(workqueue.WorkerOptions{PollInterval: time.Hour}, ackAll)
	asOwner := func(settle func(token uuid.UUID, ids []uuid.UUID) error) func(ids []uuid.UUID) error {
		return func(ids []uuid.UUID) error {
			token := workqueue.NewOwnerToken()
			// As if another worker had it, unnoticed by the one that runs.
			r.exec(`UPDATE notes SET status = 1, completed_at = NULL, attempts = 1, owner_token = $2,
				due_at = now(), locked_until = now() + interval '1 hour' WHERE id = ANY($1)`, ids, token)
			return settle(token, ids)
		}
	}
	for name, ready := range map[string]func(ids []uuid.UUID) error{
		"reaped": asOwner(func(_ uuid.UUID, ids []uuid.UUID) error {
			r.exec("UPDATE notes SET locked_until = now() - interval '1 second' WHERE id = ANY($1)", ids)
			_, err := r.Queue.ReapExpired(t.Context(), 100)
			return err
		}),
		"redriven": asOwner(func(token uuid.UUID, ids []uuid.UUID) error {
			if _, err := r.Queue.Fail(t.Context(), token, ids, "no"); err != nil {
				return err
			}
			_, err := r.Queue.Redrive(t.Context(), ids, "me")
			return err
		}),
	} {
		t.Run(name, func(t *testing.T) {
			ids := r.insert(name)
			r.awaitStatus(workqueue.Done, ids...)
			if err := ready(ids); err != nil {
				t.Fatal(err)
			}
			r.awaitStatus(workqueue.Done, ids...)
		})
	}
}

// Whatever payload is sent on the channel, the worker looks and goes on.
func TestAnyNotificationWakes(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.startIdle(workqueue.WorkerOptions{PollInterval: time.Hour}, ackAll)
	for _, payload := range []string{
		"", "garbage", "12.5", " 1", "1e9", "99999999999999999999", "-1", "0", "-9000000000000000000",
		"9000000000000000000",
		"-62135596800000000", "NaN", strings.Repeat("9", 7000), "cancelled", "\u0000"[:0], "ünïcode",
	} {
		// The row's own announcement is kept back, so that only the payload can wake the worker.
		var ids []uuid.UUID
		err := pgx.BeginFunc(t.Context(), r.Eyes, func(tx pgx.Tx) (err error) {
			if _, err = tx.Exec(t.Context(), "ALTER TABLE notes DISABLE TRIGGER USER"); err != nil {
				return err
			}
			ids, err = r.insertIn(tx, workqueue.NewRow{Values: []any{"unannounced", ""}})
			if err != nil {
				return err
			}
			_, err = tx.Exec(t.Context(), "ALTER TABLE notes ENABLE TRIGGER USER")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		r.exec("SELECT pg_notify($1, $2)", r.Table.Name(), payload)
		r.awaitStatus(workqueue.Done, ids...)
	}
	r.awaitStatus(workqueue.Done, r.insert("afterwards")...)
	if strings.Contains(r.Logs.String(), "level=ERROR") {
		t.Errorf("a payload made the worker fail:\n%s", r.Logs.tail())
	}
}

// Rows that were announced while the listener was disconnected are found when it is back.
func TestListenerComesBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.startIdle(workqueue.WorkerOptions{PollInterval: time.Hour}, ackAll)
	for range 3 {
		n := ask[int](r, "SELECT count(pg_terminate_backend(pid))::int FROM pg_stat_activity WHERE query = $1",
			`LISTEN "`+r.Table.Name()+`"`)
		if n != 1 {
			t.Fatalf("%d listeners", n)
		}
		r.awaitStatus(workqueue.Done, r.insert("unheard")...)
		r.awaitListener()
	}
}

// A row in the future runs when it is due by the database's clock, however long the poll interval.
func TestDueRowsRunOnTime(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	early := make(chan time.Time, 100)
	r.startIdle(workqueue.WorkerOptions{PollInterval: time.Hour}, func(_ context.Context, c *noteClaim) error {
		if now := ask[time.Time](r, "SELECT clock_timestamp()"); now.Before(c.DueAt) {
			early <- c.DueAt
		}
		return nil
	})
	var rows []workqueue.NewRow
	now := ask[time.Time](r, "SELECT clock_timestamp()")
	for i := range 40 {
		rows = append(rows, workqueue.NewRow{DueAt: now.Add(time.Duration(i*13) * time.Millisecond),
			Values: []any{"due", ""}})
	}
	r.awaitStatus(workqueue.Done, r.insertRows(rows...)...)
	if n := len(early); n > 0 {
		t.Errorf("%d rows ran before they were due", n)
	}
}

// A row may become due between a claim and the question for the next due time. It belongs to neither, unless the
// question looks back as far as the claim.
func TestRowThatBecomesDueBetweenClaimAndNextWake(t *testing.T) {
	t.Parallel()
	var r *rig
	var armed atomic.Pointer[uuid.UUID]
	pause := batchHook(func(sql string) {
		id := armed.Load()
		if id == nil || !strings.Contains(sql, "extract(epoch FROM r.due_at") {
			return
		}
		r.eventually("it is due", func() bool {
			return ask[bool](r, "SELECT due_at < clock_timestamp() - interval '50 milliseconds' FROM notes WHERE id = $1", id)
		})
	})
	r = newRig(t, rigOptions{pool: func(c *pgxpool.Config) { c.ConnConfig.Tracer = pause }})
	w := r.startIdle(workqueue.WorkerOptions{PollInterval: time.Hour, NoListen: true}, ackAll)
	for range 3 {
		id := r.insertRows(workqueue.NewRow{
			DueAt:  ask[time.Time](r, "SELECT clock_timestamp() + interval '300 milliseconds'"),
			Values: []any{"due", ""},
		})[0]
		armed.Store(&id)
		w.Wake() // its claim comes too early, its next question too late
		r.awaitStatus(workqueue.Done, id)
		armed.Store(nil)
	}
}

// batchHook is called before every batch that a pool sends. The worker sends its own statements in batches.
type batchHook func(sql string)

func (h batchHook) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	var all strings.Builder
	for _, q := range data.Batch.QueuedQueries {
		all.WriteString(q.SQL + "\n")
	}
	h(all.String())
	return ctx
}
func (batchHook) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (batchHook) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}
func (batchHook) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (batchHook) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A worker with nothing to do rests, whatever the table holds.
func TestIdleWorkerRests(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(r *rig){
		"nothing": func(*rig) {},
		"future row": func(r *rig) {
			r.insertRows(workqueue.NewRow{DueAt: time.Now().Add(time.Hour), Values: []any{"later", ""}})
		},
		"dead letter": func(r *rig) {
			r.awaitStatus(workqueue.Failed, r.insert("fail")...)
		},
		"expired lease of somebody else": func(r *rig) {
			id := r.insert("hold")[0]
			r.awaitStatus(workqueue.InProgress, id)
			r.exec("UPDATE notes SET owner_token = gen_random_uuid(), locked_until = now() - interval '1 hour' WHERE "+
				"id = $1", id)
		},
		"running handler": func(r *rig) { r.awaitStatus(workqueue.InProgress, r.insert("hold")...) },
		"every handler runs": func(r *rig) {
			r.insertMany("hold", 20)
			r.eventually("five handlers", func() bool { return r.count("status = 1") >= 5 })
		},
		"a due row that is locked": func(r *rig) {
			tx, err := r.Eyes.Begin(r.Context())
			if err != nil {
				r.Fatal(err)
			}
			r.Cleanup(func() { tx.Rollback(context.Background()) })
			ids, err := r.insertIn(tx, workqueue.NewRow{DueAt: time.Now().Add(50 * time.Millisecond),
				Values: []any{"locked", ""}})
			if err != nil {
				r.Fatal(err)
			}
			if err := tx.Commit(r.Context()); err != nil {
				r.Fatal(err)
			}
			if tx, err = r.Eyes.Begin(r.Context()); err != nil {
				r.Fatal(err)
			}
			if _, err := tx.Exec(r.Context(), "SELECT FROM notes WHERE id = $1 FOR UPDATE", ids[0]); err != nil {
				r.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var batches atomic.Int64
			r := newRig(t, rigOptions{pool: func(c *pgxpool.Config) {
				c.ConnConfig.Tracer = batchHook(func(string) { batches.Add(1) })
			}})
			release := make(chan struct{})
			defer close(release)
			r.startIdle(workqueue.WorkerOptions{Concurrency: 5, PollInterval: 500 * time.Millisecond,
				Lease: 10 * time.Second}, func(_ context.Context, c *noteClaim) error {
				switch c.Body.Topic {
				case "fail":
					return workqueue.Permanent(fmt.Errorf("no"))
				case "hold":
					<-release
				}
				return nil
			})
			prepare(r)
			start, before := time.Now(), batches.Load()
			<-time.After(1500 * time.Millisecond) // the test measures what happens while nothing is done
			polls := int64(time.Since(start)/(500*time.Millisecond)) + 1
			// A poll may ask, sweep and ask again; renewals come on top.
			if n := batches.Load() - before; n > 6*polls+10 {
				t.Errorf("%d transactions in %v of idleness, %d polls", n, time.Since(start), polls)
			}
		})
	}
}

// A handler never finds its own row unclaimed, because it is called after the claim has committed.
func TestHandlersSeeTheirClaim(t *testing.T) {
	t.Parallel()
	const rows = 1500
	r := newRig(t, rigOptions{pool: func(c *pgxpool.Config) { c.MaxConns = 16 }})
	r.insertMany("seen", rows/2)
	var handled atomic.Int32
	r.start(workqueue.WorkerOptions{Concurrency: 16, ClaimLimit: 200}, func(ctx context.Context, c *noteClaim) error {
		var status workqueue.Status
		var token uuid.UUID
		var attempts int
		err := r.Pool.QueryRow(ctx, "SELECT status, owner_token, attempts FROM notes WHERE id = $1", c.ID).Scan(&status,
			&token, &attempts)
		if err != nil || status != workqueue.InProgress || token != c.Token || attempts != c.Attempt {
			t.Errorf("a handler finds its row %v with token %v (its own is %v) in attempt %d, %v", status, token,
				c.Token, attempts, err)
		}
		handled.Add(1)
		return nil
	})
	for range 5 {
		r.insertMany("seen", rows/10)
	}
	r.eventually("all rows", func() bool { return r.count("status = 2") == rows })
	if n := handled.Load(); n != rows {
		t.Errorf("%d handler calls for %d rows", n, rows)
	}
}
