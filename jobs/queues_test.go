package jobs_test

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

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

func (f *fixture) pause(queue string) {
	f.Helper()
	f.inTx(func(tx workqueue.Tx) error { return f.client.Pause(f.Context(), tx, queue) })
}

func (f *fixture) resume(queue string) {
	f.Helper()
	f.inTx(func(tx workqueue.Tx) error { return f.client.Resume(f.Context(), tx, queue) })
}

func (f *fixture) limit(queue string, l jobs.Limits) {
	f.Helper()
	f.inTx(func(tx workqueue.Tx) error { return f.client.SetLimits(f.Context(), tx, queue, l) })
}

func (f *fixture) slots() int {
	f.Helper()
	return ask[int](f, "SELECT count(*) FROM "+f.table+"_slot")
}

func (f *fixture) sweep() {
	f.Helper()
	_, err := f.client.Table().On(f.Pool).Sweep(f.Context(), 1000)
	f.ok(err)
}

func TestAPausedQueueRestsAndOthersGoOn(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Register(f.kinds, nothing[mail], jobs.KindOptions[mail]{})
	f.pause("default")
	f.work(jobs.WorkerOptions{Queues: []jobs.QueueOptions{{}, {Name: "other"}}})
	resting := f.enqueue(mail{}).ID
	f.await(f.enqueue(mail{}, jobs.Insert{Queue: "other"}).ID, workqueue.Done)
	equal(t, "status", f.get(resting).Status, workqueue.Ready)
	f.resume("default")
	f.await(resting, workqueue.Done)
}

// A pause applies even to a busy worker that still believes that the queue has no rule.
func TestAPauseComesWhileAWorkerIsBusy(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[mail]) error { // each job enqueues the next
		return pgx.BeginFunc(ctx, f.Pool, func(tx pgx.Tx) error {
			_, err := f.client.Enqueue(ctx, workqueue.Pgx(tx), jobs.Insert{Args: job.Args})
			return err
		})
	}, jobs.KindOptions[mail]{})
	f.work(jobs.WorkerOptions{WorkerOptions: workqueue.WorkerOptions{Concurrency: 2}})
	f.enqueue(mail{})
	done := func() int { return ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE status = 2") }
	f.until("jobs are done", func() bool { return done() > 3 })
	f.pause("default")
	f.until("no job is done any more, and one rests", func() bool {
		before := done()
		pgtest.Pass(100 * time.Millisecond)
		resting := ask[bool](f, "SELECT count(*) FILTER (WHERE status = 0) = 1 AND count(*) FILTER (WHERE status = "+
			"1) = 0 FROM "+f.table)
		return resting && done() == before
	})
}

// gauge counts the handlers that are running, and the most that ran at the same time.
type gauge struct{ now, most atomic.Int64 }

func (g *gauge) enter() (leave func()) {
	n := g.now.Add(1)
	for most := g.most.Load(); n > most && !g.most.CompareAndSwap(most, n); most = g.most.Load() {
	}
	return func() { g.now.Add(-1) }
}

// Two workers stand for two processes: they share nothing but the table.
func TestALimitHoldsOverAllWorkers(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	var running gauge
	jobs.Register(f.kinds, func(context.Context, *jobs.Job[mail]) error {
		defer running.enter()()
		pgtest.Pass(5 * time.Millisecond) // the work
		return nil
	}, jobs.KindOptions[mail]{})
	f.limit("default", jobs.Limits{MaxRunning: 3})
	const n = 90
	inserts := make([]jobs.Insert, n)
	for i := range inserts {
		inserts[i].Args, inserts[i].Priority = mail{}, jobs.Priority(1+i%3)
	}
	f.many(inserts...)
	f.work(jobs.WorkerOptions{})
	f.work(jobs.WorkerOptions{})
	f.until("all are done", func() bool {
		return ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE status = 2") == n
	})
	equal(t, "most at once", running.most.Load(), 3)
	equal(t, "slots", f.slots(), 0)
}

