package jobs_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

// fetched fetches in a transaction that commits, and fails the test if that waits for a lock.
func (f *fixture) fetched(n int) (got fetched) {
	f.Helper()
	f.ok(pgx.BeginFunc(f.Context(), f.Pool, func(tx pgx.Tx) (err error) {
		if _, err = tx.Exec(f.Context(), "SET LOCAL lock_timeout = '1s'"); err == nil {
			got, err = f.fetch(f.Context(), tx, workqueue.NewOwnerToken(), n)
		}
		return err
	}))
	return got
}

// A claim by a new rate may take the same time as one by the old rate that is not committed. It does not wait for it.
func TestAClaimByANewRateDoesNotWaitForOneByTheOld(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.limit("default", jobs.Limits{Rate: 0.001, Burst: 10})
	f.enqueueMany(40)
	equal(t, "claimed", f.claimed(1), 1)
	idle, tx := f.idle(2)
	equal(t, "fetched", len(idle.ids), 2)
	f.limit("default", jobs.Limits{Rate: 0.002, Burst: 30})
	equal(t, "fetched by the new rate", len(f.fetched(5).ids), 5)
	same := f.named(`SELECT count(*) FROM %_start AS a JOIN %_start AS b USING (queue, at) WHERE a.job_id < b.job_id`)
	f.ok(tx.Commit(t.Context()))
	if ask[int](f, same) == 0 {
		t.Error("no two claims took the same time, so this shows nothing")
	}
}

// Settles that give starts of one claim back at the same time give all of them back.
func TestStartsOfOneClaimAreGivenBackBesideEachOther(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.limit("default", jobs.Limits{Rate: slowly, Burst: 10})
	f.enqueueMany(20)
	token := workqueue.NewOwnerToken()
	rows, err := f.client.Table().On(f.Pool).Claim(t.Context(), token, time.Minute, 10, "default", jobs.Normal)
	f.ok(err)
	ids := make([]uuid.UUID, len(rows))
	for i, r := range rows {
		ids[i] = r.ID
	}
	f.inTx(func(tx workqueue.Tx) error {
		_, err := tx.Exec(t.Context(), f.named("SELECT %_release($1, $2)"), token, ids[:1])
		f.exec(f.named("SELECT %_release($1, $2)"), token, ids[1:9])
		n, _ := f.admit()
		equal(t, "admitted beside a release that is not committed", n, 8)
		return err
	})
	n, _ := f.admit()
	equal(t, "admitted after both", n, 9)
}

// What others have locked costs a claim no more than one start: the next ones begin where cells do.
func TestIdleFetchesDoNotHoldBackTheirNeighbours(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.limit("default", jobs.Limits{Rate: slowly, Burst: 13})
	f.enqueueMany(40)
	equal(t, "claimed", f.claimed(1), 1)
	for range 6 {
		idle, _ := f.idle(1)
		equal(t, "fetched", len(idle.ids), 1)
	}
	if n := f.claimed(20); n < 4 || n > 6 {
		t.Errorf("%d claimed beside 6 of 12, want the rest", n)
	}
}

// One claim takes what is free before the newest start and what was given back behind it.
func TestGapsAreTakenWithWhatIsFreeAhead(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.limit("default", jobs.Limits{Rate: 0.001, Burst: 10})
	f.enqueueMany(40)
	equal(t, "claimed", f.claimed(1), 1)
	_, tx := f.idle(5)
	if n := f.claimed(10); n < 3 {
		t.Errorf("%d claimed beside it", n)
	}
	f.ok(tx.Rollback(t.Context()))
	f.later(1100 * time.Second)
	n, _ := f.admit()
	if n < 5 {
		t.Errorf("admitted %d, want one and those of the gap", n)
	}
	equal(t, "fetched", len(f.fetched(10).ids), n)
	again := f.fetched(10)
	equal(t, "fetched then", len(again.ids), 0)
	equal(t, "held", *again.held, "rate")
}

// A start that lies ahead of the clock by less than a span is reckoned with, instead of being tried again and again.
func TestAStartAheadOfTheClock(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.limit("default", jobs.Limits{Rate: 1e-5, Burst: 3})
	f.enqueueMany(10)
	f.exec(f.named(`INSERT INTO %_start SELECT 'default',
		extract(epoch FROM now() + interval '20 hours')::bigint * 1000000, gen_random_uuid(), gen_random_uuid()`))
	equal(t, "fetched", len(f.fetched(10).ids), 2)
	none := f.fetched(10)
	equal(t, "fetched then", len(none.ids), 0)
	equal(t, "held", *none.held, "rate")
	if n, again := f.admit(); n != 0 || again < 20*3600 {
		t.Errorf("%d admitted, again in %v s", n, again)
	}
}
