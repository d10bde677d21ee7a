package jobs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

// atOnce runs work in a transaction, and fails the test if work has to wait for a lock.
func (f *fixture) atOnce(work func(tx workqueue.Tx) error) {
	f.Helper()
	f.inTx(func(tx workqueue.Tx) error {
		if _, err := tx.Exec(f.Context(), "SET LOCAL lock_timeout = '1s'"); err != nil {
			return err
		}
		return work(tx)
	})
}

func (f *fixture) sweepAtOnce() {
	f.Helper()
	f.atOnce(func(tx workqueue.Tx) error {
		_, err := f.client.Table().In(tx).Sweep(f.Context(), 1000)
		return err
	})
}

// named replaces each percent sign in a statement by the table's name.
func (f *fixture) named(statement string) string { return strings.ReplaceAll(statement, "%", f.table) }

// hold runs work while another transaction holds the locks that the statement takes.
func (f *fixture) hold(statement string, work func()) {
	f.Helper()
	f.inTx(func(tx workqueue.Tx) error {
		_, err := tx.Exec(f.Context(), statement)
		work()
		return err
	})
}

// age makes the slots so old that no running statement can still see a state without their jobs.
func (f *fixture) age() {
	f.Helper()
	f.exec("UPDATE " + f.table + "_slot SET taken_at = now() - interval '1 minute'")
}

// Cancelling a running job is a request: the job runs, and counts against the limit, until its handler has returned.
func TestACancelledJobKeepsItsSlotUntilItEnds(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.limit("default", jobs.Limits{MaxRunning: 1})
	id := f.enqueue(mail{}).ID
	f.enqueue(mail{})
	token := f.claimAdmitted(1)
	f.inTx(func(tx workqueue.Tx) error {
		cancelled, err := f.client.Table().In(tx).Cancel(f.Context(), []uuid.UUID{id}, "not wanted")
		equal(t, "cancelled", len(cancelled), 1)
		return err
	})
	equal(t, "slots while it runs", f.slots(), 1)
	admitted, _ := f.admit()
	equal(t, "admitted beside it", admitted, 0)
	_, err := f.client.Table().On(f.Pool).Retry(f.Context(), token, []uuid.UUID{id}, "context cancelled")
	f.ok(err)
	equal(t, "slots", f.slots(), 0)
}

// A queue without a limit of running jobs has no slots, because nothing would count them.
func TestASweepGivesSlotsWhereThereIsALimitOnly(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.limit("default", jobs.Limits{Rate: 1, Burst: 10})
	f.enqueue(mail{})
	f.claimAdmitted(1)
	f.sweep()
	equal(t, "slots", f.slots(), 0)
}

// Jobs that wait to be claimed take no slots, and a bounded sweep continues where the previous one ended.
func TestASweepCountsWhatRunsAndNothingElse(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	for range 3 {
		f.enqueue(mail{})
	}
	f.claimAdmitted(3)
	f.enqueue(mail{}) // Ready
	f.limit("default", jobs.Limits{MaxRunning: 10})
	for _, want := range []int{2, 3, 3} {
		f.exec("SELECT " + f.table + "_slot_sweep(2)")
		equal(t, "slots", f.slots(), want)
	}
}

// A slot is as old as its job has been running. The sweep gives back only slots without a running job, however old the
// others are.
func TestALongJobKeepsItsSlot(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	f.limit("default", jobs.Limits{MaxRunning: 1})
	f.enqueue(mail{})
	f.claimAdmitted(1)
	f.age()
	f.sweep()
	equal(t, "slots", f.slots(), 1)
}

// A job was changed bypassing the triggers, so no settle will give its slot back. The sweep has to.
func TestASweepGivesBackWhatNoSettleWill(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"the job is Ready":                 "status = 0, locked_until = NULL",
		"the job has lost the slot's mark": "slot = NULL",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newJobs(t, anyKind)
			f.limit("default", jobs.Limits{MaxRunning: 1})
			f.enqueue(mail{})
			f.claimAdmitted(1)
			f.exec("UPDATE " + f.table + "_queue SET adopt = false")
			f.exec("ALTER TABLE " + f.table + " DISABLE TRIGGER USER")
			f.exec("UPDATE " + f.table + " SET " + change)
			f.exec("ALTER TABLE " + f.table + " ENABLE TRIGGER USER")
			f.age()
			f.sweep()
			equal(t, "slots", f.slots(), 0)
		})
	}
}

// If a sweep waited for an application's transaction, the slots of all other queues would not be swept meanwhile.
func TestASweepOfSlotsWaitsForNobody(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before func(*fixture)
		held   string
	}{
		"an application changes the rule": {func(f *fixture) {
			// nothing is left to adopt
			f.exec("UPDATE " + f.table + "_queue SET changed_at = now() - interval '1 minute'")
		}, "SELECT FROM %_queue FOR UPDATE"},
		"a running job is being settled": {func(f *fixture) {
			f.exec("DELETE FROM " + f.table + "_slot") // so that the sweep has to adopt the job
		}, "SELECT FROM % FOR UPDATE"},
		"a slot is being given back": {func(f *fixture) {
			f.exec("UPDATE " + f.table + "_queue SET adopt = false")
			f.exec("UPDATE " + f.table + " SET slot = NULL")
			f.age()
		}, "SELECT FROM %_slot FOR UPDATE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newJobs(t, anyKind)
			f.limit("default", jobs.Limits{MaxRunning: 1})
			f.enqueue(mail{})
			f.claimAdmitted(1)
			c.before(f)
			f.hold(f.named(c.held), f.sweepAtOnce)
		})
	}
}

