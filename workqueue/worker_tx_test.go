package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// newLedgerRig adds a table that handlers write to.
func newLedgerRig(t *testing.T, o rigOptions) *rig {
	t.Helper()
	r := newRig(t, o)
	r.createLedger()
	return r
}

func (r *rig) createLedger() {
	r.Helper()
	r.exec(`CREATE TABLE ledger (note uuid NOT NULL, attempt int NOT NULL, weight int CHECK (weight > 0),
		once text UNIQUE DEFERRABLE INITIALLY DEFERRED)`)
}

func book(ctx context.Context, tx pgx.Tx, c *noteClaim) error {
	_, err := tx.Exec(ctx, "INSERT INTO ledger (note, attempt) VALUES ($1, $2)", c.ID, c.Attempt)
	return err
}

// booked returns how often the ledger has the row.
func (r *rig) booked(id uuid.UUID) int {
	r.Helper()
	return ask[int](r, "SELECT count(*)::int FROM ledger WHERE note = $1", id)
}

// The writes commit if and only if the settle does, whatever the outcome.
func TestTxSettlesEveryOutcome(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	cases := map[string]struct {
		result func() error
		want   rowWant
		booked int
	}{
		"nil": {func() error { return nil }, rowWant{status: workqueue.Done, attempts: 1}, 1},
		"permanent": {func() error { return workqueue.Permanent(boom) }, rowWant{workqueue.Failed, 1, 0, "boom",
			false}, 1},
		"wrapped": {func() error { return fmt.Errorf("so: %w", workqueue.Permanent(boom)) },
			rowWant{workqueue.Failed, 1, 0, "boom", false}, 1},
		"cancelled": {func() error { return workqueue.Cancelled("no") }, rowWant{workqueue.Failed, 1, 0,
			"cancelled: no", true}, 1},
		"snooze": {func() error { return workqueue.Snooze(2 * time.Hour) }, rowWant{workqueue.Ready, 0,
			2 * time.Hour, "", false}, 1},
		"retry after": {func() error { return workqueue.RetryAfter(2*time.Hour, boom) }, rowWant{workqueue.Ready, 1,
			2 * time.Hour, "boom", false}, 1},
		"retry by policy": {func() error { return workqueue.RetryByPolicy(boom) }, rowWant{workqueue.Ready, 1,
			time.Hour, "boom", false}, 1},
		"plain error": {func() error { return boom }, rowWant{workqueue.Ready, 1, time.Hour, "boom", false}, 0},
		"panic":       {func() error { panic("kaboom") }, rowWant{workqueue.Ready, 1, time.Hour, "kaboom", false}, 0},
	}
	for _, deleteDone := range []bool{false, true} {
		t.Run(fmt.Sprintf("deleting=%v", deleteDone), func(t *testing.T) {
			t.Parallel()
			r := newLedgerRig(t, rigOptions{spec: func(s *workqueue.Spec) {
				s.Retry, s.DeleteDone = never,
					deleteDone
			}})
			r.start(workqueue.WorkerOptions{}, func(ctx context.Context, c *noteClaim) error {
				return c.Tx(ctx, func(tx pgx.Tx) error {
					if err := book(ctx, tx, c); err != nil {
						return err
					}
					return cases[c.Body.Topic].result()
				})
			})
			for name, c := range cases {
				id := r.insert(name)[0]
				var got noteRow
				r.eventually(name, func() bool {
					got = r.row(id)
					return got.Status != workqueue.InProgress && (got.Status != workqueue.Ready ||
						got.DueIn > time.Minute)
				})
				switch {
				case got.Status == -1 && deleteDone && c.want.status == workqueue.Done: // its ack deleted it
				default:
					c.want.check(t, got)
				}
				if n := r.booked(id); n != c.booked {
					t.Errorf("%s: booked %d times, want %d", name, n, c.booked)
				}
			}
		})
	}
}

