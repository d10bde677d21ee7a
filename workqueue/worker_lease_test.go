package workqueue_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// awaitRenewals returns when the row's lease has been extended that many times.
func (r *rig) awaitRenewals(id uuid.UUID, n int) {
	r.Helper()
	until := r.row(id).LockedUntil
	for range n {
		r.eventually("a renewal", func() bool {
			row := r.row(id)
			moved := row.LockedUntil.After(until)
			until = row.LockedUntil
			return moved
		})
	}
}

func TestLeaseIsRenewedWhileTheHandlerRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	release := make(chan struct{})
	started := make(chan context.Context, 1)
	r.start(workqueue.WorkerOptions{Lease: pgtest.Lease}, func(ctx context.Context, c *noteClaim) error {
		started <- ctx
		<-release
		return nil
	})
	id := r.insert("long")[0]
	ctx := receive(t, started, "the handler")
	token := r.row(id).Token
	r.awaitRenewals(id, 4) // each extends it by at most half a lease
	if reaped, err := r.Queue.ReapExpired(t.Context(), 100); err != nil || reaped != (workqueue.Reaped{}) {
		t.Errorf("reaped %+v, %v from a handler that runs", reaped, err)
	}
	if ctx.Err() != nil || r.row(id).Token != token {
		t.Errorf("context %v, row %+v, claimed with %v", context.Cause(ctx), r.row(id), token)
	}
	close(release)
	r.awaitStatus(workqueue.Done, id)
	if row := r.row(id); row.Attempts != 1 {
		t.Errorf("%+v", row)
	}
}

// A worker may lose a row and claim it again while the handler of the older claim still runs. The result of that
// handler does not affect the new claim.
func TestLeaseIsRenewedOfARowThatIsClaimedAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	first, second, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	returned := make(chan struct{})
	r.start(workqueue.WorkerOptions{Lease: pgtest.Lease, Concurrency: 2}, func(ctx context.Context,
		c *noteClaim) error {
		if c.Attempt == 1 {
			defer close(returned)
			close(first)
			<-second
			return nil
		}
		close(second)
		<-release
		return nil
	})
	id := r.insert("a")[0]
	receive(t, first, "the first attempt")
	r.exec("UPDATE notes SET status = 0, owner_token = NULL, locked_until = NULL, due_at = now() WHERE id = $1", id)
	receive(t, returned, "its end")
	r.eventually("its settle is refused", func() bool {
		return r.Events.count(refused("settle", workqueue.ErrLeaseLost)) == 1
	})
	r.awaitRenewals(id, 4)
	close(release)
	r.awaitStatus(workqueue.Done, id)
	if row := r.row(id); row.Attempts != 2 {
		t.Errorf("%+v", row)
	}
}

// Renewals, claims and settles have connections of their own.
func TestLeaseIsRenewedWhileHandlersHoldThePool(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{pool: func(c *pgxpool.Config) { c.MaxConns = 2 }})
	release := make(chan struct{})
	holding := make(chan struct{}, 2)
	r.start(workqueue.WorkerOptions{Lease: pgtest.Lease, Concurrency: 4}, func(ctx context.Context,
		c *noteClaim) error {
		if c.Body.Topic == "hold" {
			conn, err := r.Pool.Acquire(ctx)
			if err != nil {
				return err
			}
			defer conn.Release()
			holding <- struct{}{}
			<-release
		}
		return nil
	})
	held := r.insertMany("hold", 2)
	receive(t, holding, "the first connection")
	receive(t, holding, "the second connection")
	for _, id := range held {
		r.awaitRenewals(id, 2)
	}
	r.awaitStatus(workqueue.Done, r.insertMany("quick", 5)...)
	close(release)
	r.awaitStatus(workqueue.Done, held...)
}

func TestStolenClaimCancelsItsHandler(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]error{
		"ack": nil, "error": errors.New("boom"), "permanent": workqueue.Permanent(errors.New("boom")),
		"snooze": workqueue.Snooze(0),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{})
			started, causes := make(chan struct{}, 1), make(chan error, 1)
			w := r.start(workqueue.WorkerOptions{Lease: pgtest.Lease}, func(ctx context.Context,
				c *noteClaim) error {
				started <- struct{}{}
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return result
			})
			id := r.insert("stolen")[0]
			receive(t, started, "the handler")
			thief := uuid.New()
			r.exec("UPDATE notes SET owner_token = $2, attempts = attempts + 1, locked_until = now() + interval '1 "+
				"hour' WHERE id = $1", id, thief)
			if err := receive(t, causes, "the handler's context to end"); !errors.Is(err, workqueue.ErrLeaseLost) {
				t.Errorf("the context ended with %v", err)
			}
			if err := w.stop(t); err != nil {
				t.Error(err)
			}
			row := r.row(id)
			if row.Status != workqueue.InProgress || row.Token != thief || row.Attempts != 2 || row.Error != "" {
				t.Errorf("the stale claim changed the row: %+v", row)
			}
		})
	}
}