// countWrites counts the row versions of jobs that are written from now on.
func (f *fixture) countWrites() (writes func() int) {
	f.Helper()
	f.exec(f.named(`CREATE TABLE writes (n int);
		CREATE FUNCTION note_write() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS 'BEGIN INSERT INTO writes VALUES (1); RETURN NULL; END';
		CREATE TRIGGER note_write AFTER UPDATE ON % FOR EACH ROW EXECUTE FUNCTION note_write()`))
	return func() int { return ask[int](f, "SELECT count(*) FROM writes") }
}

// Every additional version of a row has to be vacuumed, so each step of a job's life may write only one.
func TestJobsAreWrittenOnceAStep(t *testing.T) {
	t.Parallel()
	t.Run("a job without a unique key is acked", func(t *testing.T) {
		t.Parallel()
		f := newJobs(t, anyKind)
		id := f.enqueue(mail{}).ID
		token := f.claimAdmitted(1)
		writes := f.countWrites()
		_, err := f.client.Table().On(f.Pool).Ack(f.Context(), token, []uuid.UUID{id})
		f.ok(err)
		equal(t, "versions", writes(), 1)
	})
	t.Run("a job takes a slot a second time", func(t *testing.T) {
		t.Parallel()
		f := newJobs(t, anyKind)
		f.limit("default", jobs.Limits{MaxRunning: 1})
		id := f.enqueue(mail{}, jobs.Insert{Retry: atOnce}).ID
		token := f.claimAdmitted(1)
		_, err := f.client.Table().On(f.Pool).Retry(f.Context(), token, []uuid.UUID{id}, "no")
		f.ok(err)
		writes := f.countWrites()
		f.claimAdmitted(1)
		equal(t, "versions", writes(), 1)
	})
}

// A job that was never claimed has had no attempt.
func TestACancelledJobThatNeverRanHasNoAttemptOnRecord(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	id := f.enqueue(mail{}, jobs.Insert{Delay: time.Hour}).ID
	f.ok(pgx.BeginFunc(f.Context(), f.Pool, func(tx pgx.Tx) error {
		_, err := f.client.Table().In(workqueue.Pgx(tx)).Cancel(f.Context(), []uuid.UUID{id}, "not wanted")
		return err
	}))
	equal(t, "attempts on record", len(f.history(id)), 0)
}

// The sweep looks for jobs that took no slot because they were claimed before the queue had a limit. It goes on for as
// long as it finds any, and for as long as a worker may claim without knowing the limit.
func TestJobsAreAdoptedUntilEveryWorkerKnowsTheLimit(t *testing.T) {
	t.Parallel()
	f := newJobs(t, anyKind)
	adopts := func() bool { return ask[bool](f, "SELECT adopt FROM "+f.table+"_queue") }
	f.enqueue(mail{})
	f.claimAdmitted(1)
	f.limit("default", jobs.Limits{MaxRunning: 1})
	f.exec("DELETE FROM " + f.table + "_slot")
	f.sweep() // finds the job
	f.sweep()
	equal(t, "a limit that is new", adopts(), true)
	f.exec("UPDATE " + f.table + "_queue SET changed_at = now() - interval '1 minute'")
	f.exec("DELETE FROM " + f.table + "_slot")
	f.sweep()
	equal(t, "a sweep that found one", adopts(), true)
	f.sweep()
	equal(t, "a sweep that found none", adopts(), false)
}

// Workers that wait for a slot are notified when one is given back.
func TestASlotThatIsGivenBackIsAnnounced(t *testing.T) {
	t.Parallel()
	for name, give := range map[string]func(*fixture, uuid.UUID, uuid.UUID){
		"by a settle": func(f *fixture, token, id uuid.UUID) {
			_, err := f.client.Table().On(f.Pool).Ack(f.Context(), token, []uuid.UUID{id})
			f.ok(err)
		},
		"by a sweep": func(f *fixture, _, _ uuid.UUID) {
			f.exec("UPDATE " + f.table + "_queue SET adopt = false")
			f.exec("UPDATE " + f.table + " SET slot = NULL")
			f.age()
			f.sweep()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newJobs(t, anyKind)
			f.limit("default", jobs.Limits{MaxRunning: 1})
			id := f.enqueue(mail{}).ID
			token := f.claimAdmitted(1)
			next := pgtest.Listen(t, f.Pool, f.table)
			give(f, token, id)
			next()
		})
	}
}

func TestTheSweepOfSlotsRefusesBadInput(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	for _, rows := range []string{"0", "-1", "NULL"} {
		if _, err := f.Pool.Exec(t.Context(), "SELECT "+f.table+"_slot_sweep("+rows+")"); err == nil ||
			!strings.Contains(err.Error(), "max_rows") {
			t.Errorf("%s: error %v", rows, err)
		}
	}
}
