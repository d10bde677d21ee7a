package jobs_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/jobs"
)

// A client that stays in the transaction of its fetch holds back only the starts that it took.
func TestAnIdleFetchOfAQueueWithARateHoldsBackWhatItTook(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.limit("default", jobs.Limits{Rate: slowly, Burst: 12})
	f.enqueueMany(40)
	idle, tx := f.idle(2)
	equal(t, "fetched", len(idle.ids), 2)
	equal(t, "claimed beside it", f.claimed(3), 3)
	other, _ := f.idle(10)
	if n := len(other.ids); n < 5 || n > 7 { // cells of two claims may touch
		t.Errorf("%d fetched beside both, want the rest", n)
	}
	none, _ := f.idle(10)
	equal(t, "fetched beside all", len(none.ids), 0)
	if *none.held != "busy" && *none.held != "rate" {
		t.Errorf("held is %q", *none.held)
	}
	equal(t, "more", none.more, false)
	f.ok(tx.Rollback(t.Context()))
	if n := f.claimed(20); n < 2 {
		t.Errorf("%d claimed when one has ended, want its two", n)
	}
	equal(t, "claimed then", f.claimed(20), 0)
}

// Starts that a fetch locked for jobs that are not there are free at once.
func TestAnIdleFetchKeepsNoStartInVain(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.limit("default", jobs.Limits{Rate: slowly, Burst: 10, MaxRunning: 50})
	empty, _ := f.idle(10)
	equal(t, "fetched of an empty queue", len(empty.ids), 0)
	f.enqueueMany(3)
	equal(t, "claimed", f.claimed(10), 3)
	idle, _ := f.idle(10)
	equal(t, "fetched of an empty queue", len(idle.ids), 0)
	f.enqueueMany(20)
	equal(t, "claimed beside both", f.claimed(20), 7)
}

// Sixteen clients fetch and settle, roll back, and lose their sessions. The spans of all starts that were committed lie
// one behind the other, and each began when its job was claimed or within a burst before: that is the promise of a
// rate, whatever the times were.
func TestARateIsExactBesideRollbacksAndLostSessions(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	const rate, burst, clients = 40, 5, 16
	f.limit("default", jobs.Limits{Rate: rate, Burst: burst, MaxRunning: 100})
	f.enqueueMany(600)
	ctx, stop := context.WithTimeout(t.Context(), 6*time.Second)
	defer stop()
	f.disorderly(ctx, clients, 10*time.Millisecond).Wait()
	const spans = `SELECT coalesce(min(s.next - s.at), 1e9)::bigint
		FROM (SELECT at, lead(at) OVER (ORDER BY at) AS next FROM %_start) AS s`
	if least := ask[int64](f, f.named(spans)); least < 1_000_000/rate {
		t.Errorf("two starts are %d µs apart, want %d", least, 1_000_000/rate)
	}
	if n := ask[int](f, f.named("SELECT count(*) FROM %_start")); n < burst {
		t.Errorf("%d jobs started, want more than a burst", n)
	}
	early := ask[int](f, f.named(`SELECT count(*) FROM %_start AS s JOIN % AS t ON t.id = s.job_id
		WHERE t.status = 1 AND to_timestamp(s.at / 1e6) > t.locked_until - interval '60 s'`))
	equal(t, "starts before the time of their span", early, 0)
	equal(t, "jobs that ran without a start", ask[int](f, f.named("SELECT count(*) FROM % AS t WHERE attempts > 0 AND "+
		"NOT EXISTS (SELECT FROM %_start AS s WHERE s.job_id = t.id)")), 0)
}

// With a burst of one, a start has no part of the time of the one before it.
func TestStartsOfABurstOfOneAreApart(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.limit("default", jobs.Limits{Rate: 0.01, Burst: 1})
	f.enqueueMany(5)
	equal(t, "claimed", f.claimed(5), 1)
	f.later(99 * time.Second)
	equal(t, "claimed a moment too early", f.claimed(5), 0)
	f.later(time.Second)
	equal(t, "claimed then", f.claimed(5), 1)
	f.later(250 * time.Second)
	equal(t, "claimed after a pause", f.claimed(5), 1)
	f.later(99 * time.Second)
	equal(t, "claimed a moment too early after a pause", f.claimed(5), 0)
}

