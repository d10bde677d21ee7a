package join_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

// hold runs work while another transaction holds the locks of a statement.
func (f *fixture) hold(statement string, work func()) {
	f.Helper()
	f.ok(f.inTx(func(tx workqueue.Tx) error {
		_, err := tx.Exec(f.Context(), statement)
		work()
		return err
	}))
}

// atOnce runs work in a transaction that fails if it has to wait for a lock.
func (f *fixture) atOnce(work func(tx workqueue.Tx) error) {
	f.Helper()
	f.ok(f.inTx(func(tx workqueue.Tx) error {
		if _, err := tx.Exec(f.Context(), "SET LOCAL lock_timeout = '1s'"); err != nil {
			return err
		}
		return work(tx)
	}))
}

// An application's statements that update or delete steps which have ended are not settles: a step counts once.
func TestAStepThatHasEndedIsNotCountedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fan := f.fan(2)
	f.ack(fan.members[0])
	f.fail(fan.members[1])
	want := counts{join.Failed, 1, 1, 0}
	f.want(fan.id, want)
	f.exec("UPDATE steps SET completed_at = completed_at - interval '1 hour' WHERE id = ANY ($1)", fan.members)
	f.want(fan.id, want)
	f.exec("DELETE FROM steps WHERE id = ANY ($1)", fan.members)
	f.want(fan.id, want)
}

// An attempt that will be retried does not concern the join, and does not wait for the join's row.
func TestARetryDoesNotTouchTheJoin(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fan := f.fan(1)
	f.exec("UPDATE steps SET max_attempts = 3")
	token := f.claim(fan.members...)
	f.hold("SELECT FROM steps_join FOR UPDATE", func() {
		f.atOnce(func(tx workqueue.Tx) error {
			_, err := f.table.In(tx).Retry(t.Context(), token, fan.members, "no")
			return err
		})
	})
	f.want(fan.id, counts{join.Pending, 0, 0, 0})
}

// A continuation that was cancelled stays as a Failed row for operators to see, even if the table deletes Done rows.
func TestACancelledContinuationIsKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t, deleteDone)
	fan := f.fan(1)
	_, err := f.queue.Cancel(t.Context(), []uuid.UUID{fan.onFail}, "no")
	f.ok(err)
	f.ack(fan.members...)
	if got := f.fate(fan.onFail); got != cancelled {
		t.Errorf("the continuation is %s, want cancelled", got)
	}
}

// The end of a join that releases nothing is not announced: every worker of the table would look for rows in vain.
func TestAJoinThatReleasesNothingWakesNobody(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		without func(*join.Join)
		settle  func(f *fixture, token uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error)
	}{
		"completed without an on-complete": {func(j *join.Join) { j.OnComplete = uuid.Nil },
			func(f *fixture, token uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
				return f.queue.Ack(t.Context(), token, ids)
			}},
		"failed without an on-fail": {func(j *join.Join) { j.OnFail = uuid.Nil },
			func(f *fixture, token uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
				return f.queue.Fail(t.Context(), token, ids, "no good")
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			fan := f.fan(1, c.without)
			f.exec("UPDATE steps SET joined = false WHERE waiting") // nothing waits for them in turn
			_, err := c.settle(f, f.claim(fan.members...), fan.members)
			f.ok(err)
			next := pgtest.Listen(t, f.Pool, f.table.Name())
			f.fold()
			f.exec("SELECT pg_notify($1, 'the end')", f.table.Name())
			if n := next(); n.Payload != "the end" {
				t.Errorf("the workers were woken with %q", n.Payload)
			}
		})
	}
}

// In a table that deletes Done rows, a succeeded step is gone like a step that was deleted by hand. The sweep must not
// count a succeeded step as failed.
func TestTheSweepLeavesWhatHasCounted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, deleteDone)
	fan := f.fan(2)
	f.ack(fan.members[0])
	f.lookNow()
	f.sweep()
	f.want(fan.id, counts{join.Pending, 1, 0, 0})
	f.ack(fan.members[1])
	f.want(fan.id, counts{join.Completed, 2, 0, 0})
}

// A join that a deadline has ended is kept as long as any other.
func TestAJoinThatTheSweepEndsIsKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fan := f.fan(1, deadline(-time.Second))
	f.fold()
	f.sweep()
	f.want(fan.id, counts{join.Failed, 0, 0, 0})
}

// Sweeps, purges and cancels do not wait for rows that other sessions hold, and do not lock rows that they do not need.
func TestNobodyWaitsForOthersRows(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ended, pending := f.fan(1), f.fan(2)
	f.ack(ended.members...)
	f.ack(pending.members[0])
	f.exec("UPDATE steps_join SET look_at = now(), completed_at = completed_at - interval '1 hour'")
	f.hold("SELECT FROM steps_join FOR UPDATE", func() {
		f.atOnce(func(tx workqueue.Tx) error { _, err := f.table.In(tx).Sweep(t.Context(), 100); return err })
		f.atOnce(func(tx workqueue.Tx) error {
			n, err := f.joins.Purge(t.Context(), tx, time.Minute, 10)
			if n != 0 {
				t.Errorf("purged %d joins that are held", n)
			}
			return err
		})
	})
	f.hold("SELECT FROM steps WHERE completed_at IS NOT NULL FOR UPDATE", func() {
		f.atOnce(func(tx workqueue.Tx) error {
			_, err := f.joins.Cancel(t.Context(), tx, pending.id, join.CancelOptions{CancelMembers: true})
			return err
		})
	})
	f.want(pending.id, counts{join.Cancelled, 1, 0, 1})
}

// Each step is written once, since every further version of a row is another one to vacuum.
func TestRowsAreWrittenOnceAStep(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	members := f.steps(3) // they have the mark
	f.exec(`CREATE TABLE writes (n int);
		CREATE FUNCTION note_write() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS 'BEGIN INSERT INTO writes VALUES (1); RETURN NULL; END';
		CREATE TRIGGER note_write AFTER UPDATE ON steps FOR EACH ROW EXECUTE FUNCTION note_write();
		CREATE TRIGGER note_write AFTER UPDATE ON steps_join FOR EACH ROW EXECUTE FUNCTION note_write()`)
	writes := func() (n int) {
		n = ask[int](f, "SELECT count(*) FROM writes")
		f.exec("DELETE FROM writes")
		return n
	}
	_, err := f.start(join.Join{Members: members})
	f.ok(err)
	if n := writes(); n != 0 {
		t.Errorf("a start over rows with the mark wrote %d versions, want none", n)
	}
	f.exec("UPDATE steps_join SET look_at = now()")
	writes()
	f.sweep()
	if n := writes(); n != 1 {
		t.Errorf("a sweep wrote %d versions of a join that it found right, want 1", n)
	}
}