// What a handler does with the result of Tx, and what becomes of the row then.
func TestTxAndTheHandlersResult(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	inTx := func(ctx context.Context, c *noteClaim, result error) error {
		return c.Tx(ctx, func(tx pgx.Tx) error { return errors.Join(book(ctx, tx, c), result) })
	}
	breakTx := func(ctx context.Context, c *noteClaim, result error) error {
		return c.Tx(ctx, func(tx pgx.Tx) error {
			if err := book(ctx, tx, c); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "INSERT INTO ledger (note, attempt, weight) VALUES ($1, 1, -1)",
				c.ID); err == nil {
				return errors.New("the statement was to fail")
			}
			return result
		})
	}
	cases := map[string]struct {
		handle func(ctx context.Context, c *noteClaim) error
		want   rowWant
		booked int
	}{
		"an error after a commit changes nothing": {func(ctx context.Context, c *noteClaim) error {
			return errors.Join(inTx(ctx, c, nil), boom)
		}, rowWant{status: workqueue.Done, attempts: 1}, 1},
		"an outcome after a commit changes nothing": {func(ctx context.Context, c *noteClaim) error {
			return errors.Join(inTx(ctx, c, nil), workqueue.Permanent(boom))
		}, rowWant{status: workqueue.Done, attempts: 1}, 1},
		"a panic after a commit changes nothing": {func(ctx context.Context, c *noteClaim) error {
			if err := inTx(ctx, c, nil); err == nil {
				panic("too late")
			}
			return nil
		}, rowWant{status: workqueue.Done, attempts: 1}, 1},
		"an error that is dropped does not ack": {func(ctx context.Context, c *noteClaim) error {
			inTx(ctx, c, boom)
			return nil
		}, rowWant{workqueue.Ready, 1, time.Hour, "boom", false}, 0},
		"a panic that is recovered does not ack": {func(ctx context.Context, c *noteClaim) error {
			defer func() { recover() }()
			return c.Tx(ctx, func(tx pgx.Tx) error {
				book(ctx, tx, c)
				panic("contained by the handler")
			})
		}, rowWant{workqueue.Ready, 1, time.Hour, "panicked", false}, 0},
		"a second Tx is refused": {func(ctx context.Context, c *noteClaim) error {
			first, second := inTx(ctx, c, nil), inTx(ctx, c, nil)
			if second == nil || !strings.Contains(second.Error(), "settled already") {
				t.Errorf("the second Tx: %v", second)
			}
			return first
		}, rowWant{status: workqueue.Done, attempts: 1}, 1},
		"a Tx after a failed one may succeed": {func(ctx context.Context, c *noteClaim) error {
			if err := inTx(ctx, c, boom); !errors.Is(err, boom) {
				t.Errorf("the first Tx: %v", err)
			}
			return inTx(ctx, c, nil)
		}, rowWant{status: workqueue.Done, attempts: 1}, 1},
		"an outcome after a failed Tx is the handler's": {func(ctx context.Context, c *noteClaim) error {
			inTx(ctx, c, boom)
			return workqueue.Snooze(2 * time.Hour)
		}, rowWant{workqueue.Ready, 0, 2 * time.Hour, "", false}, 0},
		"a failed statement that is ignored does not ack": {func(ctx context.Context, c *noteClaim) error {
			return breakTx(ctx, c, nil)
		}, rowWant{workqueue.Ready, 1, time.Hour, "rolled back", false}, 0},
		"permanent in an aborted transaction": {func(ctx context.Context, c *noteClaim) error {
			return breakTx(ctx, c, workqueue.Permanent(boom))
		}, rowWant{workqueue.Failed, 1, 0, "boom", false}, 0},
		"permanent in an aborted transaction, dropped": {func(ctx context.Context, c *noteClaim) error {
			breakTx(ctx, c, workqueue.Permanent(boom))
			return nil
		}, rowWant{workqueue.Failed, 1, 0, "boom", false}, 0},
		"snooze in an aborted transaction": {func(ctx context.Context, c *noteClaim) error {
			return breakTx(ctx, c, workqueue.Snooze(2*time.Hour))
		}, rowWant{workqueue.Ready, 0, 2 * time.Hour, "", false}, 0},
		"a commit that fails": {func(ctx context.Context, c *noteClaim) error {
			return c.Tx(ctx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO ledger (note, attempt, once) VALUES ($1, 1, 'x'), ($1, 1, 'x')",
					c.ID)
				return err
			})
		}, rowWant{workqueue.Ready, 1, time.Hour, "ledger_once_key", false}, 0},
		"a commit by the handler itself": {func(ctx context.Context, c *noteClaim) error {
			return c.Tx(ctx, func(tx pgx.Tx) error {
				if err := book(ctx, tx, c); err != nil {
					return err
				}
				if err := tx.Commit(ctx); err == nil {
					t.Error("the handler committed its writes without the settle")
				}
				return boom
			})
		}, rowWant{workqueue.Ready, 1, time.Hour, "boom", false}, 0},
		"a rollback by the handler itself": {func(ctx context.Context, c *noteClaim) error {
			return c.Tx(ctx, func(tx pgx.Tx) error {
				return errors.Join(book(ctx, tx, c), tx.Rollback(ctx))
			})
		}, rowWant{workqueue.Ready, 1, time.Hour, "ended by the handler", false}, 0},
		"a savepoint that is rolled back": {func(ctx context.Context, c *noteClaim) error {
			return c.Tx(ctx, func(tx pgx.Tx) error {
				failed := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
					_, err := tx.Exec(ctx, "INSERT INTO ledger (note, attempt, weight) VALUES ($1, 1, -1)", c.ID)
					return err
				})
				if failed == nil {
					t.Error("the savepoint's statement was to fail")
				}
				return book(ctx, tx, c)
			})
		}, rowWant{status: workqueue.Done, attempts: 1}, 1},
		"rows left open": {func(ctx context.Context, c *noteClaim) error {
			return c.Tx(ctx, func(tx pgx.Tx) error {
				_, err := tx.Query(ctx, "SELECT generate_series(1, 100000)")
				return err
			})
		}, rowWant{workqueue.Ready, 1, time.Hour, "busy", false}, 0},
		"a context that is over": {func(ctx context.Context, c *noteClaim) error {
			ctx, cancel := context.WithCancel(ctx)
			return c.Tx(ctx, func(tx pgx.Tx) error {
				err := book(ctx, tx, c)
				cancel()
				return err
			})
		}, rowWant{workqueue.Ready, 1, time.Hour, "context canceled", false}, 0},
	}
	r := newLedgerRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.Retry = never }})
	r.start(workqueue.WorkerOptions{}, func(ctx context.Context, c *noteClaim) error {
		return cases[c.Body.Topic].handle(ctx, c)
	})
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			id := r.insert(name)[0]
			var got noteRow
			r.eventually(name, func() bool {
				got = r.row(id)
				return got.Status != workqueue.InProgress && (got.Status != workqueue.Ready || got.DueIn > time.Minute)
			})
			c.want.check(t, got)
			if n := r.booked(id); n != c.booked {
				t.Errorf("booked %d times, want %d", n, c.booked)
			}
		})
	}
	// The worker's own statements, such as a claim, may have one for a moment.
	r.eventually("all connections of the pool are given back", func() bool { return r.Pool.Stat().AcquiredConns() == 0 })
}

