package keyed_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// slowly is a rate of which a test gets the burst and nothing more.
func slowly(burst int) keyed.Limited { return keyed.Limited{Key: "a", Rate: 0.0001, Burst: burst} }

// Rows that are released by a worker which stops, or has no room, have not started. They keep their place and their
// start, and nobody else gets it.
func TestWhatIsReleasedKeepsItsStart(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]keyed.Limited{
		"of a rate":            slowly(2),
		"of a limit":           {Key: "a", MaxRunning: 2},
		"of a rate and limit":  {Key: "a", Rate: 0.0001, Burst: 2, MaxRunning: 2},
		"of a burst and limit": {Key: "a", Rate: 0.0001, Burst: 5, MaxRunning: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			for i := range 5 {
				r.insert(row(i, rule))
			}
			token, ids := r.expect(0, 1)
			for range 3 {
				_, err := r.queue.Release(t.Context(), token, ids)
				r.ok(err)
				if n := r.fold(); n != 0 {
					t.Errorf("a fold let %d other rows through", n)
				}
				again, _ := r.expect(0, 1)
				if _, err := r.queue.Release(t.Context(), token, ids); !errors.Is(err, workqueue.ErrLeaseLost) {
					t.Errorf("a release by an old claim: %v", err)
				}
				token = again
			}
			r.expect()
			r.isKnownRight()
		})
	}
}

// isKnownRight compares what is stored of the key with a count.
func (r *rig) isKnownRight() {
	r.Helper()
	n := r.through()
	if taken := ask[*int](r, "SELECT max(taken) FROM work_key_state WHERE limited"); taken != nil && *taken != n {
		r.Errorf("%d rows are known to be released, %d are", *taken, n)
	}
}

// A start that is left goes to the next row at once. Snoozes, failures and lost leases are starts.
func TestWhatIsLeftGivesItsStartToTheNext(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const left, burst, all = 30, 4, 40
	for i := range all {
		r.insert(row(i, slowly(burst)))
	}
	var mu sync.Mutex
	started := map[int64]int{}
	r.work(workqueue.WorkerOptions{}, func(_ context.Context, c *workqueue.Claim[body]) error {
		if c.Body.N < left {
			return workqueue.LeaveFor(time.Hour, errors.New("not mine"))
		}
		mu.Lock()
		defer mu.Unlock()
		started[c.Body.N]++
		if c.Body.N == left {
			return workqueue.Snooze(time.Hour)
		}
		return nil
	})
	r.eventually("those that may start have", func() bool {
		return burst == ask[int](r, "SELECT count(*) FROM work "+
			"WHERE status = 2 OR n = $1 AND due_at > now() AND status = 0", left)
	})
	r.expect()
	mu.Lock()
	defer mu.Unlock()
	for n := range int64(all) {
		want := 0
		if n >= left && n < left+burst {
			want = 1
		}
		if started[n] != want {
			t.Errorf("row %d has started %d times, want %d", n, started[n], want)
		}
	}
	if n := ask[int](r, "SELECT max(attempts) FROM work WHERE n <= $1", left); n != 0 {
		t.Errorf("rows that were put back have %d attempts", n)
	}
	r.isKnownRight()
}

// A start that no row can take up is the key's next one, also when no row waits whose rate is known.
func TestAnUnusedStartIsKept(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]keyed.Limited{
		"one":                                    slowly(1),
		"as a rate that is no whole microsecond": {Key: "a", Rate: 70_001, Burst: 1},
		"beside a limit":                         {Key: "a", Rate: 0.0001, Burst: 1, MaxRunning: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.insert(row(1, rule))
			r.fold()
			next := ask[time.Time](r, "SELECT next_at FROM work_key_state")
			r.leave(1)
			r.fold()
			// The next start is as early as if the row had not been released.
			gap := time.Duration(1e9 / rule.Rate)
			moved := next.Sub(ask[time.Time](r, "SELECT next_at FROM work_key_state"))
			if (moved - gap).Abs() > 2*time.Microsecond {
				t.Errorf("the next start has moved by %v, want %v", moved, gap)
			}
			r.insert(row(2, rule))
			r.expect(2)
			r.isKnownRight()
		})
	}
}

// leave claims rows, which must be those given, and leaves them for an hour.
func (r *rig) leave(want ...int) {
	r.Helper()
	token, ids := r.expect(want...)
	r.leaveBy(token, ids)
}

func (r *rig) leaveBy(token uuid.UUID, ids []uuid.UUID) {
	r.Helper()
	left, err := r.queue.Leave(context.Background(), token, ids, time.Hour, "not mine")
	r.ok(err)
	if len(left) != len(ids) {
		r.Fatalf("%d of %d rows were left", len(left), len(ids))
	}
}