// Claims that the limit of a queue refuses have looked at nothing. If they counted as claims of an empty queue, every
// job that its key releases would go behind all that is due.
func TestALimitedQueueLetsKeysKeepTheirPlace(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	const rounds, plain = 6, 20
	var mu sync.Mutex
	started, places := 0, []int(nil) // how many plain jobs had started, and at each job of the key
	jobs.Register(f.kinds, func(_ context.Context, j *jobs.Job[mail]) error {
		mu.Lock()
		if j.Args.To == "" {
			started++
		} else {
			places = append(places, started)
		}
		mu.Unlock()
		pgtest.Pass(2 * time.Millisecond) // the work
		return nil
	}, jobs.KindOptions[mail]{})
	f.limit("default", jobs.Limits{MaxRunning: 2})
	for range rounds {
		inserts := make([]jobs.Insert, plain+1)
		for i := range inserts {
			inserts[i].Args = mail{}
		}
		inserts[plain] = jobs.Insert{Args: mail{To: "ann"}, ByKey: keyed.Ordered{Key: "ann"}}
		f.many(inserts...)
	}
	f.work(jobs.WorkerOptions{})
	f.until("all are done", func() bool {
		return ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE status = 2") == rounds*(plain+1)
	})
	if late := places[1]; late > (rounds-1)*plain {
		t.Errorf("plain jobs started before each job of the key: %v; the second is behind all of them", places)
	}
}

func TestEveryWayOutGivesTheSlotBack(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.limit("default", jobs.Limits{MaxRunning: 100})
	queue := f.client.Table().On(f.Pool)
	ways := map[string]func(token uuid.UUID, id uuid.UUID) error{
		"ack": func(token, id uuid.UUID) error { _, err := queue.Ack(f.Context(), token, []uuid.UUID{id}); return err },
		"abandon": func(token, id uuid.UUID) error {
			_, err := queue.Retry(f.Context(), token, []uuid.UUID{id}, "no")
			return err
		},
		"fail": func(token, id uuid.UUID) error {
			_, err := queue.Fail(f.Context(), token, []uuid.UUID{id}, "no")
			return err
		},
		"snooze": func(token, id uuid.UUID) error {
			_, err := queue.Snooze(f.Context(), token, []uuid.UUID{id}, time.Hour)
			return err
		},
		"sql": func(token, id uuid.UUID) error {
			_, err := f.Pool.Exec(f.Context(), "SELECT "+f.table+"_ack($1, $2)", token, []uuid.UUID{id})
			return err
		},
		"reap": func(_, id uuid.UUID) error {
			f.exec("UPDATE "+f.table+" SET locked_until = now() - interval '1 s' WHERE id = $1", id)
			_, err := queue.ReapExpired(f.Context(), 10)
			return err
		},
		"delete": func(_, id uuid.UUID) error {
			_, err := f.Pool.Exec(f.Context(), "DELETE FROM "+f.table+" WHERE id = $1", id)
			return err
		},
	}
	for name, end := range ways {
		id := f.enqueue(mail{}).ID
		token := f.claimAdmitted(1)
		equal(t, name+": slots while it runs", f.slots(), 1)
		f.ok(end(token, id))
		equal(t, name+": slots", f.slots(), 0)
	}
}

// claimAdmitted claims the jobs that the queue's rule admits.
func (f *fixture) claimAdmitted(want int) uuid.UUID {
	f.Helper()
	token := workqueue.NewOwnerToken()
	rows, err := f.client.Table().On(f.Pool).Claim(f.Context(), token, time.Minute, 1000, "default", jobs.Normal)
	f.ok(err)
	equal(f, "claimed", len(rows), want)
	return token
}