// If a claim is lost while the handler's transaction is open, the writes are not committed.
func TestTxWritesNothingWhenTheLeaseIsLost(t *testing.T) {
	t.Parallel()
	thief := uuid.New()
	for name, c := range map[string]struct {
		steal string
		want  error
	}{
		"token changed": {"UPDATE notes SET owner_token = $2 WHERE id = $1", workqueue.ErrLeaseLost},
		"settled": {"UPDATE notes SET status = 2, completed_at = now(), locked_until = NULL, owner_token = $2 " +
			"WHERE id = $1", workqueue.ErrLeaseLost},
		"deleted": {"DELETE FROM notes WHERE id = $1 AND $2::uuid IS NOT NULL", workqueue.ErrGone},
	} {
		steal, want := c.steal, c.want
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newLedgerRig(t, rigOptions{})
			results := make(chan error, 1)
			causes := make(chan error, 1)
			r.start(workqueue.WorkerOptions{NoListen: true, Lease: time.Hour}, func(ctx context.Context,
				c *noteClaim) error {
				err := c.Tx(ctx, func(tx pgx.Tx) error {
					if err := book(ctx, tx, c); err != nil {
						return err
					}
					r.exec(steal, c.ID, thief)
					return nil
				})
				results <- err
				causes <- context.Cause(ctx)
				return nil
			})
			id := r.insert("stolen")[0]
			if err := receive(t, results, "Tx"); !errors.Is(err, want) {
				t.Errorf("Tx returned %v, want %v", err, want)
			}
			if err := receive(t, causes, "the context's cause"); !errors.Is(err, workqueue.ErrLeaseLost) {
				t.Errorf("the handler's context ended with %v, want ErrLeaseLost", err)
			}
			r.eventually("the refused settle", func() bool {
				return r.Events.count(func(e workqueue.Event) bool {
					return e.Operation == "settle" &&
						e.Err != nil
				}) >= 2
			})
			if n := r.booked(id); n != 0 {
				t.Errorf("booked %d times by a handler that had lost its lease", n)
			}
			if told := r.Events.outcomes()[id]; len(told) != 1 {
				t.Errorf("it is told %+v, want once", told)
			}
			if row := r.row(id); row.Status != -1 && (row.Token != thief || row.Error != "") {
				t.Errorf("the stale claim changed the row: %+v", row)
			}
		})
	}
}

