package jobs_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

// claimed claims as a worker in Go does, and returns how many jobs it got.
func (f *fixture) claimed(limit int) int {
	f.Helper()
	rows, err := f.client.Table().On(f.Pool).Claim(f.Context(), workqueue.NewOwnerToken(), time.Minute, limit,
		"default", jobs.Normal)
	f.ok(err)
	return len(rows)
}

// A fetched is what a fetch in a transaction got.
type fetched struct {
	ids   []uuid.UUID
	held  *string
	more  bool
	again float64
}

func (f *fixture) fetch(ctx context.Context, tx pgx.Tx, owner uuid.UUID, n int) (got fetched, err error) {
	got.ids = []uuid.UUID{} // a settle refuses NULL
	rows, err := tx.Query(ctx, f.named("SELECT entry, id, held, more, again_in FROM %_fetch($1, '60 s', $2)"), owner, n)
	if err != nil {
		return got, err
	}
	for rows.Next() {
		var entry string
		var id *uuid.UUID
		var more *bool
		var again *float64
		if err = rows.Scan(&entry, &id, &got.held, &more, &again); err != nil {
			return got, err
		}
		if entry == "row" {
			got.ids = append(got.ids, *id)
		} else {
			got.more, got.again = *more, *again
		}
	}
	return got, rows.Err()
}

// idle fetches in a transaction that stays open until the test ends.
func (f *fixture) idle(n int) (fetched, pgx.Tx) {
	f.Helper()
	tx, err := f.Pool.Begin(f.Context())
	f.ok(err)
	f.Cleanup(func() { tx.Rollback(context.WithoutCancel(f.Context())) })
	got, err := f.fetch(f.Context(), tx, workqueue.NewOwnerToken(), n)
	f.ok(err)
	return got, tx
}

func (f *fixture) enqueueMany(n int) {
	f.Helper()
	inserts := make([]jobs.Insert, n)
	for i := range inserts {
		inserts[i].Args = mail{}
	}
	f.many(inserts...)
}

// A client that stays in the transaction of its fetch holds back only what it took, whichever way others claim.
func TestAnIdleFetchOfALimitedQueueHoldsBackWhatItTook(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.limit("default", jobs.Limits{MaxRunning: 5})
	f.enqueueMany(20)
	idle, tx := f.idle(2)
	equal(t, "fetched", len(idle.ids), 2)
	equal(t, "claimed beside it", f.claimed(1), 1)
	other, _ := f.idle(10)
	equal(t, "fetched beside both", len(other.ids), 2)
	equal(t, "claimed beside all", f.claimed(10), 0)
	none, _ := f.idle(10)
	equal(t, "fetched beside all", len(none.ids), 0)
	equal(t, "held", *none.held, "busy")
	equal(t, "more", none.more, false)
	if none.again <= 0 || none.again > 1 {
		t.Errorf("again in %v s", none.again)
	}
	f.ok(tx.Rollback(t.Context()))
	equal(t, "claimed when one has ended", f.claimed(10), 2)
}

// Permits that a fetch locked for jobs that are not there are free at once.
func TestAnIdleFetchKeepsNoPermitInVain(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.limit("default", jobs.Limits{MaxRunning: 10})
	empty, _ := f.idle(10)
	equal(t, "fetched of an empty queue", len(empty.ids), 0)
	equal(t, "held", empty.held == nil, true)
	f.enqueueMany(3)
	idle, _ := f.idle(10)
	equal(t, "fetched", len(idle.ids), 3)
	equal(t, "more", idle.more, false)
	f.enqueueMany(20)
	equal(t, "claimed beside both", f.claimed(20), 7)
}

// A worker goes on beside a client that is idle in the transaction of its fetch.
func TestAWorkerGoesOnBesideAnIdleFetch(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Register(f.kinds, nothing[mail], jobs.KindOptions[mail]{})
	f.limit("default", jobs.Limits{MaxRunning: 2})
	f.enqueueMany(1)
	idle, _ := f.idle(1)
	equal(t, "fetched", len(idle.ids), 1)
	f.enqueueMany(30)
	f.work(jobs.WorkerOptions{})
	f.until("the others are done", func() bool {
		return ask[int](f, f.named("SELECT count(*) FROM % WHERE status = 2")) == 30
	})
}