// When no renewal gets through, the handler is told when its lease ends: from then on another worker may have the row.
func TestUnreachableDatabaseEndsTheLease(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct{ fail, mend func(*proxy) }{
		"refused": {(*proxy).down, (*proxy).up},
		"silent":  {(*proxy).freeze, func(p *proxy) { p.cut(); p.thaw() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t)
			r := newRig(t, rigOptions{pool: p.through})
			started, causes := make(chan struct{}, 1), make(chan error, 1)
			var runs atomic.Int32
			w := r.start(workqueue.WorkerOptions{Lease: pgtest.Lease}, func(ctx context.Context,
				c *noteClaim) error {
				if runs.Add(1) > 1 {
					return nil
				}
				started <- struct{}{}
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return ctx.Err()
			})
			id := r.insert("cut off")[0]
			receive(t, started, "the handler")
			fault.fail(p)
			if err := receive(t, causes, "the handler's context to end"); !errors.Is(err, workqueue.ErrLeaseLost) {
				t.Errorf("the context ended with %v", err)
			}
			r.eventually("the lease to be over for the database, too", func() bool {
				_, err := r.Queue.ReapExpired(t.Context(), 100)
				return err == nil && r.row(id).Status == workqueue.Ready
			})
			fault.mend(p)
			r.eventually("the row to be done", func() bool { // a claim that is slow is given up, and reaped
				_, err := r.Queue.ReapExpired(t.Context(), 100)
				return err == nil && r.row(id).Status == workqueue.Done
			})
			if row := r.row(id); row.Attempts < 2 {
				t.Errorf("%d attempts, want 2", row.Attempts)
			}
			if err := w.stop(t); err != nil {
				t.Error(err)
			}
		})
	}
}

// A connection that goes silent must not hold up a settle until the kernel gives it up, minutes later, because another
// connection may work.
func TestSilentConnectionsAreGivenUp(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	r := newRig(t, rigOptions{pool: p.through})
	started, release := make(chan struct{}, 1), make(chan struct{})
	r.start(workqueue.WorkerOptions{Lease: 2 * pgtest.Lease,
		PollInterval: 50 * time.Millisecond}, func(ctx context.Context, c *noteClaim) error {
		if c.Body.Topic == "first" {
			started <- struct{}{}
			<-release
		}
		return nil
	})
	first := r.insert("first")[0]
	receive(t, started, "the handler")
	p.abandon() // open connections stay silent for good; new ones work
	close(release)
	r.awaitStatus(workqueue.Done, first)
	second := r.insert("second")[0]
	r.eventually("the second row to be done", func() bool { // a claim that is slow is given up, and reaped
		_, err := r.Queue.ReapExpired(t.Context(), 100)
		return err == nil && r.row(second).Status == workqueue.Done
	})
	p.cut() // pgx waits for the server to close connections that it gives up
}

// A process that stalls past its lease must not settle with its old claim, whichever worker has the row by then:
// another one, or the very same one.
func TestZombieSettleIsRefused(t *testing.T) {
	t.Parallel()
	for name, same := range map[string]bool{"another worker": false, "the same worker": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{})
			type run struct {
				ctx    context.Context
				result chan error
			}
			runs := make(chan run, 2)
			stall := func(ctx context.Context, c *noteClaim) error {
				me := run{ctx, make(chan error)}
				runs <- me
				return <-me.result // ignores ctx: this handler is stalled
			}
			// A listener that has just connected renews at once, which would undo what follows.
			options := workqueue.WorkerOptions{Lease: time.Hour, Concurrency: 1, PollInterval: 20 * time.Millisecond,
				NoListen: true}
			if same {
				options.Concurrency = 2
			}
			r.start(options, stall)
			id := r.insert("contended")[0]
			zombie := receive(t, runs, "the first handler")
			stale := r.row(id).Token
			r.exec("UPDATE notes SET locked_until = now() - interval '1 second' WHERE id = $1", id)
			if reaped, err := r.Queue.ReapExpired(t.Context(), 100); err != nil || reaped.Requeued != 1 {
				t.Fatalf("reaped %+v, %v", reaped, err)
			}
			if !same {
				r.start(options, stall)
			}
			second := receive(t, runs, "the second handler")
			current := r.row(id)
			if current.Token == stale || current.Attempts != 2 {
				t.Errorf("claimed anew with the same token: %+v", current)
			}
			if same {
				<-zombie.ctx.Done()
				if cause := context.Cause(zombie.ctx); !errors.Is(cause, workqueue.ErrLeaseLost) {
					t.Errorf("the stalled handler's context ended with %v", cause)
				}
			}
			zombie.result <- nil
			r.eventually("the stale ack to be refused", func() bool {
				return r.Events.count(refused("settle", workqueue.ErrLeaseLost)) == 1
			})
			if row := r.row(id); row.Status != workqueue.InProgress || row.Token != current.Token || row.Attempts != 2 {
				t.Errorf("the stale ack changed the row from %+v to %+v", current, row)
			}
			second.result <- nil
			r.awaitStatus(workqueue.Done, id)
			if row := r.row(id); row.Token != current.Token {
				t.Errorf("settled by another token: %+v", row)
			}
		})
	}
}