// If a settle with the claim's own token was applied before, the writes that belong to it were committed with it.
func TestTxWritesNothingWhenItsSettleWasApplied(t *testing.T) {
	t.Parallel()
	r := newLedgerRig(t, rigOptions{})
	results := make(chan error, 1)
	r.start(workqueue.WorkerOptions{NoListen: true, Lease: time.Hour}, func(ctx context.Context, c *noteClaim) error {
		results <- c.Tx(ctx, func(tx pgx.Tx) error {
			r.exec("SELECT notes_ack(owner_token, ARRAY[id]) FROM notes WHERE id = $1", c.ID)
			return book(ctx, tx, c)
		})
		return nil
	})
	id := r.insert("settled")[0]
	if err := receive(t, results, "Tx"); !errors.Is(err, workqueue.ErrLeaseLost) {
		t.Errorf("Tx returned %v, want ErrLeaseLost", err)
	}
	r.awaitStatus(workqueue.Done, id)
	if n := r.booked(id); n != 0 {
		t.Errorf("booked %d times", n)
	}
}

// What a handler does after Tx does not depend on the lease: the row is settled.
func TestTxEndsTheLease(t *testing.T) {
	t.Parallel()
	for _, deleteDone := range []bool{false, true} {
		t.Run(fmt.Sprintf("deleting=%v", deleteDone), func(t *testing.T) {
			t.Parallel()
			r := newLedgerRig(t, rigOptions{spec: func(s *workqueue.Spec) { s.DeleteDone = deleteDone }})
			settled, release := make(chan context.Context, 1), make(chan struct{})
			r.start(workqueue.WorkerOptions{Lease: pgtest.Lease}, func(ctx context.Context, c *noteClaim) error {
				if c.Body.Topic == "settled" {
					if err := c.Tx(ctx, func(tx pgx.Tx) error { return book(ctx, tx, c) }); err != nil {
						return err
					}
					settled <- ctx
				}
				<-release
				return nil
			})
			r.insert("running", "settled")
			ctx := receive(t, settled, "Tx")
			before := r.Events.count(operation("extend"))
			r.eventually("renewals of the other row, for longer than a lease", func() bool {
				return r.Events.count(operation("extend")) >= before+4
			})
			if ctx.Err() != nil {
				t.Errorf("the context was cancelled after Tx: %v", context.Cause(ctx))
			}
			if n := r.Events.count(refused("extend", workqueue.ErrLeaseLost)) + r.Events.count(refused("extend",
				workqueue.ErrGone)); n > 0 {
				t.Errorf("%d renewals of the settled claim", n)
			}
			close(release)
		})
	}
}

// Whatever isolation level the sessions default to, a renewal while the handler's transaction is open is not a
// conflict. Otherwise a handler that takes longer than a renewal could never settle.
func TestTxUnderStricterDefaults(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			r := newLedgerRig(t, rigOptions{pool: func(c *pgxpool.Config) {
				c.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
			}})
			r.start(workqueue.WorkerOptions{Lease: pgtest.Lease}, func(ctx context.Context, c *noteClaim) error {
				return c.Tx(ctx, func(tx pgx.Tx) error {
					if err := book(ctx, tx, c); err != nil {
						return err
					}
					if c.Body.Topic == "long" {
						r.awaitRenewals(c.ID, 2)
					}
					return nil
				})
			})
			ids := append(r.insert("long"), r.insertMany("quick", 50)...)
			r.awaitStatus(workqueue.Done, ids...)
			// If the machine stands still for longer than the lease, a row may also be retried.
			if n := r.count("attempts > 1 AND last_error NOT LIKE 'lease lost%'"); n != 0 {
				t.Errorf("%d rows were tried again", n)
			}
		})
	}
}