// A new rate goes on behind the starts of the one before. A burst that grows allows no more than a burst.
func TestARateThatChangesGoesOn(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.limit("default", jobs.Limits{Rate: 0.01, Burst: 1})
	f.enqueueMany(30)
	equal(t, "claimed", f.claimed(30), 1)
	f.limit("default", jobs.Limits{Rate: 0.1, Burst: 1})
	equal(t, "claimed at once after the change", f.claimed(30), 0)
	f.later(10 * time.Second)
	equal(t, "claimed after the time of the new rate", f.claimed(30), 1)
	f.limit("default", jobs.Limits{Rate: 0.1, Burst: 5})
	if n := f.claimed(30); n > 3 {
		t.Errorf("%d claimed at once after the burst has grown, with 2 that started in its time", n)
	}
	f.later(time.Hour)
	equal(t, "claimed after an hour", f.claimed(30), 5)
}

// After the clock has gone back, the starts that lie ahead of it hold up nobody for long: only those that were taken
// at the same times do. Those that lie far ahead are swept away.
func TestAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.limit("default", jobs.Limits{Rate: 1, Burst: 3})
	f.enqueueMany(30)
	equal(t, "claimed", f.claimed(30), 3)
	f.later(-time.Hour)
	equal(t, "claimed when the clock has gone back by an hour", f.claimed(30), 3)
	f.later(-48 * time.Hour)
	f.sweep()
	equal(t, "starts ahead", ask[int](f, f.named("SELECT count(*) FROM %_start")), 0)
}

// Starts that have ceased to matter are deleted by claims, and by the sweep, also those of a queue without a rate.
func TestOldStartsAreDeleted(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	starts := func() int { return ask[int](f, f.named("SELECT count(*) FROM %_start")) }
	f.limit("default", jobs.Limits{Rate: 1, Burst: 3})
	f.enqueueMany(30)
	equal(t, "claimed", f.claimed(30), 3)
	f.later(10 * time.Second)
	equal(t, "claimed", f.claimed(1), 1)
	equal(t, "starts within the grace", starts(), 4)
	f.later(60 * time.Second)
	equal(t, "claimed", f.claimed(1), 1)
	equal(t, "starts after a claim", starts(), 1)
	f.later(time.Hour)
	equal(t, "claimed", f.claimed(1), 1)
	equal(t, "starts after a claim that came late", starts(), 2)
	f.sweep()
	equal(t, "starts after a sweep", starts(), 1)
	f.limit("default", jobs.Limits{})
	f.sweep()
	equal(t, "starts of a queue without a rate", starts(), 0)
}

// A start that is given back is that of its claim, not one that the same job had before and used.
func TestAStartThatWasUsedIsNotGivenBack(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.limit("default", jobs.Limits{Rate: slowly, Burst: 2})
	id := f.enqueue(mail{}).ID
	queue := f.client.Table().On(f.Pool)
	_, err := queue.Retry(t.Context(), f.claimAdmitted(1), []uuid.UUID{id}, "no")
	f.ok(err)
	f.exec(f.named("UPDATE % SET due_at = now()"))
	token := f.claimAdmitted(1)
	_, err = queue.Release(t.Context(), token, []uuid.UUID{id})
	f.ok(err)
	f.claimAdmitted(1)
	f.exec(f.named("SELECT %_release($1, ARRAY[$2::uuid])"), token, id) // its reply was lost
	f.enqueue(mail{})
	equal(t, "claimed when both starts are used", f.claimed(5), 0)
	equal(t, "starts", ask[int](f, f.named("SELECT count(*) FROM %_start")), 2)
}

// The rates that are allowed at all work, with the largest burst.
func TestTheLeastAndTheGreatestRate(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{1e-9, 1e9, 1.0 / 3, 0.1234567890123456789} {
		f := newJobs(t, anyKind)
		f.limit("default", jobs.Limits{Rate: rate, Burst: 1<<31 - 1})
		f.enqueueMany(200)
		for got := 0; got < 200; {
			n := f.claimed(200)
			if n == 0 {
				t.Fatalf("rate %v: none of the last %d jobs may start", rate, 200-got)
			}
			got += n
		}
		f.sweep()
		equal(t, "starts after a sweep", ask[int](f, f.named("SELECT count(*) FROM %_start")), 200)
	}
}