func TestALimitCountsWhatRunsAlready(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	var ids []uuid.UUID
	for range 3 {
		ids = append(ids, f.enqueue(mail{}).ID)
	}
	token := f.claimAdmitted(3) // before there is a limit
	equal(t, "slots", f.slots(), 0)
	f.limit("default", jobs.Limits{MaxRunning: 4})
	f.sweep()
	equal(t, "slots", f.slots(), 3)
	for range 3 {
		f.enqueue(mail{})
	}
	f.claimAdmitted(1)
	_, err := f.client.Table().On(f.Pool).Ack(f.Context(), token, ids[:2])
	f.ok(err)
	f.claimAdmitted(2)
}

func TestASweepRepairsTheSlots(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.limit("default", jobs.Limits{MaxRunning: 1})
	f.enqueue(mail{})
	f.claimAdmitted(1)
	f.exec("ALTER TABLE " + f.table + " DISABLE TRIGGER USER")
	f.exec("DELETE FROM " + f.table) // bypassing the triggers
	f.exec("ALTER TABLE " + f.table + " ENABLE TRIGGER USER")
	f.sweep()
	equal(t, "a slot that is young is left alone", f.slots(), 1)
	f.exec("UPDATE " + f.table + "_slot SET taken_at = now() - interval '1 minute'")
	f.sweep()
	equal(t, "slots", f.slots(), 0)
}

func TestARateSpreadsTheStarts(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	f.limit("default", jobs.Limits{Rate: 20, Burst: 5})
	jobs.Register(f.kinds, nothing[mail], jobs.KindOptions[mail]{})
	const n = 15
	inserts := make([]jobs.Insert, n)
	for i := range inserts {
		inserts[i].Args = mail{}
	}
	f.many(inserts...)
	start := ask[time.Time](f, "SELECT clock_timestamp()")
	f.work(jobs.WorkerOptions{})
	f.work(jobs.WorkerOptions{})
	f.until("all are done", func() bool {
		return ask[int](f, "SELECT count(*) FROM "+f.table+
			" WHERE status = 2") == n
	})
	took := ask[time.Time](f, "SELECT max(completed_at) FROM "+f.table).Sub(start)
	if least := (n - 5) * time.Second / 20; took < least {
		t.Errorf("%d jobs were started within %v, the rate allows that in %v", n, took, least)
	}
}

// How many jobs may start follows from the rate, the burst and the claims, as with a token bucket.
func TestWhatARateAdmits(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.limit("default", jobs.Limits{Rate: 0.0005, Burst: 4})
	for range 10 {
		f.enqueue(mail{})
	}
	f.claimAdmitted(4)
	admitted, again := f.admit()
	equal(t, "admitted", admitted, 0)
	if again <= 1900 || again > 2000 {
		t.Errorf("again after %v s, want the 2,000 s of a start", again)
	}
	f.later(3900 * time.Second)
	admitted, again = f.admit()
	equal(t, "admitted after less than the time of two starts", admitted, 1)
	if again <= 0 || again > 100 {
		t.Errorf("again after %v s, want at most 100 s", again)
	}
	f.later(100 * time.Second)
	admitted, _ = f.admit()
	equal(t, "admitted after the time of two starts", admitted, 2)
	f.later(24 * time.Hour)
	admitted, _ = f.admit()
	equal(t, "admitted after a day", admitted, 4)
	f.limit("default", jobs.Limits{})
	admitted, _ = f.admit()
	equal(t, "admitted without a limit", admitted, 10)
}

// later moves the starts that were taken back by as much as the clock would have gone on.
func (f *fixture) later(d time.Duration) {
	f.Helper()
	// In two steps, so that none meets another's place.
	f.exec(f.named("UPDATE %_start SET at = at - $1 - 1000000000000000"), d.Microseconds())
	f.exec(f.named("UPDATE %_start SET at = at + 1000000000000000"))
}

func (f *fixture) admit() (n int, again float64) {
	f.Helper()
	f.ok(f.Pool.QueryRow(f.Context(), "SELECT admitted, again FROM "+f.table+"_admit('default', 10)").Scan(&n, &again))
	return n, again
}