// A released row that ends or leaves its key before it has started gives its start to the next row of the key. One that
// has started does not.
func TestWhatNeverStartsGivesItsStartToTheNext(t *testing.T) {
	t.Parallel()
	putBack := func(r *rig) {
		token, ids := r.expect(1)
		_, err := r.queue.Release(context.Background(), token, ids)
		r.ok(err)
	}
	cancel := func(r *rig) { r.cancel(ask[uuid.UUID](r, "SELECT id FROM work WHERE n = 1")) }
	const drop, change = "DELETE FROM work WHERE n = 1", "UPDATE work SET concurrency_key = 'b' WHERE n = 1"
	for name, test := range map[string]struct {
		end  func(*rig)
		next []int
	}{
		"cancelled":                {cancel, []int{2}},
		"cancelled, put back":      {func(r *rig) { putBack(r); cancel(r) }, []int{2}},
		"deleted":                  {func(r *rig) { r.exec(drop) }, []int{2}},
		"deleted, put back":        {func(r *rig) { putBack(r); r.exec(drop) }, []int{2}},
		"of another key":           {func(r *rig) { r.exec(change) }, []int{1, 2}},
		"of another key, put back": {func(r *rig) { putBack(r); r.exec(change) }, []int{1, 2}},
		"cancelled while it waits": {func(r *rig) { r.cancel(ask[uuid.UUID](r, "SELECT id FROM work WHERE n = 2")) },
			[]int{1}},
		"done": {func(r *rig) {
			token, ids := r.expect(1)
			_, err := r.queue.Ack(context.Background(), token, ids)
			r.ok(err)
		}, nil},
		"cancelled in progress": {func(r *rig) {
			token, ids := r.expect(1)
			cancel(r)
			_, err := r.queue.Ack(context.Background(), token, ids)
			r.ok(err)
		}, nil},
		"cancelled, snoozed": {func(r *rig) {
			token, ids := r.expect(1)
			_, err := r.queue.Snooze(context.Background(), token, ids, time.Hour)
			r.ok(err)
			cancel(r)
		}, nil},
		"deleted, lost its lease": {func(r *rig) {
			r.expect(1)
			r.exec("UPDATE work SET locked_until = now() - interval '1 hour'  WHERE n = 1")
			_, err := r.queue.ReapExpired(context.Background(), 10)
			r.ok(err)
			r.exec(drop)
		}, nil},
		"a dead letter that is deleted": {func(r *rig) {
			token, ids := r.expect(1)
			_, err := r.queue.Fail(context.Background(), token, ids, "broken")
			r.ok(err)
			r.fold()
			r.exec(drop)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			for n := 1; n <= 3; n++ {
				r.insert(row(n, slowly(1)))
			}
			r.fold()
			test.end(r)
			r.fold()
			r.expect(test.next...)
			r.expect()
			r.isKnownRight()
		})
	}
}

// However often rows are left, every start is used once. A row that has waited in its worker may start late, so the
// next row may, in its place: then it does so beside a burst, as the first would have.
func TestUnusedStartsAreUsedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 40 {
		r.insert(row(i, slowly(3)))
	}
	r.leave(0, 1, 2)
	token, ids := r.expect(3, 4, 5)
	r.expect()
	r.leaveBy(token, ids[:1])
	r.expect(6)
	r.expect()
	// The burst is there again when two more are put back.
	r.exec("UPDATE work_key_state SET next_at = now() - interval '1 second'")
	r.leaveBy(token, ids[1:])
	r.fold()
	r.expect(7, 8, 9, 10, 11)
	r.expect()
	r.isKnownRight()
}

// What a transaction puts back that rolls back is not put back, and a fold that rolls back has not used a start.
func TestUnusedStartsAreTransactional(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 6 {
		r.insert(row(i, slowly(1)))
	}
	token, ids := r.expect(0)
	tx := r.begin()
	_, err := r.table.In(workqueue.Pgx(tx)).Leave(t.Context(), token, ids, time.Hour, "not mine")
	r.ok(err)
	r.ok(tx.Rollback(t.Context()))
	r.expect()
	r.leaveBy(token, ids)
	for range 2 {
		tx = r.begin()
		_, err = r.table.In(workqueue.Pgx(tx)).Fold(t.Context())
		r.ok(err)
		r.ok(tx.Rollback(t.Context()))
	}
	r.expect(1)
	r.expect()
	r.isKnownRight()
}

// A handler that a shutdown interrupts has started.
func TestAnInterruptedRowHasStarted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.insert(row(1, slowly(1)), row(2, slowly(1)))
	d := workqueue.Domain[body]{Table: r.table, Columns: (*body).columns}
	running := make(chan struct{})
	w, err := workqueue.NewWorker(r.pool, d, func(ctx context.Context, _ *workqueue.Claim[body]) error {
		close(running)
		<-ctx.Done()
		return ctx.Err()
	}, workqueue.WorkerOptions{ShutdownTimeout: 10 * time.Millisecond})
	r.ok(err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	select {
	case <-running:
	case <-time.After(pgtest.Patience):
		t.Fatal("the handler has not begun")
	}
	cancel()
	r.ok(<-ended)
	if n := ask[int](r, "SELECT count(*) FROM work WHERE status = 0 AND attempts = 0"); n != 2 {
		t.Fatalf("%d rows are as before, want 2\n%s", n, r.dump())
	}
	r.expect()
	r.isKnownRight()
}