// Whatever runs already counts against a limit: jobs from before the first limit, and those of a higher one. Of each
// limit that comes after, the claims get exactly what is left.
func TestALimitThatChanges(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	queue := f.client.Table().On(f.Pool)
	f.enqueueMany(400)
	var running []workqueue.Row
	claim := func(want int) {
		t.Helper()
		rows, err := queue.Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, max(want, 0)+10,
			"default", jobs.Normal)
		f.ok(err)
		equal(t, "claimed", len(rows), max(want, 0))
		running = append(running, rows...)
	}
	end := func(n int) { // in any order
		t.Helper()
		rand.Shuffle(len(running), func(i, k int) { running[i], running[k] = running[k], running[i] })
		for _, r := range running[:n] {
			_, err := queue.Ack(t.Context(), r.Token, []uuid.UUID{r.ID})
			f.ok(err)
		}
		running = running[n:]
	}
	rows, err := queue.Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 8, "default", jobs.Normal)
	f.ok(err)
	running = rows
	f.limit("default", jobs.Limits{MaxRunning: 12})
	f.sweep()
	claim(4)
	for range 30 {
		limit := 1 + rand.IntN(15)
		f.limit("default", jobs.Limits{MaxRunning: limit})
		claim(limit - len(running))
		end(rand.IntN(len(running) + 1))
		claim(limit - len(running))
	}
	end(len(running))
	equal(t, "slots", f.slots(), 0)
}

// After a limit was lowered, jobs run with permits beyond it. Free permits below it are not all to be given out.
func TestALimitThatWasLoweredHoldsBesideAnIdleFetch(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.limit("default", jobs.Limits{MaxRunning: 8})
	f.enqueueMany(30)
	token := f.claimAdmitted(8)
	low := ask[[]uuid.UUID](f, f.named("SELECT array_agg(job_id) FROM %_slot WHERE permit <= 4"))
	_, err := f.client.Table().On(f.Pool).Ack(t.Context(), token, low)
	f.ok(err)
	f.limit("default", jobs.Limits{MaxRunning: 6}) // four jobs run, two of them with permits beyond it
	idle, tx := f.idle(10)
	equal(t, "fetched", len(idle.ids), 2)
	equal(t, "claimed beside it", f.claimed(10), 0)
	f.ok(tx.Commit(t.Context()))
	equal(t, "claimed after it", f.claimed(10), 0)
	equal(t, "slots", f.slots(), 6)
}

// Sixteen clients fetch and settle, roll back, and lose their sessions, while the limit changes. At no moment do more
// jobs have a slot than the limit allows, and in the end as many can be claimed as ever.
func TestALimitIsExactBesideRollbacksAndLostSessions(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	const limit, clients = 5, 16
	f.limit("default", jobs.Limits{MaxRunning: limit})
	f.enqueueMany(600)
	ctx, stop := context.WithTimeout(t.Context(), 8*time.Second)
	defer stop()
	all := f.disorderly(ctx, clients, 0)
	for ctx.Err() == nil {
		n := ask[int](f, f.named("SELECT count(*) FROM % WHERE status = 1"))
		if n > limit {
			t.Errorf("%d jobs run, the limit is %d", n, limit)
		}
		pgtest.Pass(2 * time.Millisecond)
	}
	all.Wait()
	f.exec(f.named("UPDATE % SET locked_until = now() - interval '1 s' WHERE status = 1"))
	_, err := f.client.Table().On(f.Pool).ReapExpired(t.Context(), 1000)
	f.ok(err)
	equal(t, "slots", f.slots(), 0)
	f.exec(f.named("UPDATE % SET due_at = now() WHERE status = 0"))
	f.enqueueMany(10)
	equal(t, "claimed in the end", f.claimed(100), limit)
}

// disorderly starts clients that work in disorder until the context ends, with pauses of less than the given time.
func (f *fixture) disorderly(ctx context.Context, clients int, pause time.Duration) *sync.WaitGroup {
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := f.disorder(ctx); err != nil && ctx.Err() == nil {
					f.Error(err)
					return
				}
				if pause > 0 {
					pgtest.Pass(rand.N(pause))
				}
			}
		})
	}
	return &all
}

// disorder is one round of a client that does not always finish what it began.
func (f *fixture) disorder(ctx context.Context) error {
	conn, err := f.Pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	owner := workqueue.NewOwnerToken()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	got, err := f.fetch(ctx, tx, owner, 1+rand.IntN(4))
	if err != nil {
		return err
	}
	pgtest.Pass(time.Duration(rand.IntN(4)) * time.Millisecond)
	switch rand.IntN(5) {
	case 0:
		return nil
	case 1:
		return conn.Conn().Close(ctx)
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	pgtest.Pass(time.Duration(rand.IntN(4)) * time.Millisecond)
	call := "SELECT %_ack($1, $2)"
	if rand.IntN(3) == 0 {
		call = "SELECT %_retry($1, $2, '0 s', 'no')"
	}
	if _, err := conn.Exec(ctx, f.named(call), owner, got.ids); err != nil {
		return fmt.Errorf("a settle: %w", err)
	}
	return nil
}