func TestQueuesTellWhatIsInThem(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.pause("empty")
	f.enqueue(mail{})
	f.enqueue(mail{}, jobs.Insert{Delay: time.Hour})
	f.enqueue(mail{}, jobs.Insert{Queue: "busy"})
	var queues []jobs.QueueInfo
	f.inTx(func(tx workqueue.Tx) (err error) { queues, err = f.client.Queues(f.Context(), tx); return err })
	equal(t, "queues", fmt.Sprintf("%+v", queues), fmt.Sprintf("%+v", []jobs.QueueInfo{
		{Name: "busy", Ready: 1}, {Name: "default", Ready: 1, Scheduled: 1}, {Name: "empty", Paused: true},
	}))
}

// An application that changes a rule in a long transaction delays neither claims nor settles.
func TestARuleInALongTransactionHoldsUpNobody(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Register(f.kinds, nothing[mail], jobs.KindOptions[mail]{})
	f.limit("default", jobs.Limits{MaxRunning: 1})
	f.work(jobs.WorkerOptions{})
	f.inTx(func(tx workqueue.Tx) error {
		if err := f.client.SetLimits(f.Context(), tx, "default", jobs.Limits{MaxRunning: 2}); err != nil {
			return err
		}
		for range 3 {
			f.await(f.enqueue(mail{}).ID, workqueue.Done)
		}
		return nil
	})
}

// Another session locks the rows of starts and of slots with FOR UPDATE, and keeps them locked.
func TestWhoLocksTheRowsOfLimitsIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.limit("default", jobs.Limits{MaxRunning: 5})
	f.limit("mails", jobs.Limits{Rate: slowly, Burst: 5})
	for range 3 {
		f.enqueue(mail{})
	}
	f.enqueue(mail{}, jobs.Insert{Queue: "mails"})
	f.claimAdmitted(3)
	mails := func() int {
		rows, err := f.client.Table().On(f.Pool).Claim(t.Context(), workqueue.NewOwnerToken(),
			time.Minute, 10, "mails", jobs.Normal)
		f.ok(err)
		return len(rows)
	}
	equal(t, "claimed from the other queue", mails(), 1)
	f.enqueue(mail{})
	f.enqueue(mail{}, jobs.Insert{Queue: "mails"})
	both := f.named("WITH a AS (SELECT FROM %_start FOR UPDATE), s AS (SELECT FROM %_slot FOR UPDATE) SELECT FROM a, s")
	f.hold(both, func() {
		f.claimAdmitted(1)
		equal(t, "claimed beside it", mails(), 1)
	})
}

// At a stricter isolation level, a claim's snapshot would not see the slots of the previous claim.
func TestClaimsOfALimitedQueueNeedReadCommitted(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.limit("default", jobs.Limits{MaxRunning: 1})
	f.enqueue(mail{})
	err := pgx.BeginTxFunc(t.Context(), f.Pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), f.named("SELECT %_fetch('00000000-002a-8000-8000-000000000000', '60 s', 1)"))
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "needs READ COMMITTED") {
		t.Errorf("a claim under REPEATABLE READ: %v", err)
	}
}

// Claims of a queue without limits do not take turns, even if their transactions stay open.
func TestClaimsOfAQueueWithoutLimitsWaitForNone(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.enqueue(mail{})
	f.enqueue(mail{})
	for range 2 {
		tx, err := f.Pool.Begin(t.Context())
		f.ok(err)
		defer tx.Rollback(context.WithoutCancel(t.Context()))
		tag, err := tx.Exec(t.Context(),
			f.named("SELECT FROM %_fetch('00000000-002a-8000-8000-000000000000', '60 s', 1) WHERE entry = 'row'"))
		f.ok(err)
		equal(t, "jobs of a claim", tag.RowsAffected(), 1)
	}
}

// If a process freezes after sending its claim, the server still commits it. A claim with several round trips could
// freeze between them and keep its locks.
func TestAClaimOfALimitedQueueIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.limit("default", jobs.Limits{MaxRunning: 5, Rate: 1000, Burst: 100})
	f.enqueue(mail{})
	var sent atomic.Int64
	pool := pgtest.NewPool(t, f.DB, pgtest.WithPool(func(c *pgxpool.Config) { c.ConnConfig.Tracer = batches{&sent} }))
	claim := func() {
		_, err := f.client.Table().On(pool).Claim(t.Context(), workqueue.NewOwnerToken(),
			time.Minute, 10, "default", jobs.Normal)
		f.ok(err)
	}
	claim()
	sent.Store(0)
	claim()
	equal(t, "round trips of a claim", sent.Load(), 1)
}

// batches counts the batches and statements that are sent.
type batches struct{ sent *atomic.Int64 }

func (b batches) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	b.sent.Add(1)
	return ctx
}
func (batches) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (b batches) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	b.sent.Add(1)
	return ctx
}
func (batches) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (batches) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// A worker in SQL obeys pauses and limits, and the jobs that it has claimed count for all other workers.
func TestClaimsBySQLKeepToTheRulesOfTheirQueue(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	for range 5 {
		f.enqueue(mail{})
	}
	claimed := func() int {
		return ask[int](f, f.named("SELECT count(id) FROM %_fetch('00000000-002a-8000-8000-000000000000', '60 s', 10)"))
	}
	fetched := func(what string) string {
		return ask[string](f, f.named("SELECT "+what+
			" FROM %_fetch('00000000-002a-8000-8000-000000000000', '60 s', 10) "+
			"WHERE entry = 'end'"))
	}
	f.pause("default")
	equal(t, "claimed by SQL from a queue that is paused", claimed(), 0)
	equal(t, "what holds its jobs", fetched("held || ' ' || more || ' ' || again_in"), "paused false 60")
	f.limit("default", jobs.Limits{MaxRunning: 3})
	f.resume("default")
	f.claimAdmitted(3)
	equal(t, "claimed by SQL when the places are taken", claimed(), 0)
	equal(t, "what holds the others", fetched("held || ' ' || more || ' ' || again_in"), "limit false 1")
	f.limit("default", jobs.Limits{MaxRunning: 4})
	equal(t, "claimed by SQL from one place", claimed(), 1)
	f.claimAdmitted(0)
	equal(t, "places that are taken", f.slots(), 4)
	bound := func() (bound string) {
		f.ok(pgx.BeginFunc(t.Context(), f.Pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), f.named("SELECT FROM %_fetch('00000000-002a-8000-8000-000000000000', '60 s', 1)"))
			if err != nil {
				return err
			}
			return tx.QueryRow(t.Context(), "SHOW idle_in_transaction_session_timeout").Scan(&bound)
		}))
		return bound
	}
	equal(t, "how long a client may be idle", bound(), "1min")
	f.limit("default", jobs.Limits{Rate: slowly, Burst: 2})
	f.enqueue(mail{})
	f.enqueue(mail{})
	f.enqueue(mail{})
	equal(t, "claimed by SQL within the rate", claimed(), 2)
	equal(t, "what holds the third", fetched("held"), "rate")
	equal(t, "how long a client may be idle", bound(), "1min")
}

// A queue whose limits were removed still has a rule, but its claims do not take turns any more.
func TestClaimsOfAQueueWithoutALimitWaitForNobody(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	f.limit("default", jobs.Limits{MaxRunning: 1})
	f.admit()
	f.limit("default", jobs.Limits{})
	admit := f.named("SELECT %_admit('default', 1)")
	f.hold(admit, func() {
		f.atOnce(func(tx workqueue.Tx) error {
			_, err := tx.Exec(t.Context(), admit)
			return err
		})
	})
}
