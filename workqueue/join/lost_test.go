package join_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

// The sweep counts settled steps whose notes are lost, and redrives, too.
func TestLostNotes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	settled, redriven, running := f.fan(2), f.fan(2), f.fan(2)
	f.fail(redriven.members[0], running.members[0])
	_, err := f.queue.Redrive(t.Context(), []uuid.UUID{redriven.members[0], running.members[0]}, "somebody")
	f.ok(err)
	f.exec("UPDATE steps SET due_at = $2 WHERE id = $1", running.members[0], never)
	ids := append(settled.members, redriven.members...)
	_, err = f.queue.Ack(t.Context(), f.claimUnfolded(ids...), ids)
	f.ok(err)
	f.exec("TRUNCATE steps_join_note")
	f.lookNow()
	f.sweep()
	f.want(settled.id, counts{join.Completed, 2, 0, 0})
	f.wantNext(settled, released, notNeeded)
	f.want(redriven.id, counts{join.Completed, 2, 0, 0})
	f.want(running.id, counts{join.Pending, 0, 0, 0})
	f.ack(running.members...)
	f.want(running.id, counts{join.Completed, 2, 0, 0})
}

// claimUnfolded is claim without a fold.
func (f *fixture) claimUnfolded(ids ...uuid.UUID) (token uuid.UUID) {
	f.Helper()
	token = workqueue.NewOwnerToken()
	f.exec("UPDATE steps SET due_at = now() WHERE id = ANY ($1)", ids)
	rows, err := f.queue.Claim(f.Context(), token, time.Minute, len(ids))
	f.ok(err)
	if len(rows) != len(ids) {
		f.Fatalf("claimed %d rows of %d", len(rows), len(ids))
	}
	return token
}

// A join whose memberships are gone fails, since the outcomes of its steps are unknown.
func TestLostMemberships(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lost, whole := f.fan(2), f.fan(2)
	f.ack(lost.members[0])
	f.exec("DELETE FROM steps_join_member WHERE join_id = $1", lost.id)
	f.lookNow()
	f.sweep()
	f.want(lost.id, counts{join.Failed, 0, 2, 0})
	if f.state(lost.id).LastError == "" {
		t.Error("the join does not say why it failed")
	}
	f.wantNext(lost, cancelled, released)
	f.want(whole.id, counts{join.Pending, 0, 0, 0})
}

// An ended join keeps its result, whatever happens to its steps and memberships. Only pending joins are counted anew.
func TestLostMembershipsOfEndedJoins(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lost, redriven := f.fan(2), f.fan(2)
	f.ack(lost.members...)
	f.ack(redriven.members[0])
	f.fail(redriven.members[1])
	f.exec("DELETE FROM steps_join_member WHERE join_id = $1", lost.id)
	f.unnoticed(func() {
		_, err := f.queue.Redrive(t.Context(), redriven.members[1:], "somebody")
		f.ok(err)
	})
	f.exec("INSERT INTO steps_join_note (join_id) SELECT id FROM steps_join")
	f.want(lost.id, counts{join.Completed, 2, 0, 0})
	f.want(redriven.id, counts{join.Failed, 1, 1, 0})
}

// A step whose row is gone has failed, even if there are notes of other rows or joins.
func TestLostStepsBesideNotes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lost := f.fan(1)
	f.fan(1, deadline(time.Hour)) // writes a note of a join, which is due then
	f.unnoticed(func() { f.exec("DELETE FROM steps WHERE id = ANY ($1)", lost.members) })
	f.lookNow()
	f.sweep()
	f.want(lost.id, counts{join.Failed, 0, 1, 0})
}

// A recount never waits: a later sweep counts a membership that is locked.
func TestAMembershipThatIsHeldIsCountedLater(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fan := f.fan(1)
	f.unnoticed(func() { f.ack(fan.members...) })
	f.lookNow()
	f.hold("SELECT FROM steps_join_member FOR UPDATE", func() {
		f.atOnce(func(tx workqueue.Tx) error {
			if _, err := tx.Exec(t.Context(), "SELECT steps_join_sweep(100)"); err != nil {
				return err
			}
			_, err := tx.Exec(t.Context(), "SELECT steps_join_fold(100)")
			return err
		})
	})
	f.want(fan.id, counts{join.Pending, 0, 0, 0})
	f.lookNow()
	f.sweep()
	f.want(fan.id, counts{join.Completed, 1, 0, 0})
}

// Waiting rows whose join is gone become dead letters, which an operator may redrive.
func TestLostJoins(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lost, kept := f.fan(1), f.fan(1)
	f.exec("DELETE FROM steps_join WHERE id = $1", lost.id)
	stranded := func() int {
		f.fromTheStart()
		return ask[int](f, "SELECT steps_join_sweep(100)")
	}
	if n := stranded(); n != 0 {
		t.Errorf("%d rows were ended whose join may still be started", n)
	}
	f.exec("UPDATE steps SET created_at = now() - interval '16 minutes'")
	if n := stranded(); n != 2 {
		t.Errorf("%d rows were ended, want 2", n)
	}
	for _, id := range []uuid.UUID{lost.onComplete, lost.onFail} {
		if !ask[bool](f, "SELECT status = 3 AND failed_at IS NOT NULL AND cancelled_at IS NULL AND last_error LIKE "+
			"'%gone%' FROM steps WHERE id = $1", id) {
			t.Errorf("%s is no dead letter with a reason", id)
		}
	}
	f.wantNext(kept, waits, waits)
	_, err := f.queue.Redrive(t.Context(), []uuid.UUID{lost.onComplete}, "somebody")
	f.ok(err)
	f.ack(lost.onComplete, lost.members[0])
	f.ack(kept.members...)
	f.wantNext(kept, released, notNeeded)
}

// fromTheStart makes the next sweep look at waiting rows from the first.
func (f *fixture) fromTheStart() {
	f.Helper()
	f.exec("UPDATE steps_join_cursor SET row_id = '00000000-0000-0000-0000-000000000000', swept_at = '-infinity'")
}

// A sweep looks at some of the waiting rows, the next one continues after them, and at the end it starts over.
func TestTheSweepGoesThroughWhatWaits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.steps(3)
	_, err := f.queue.Cancel(t.Context(), f.steps(3, waiting), "no")
	f.ok(err)
	f.steps(5, waiting)
	f.exec("UPDATE steps SET created_at = now() - interval '16 minutes'")
	f.exec("TRUNCATE steps_join_cursor")
	sweep := func() int { return ask[int](f, "SELECT steps_join_sweep(2)") }
	if n := sweep(); n != 0 {
		t.Errorf("a sweep without a cursor ended %d rows", n)
	}
	if n := sweep(); n != 2 {
		t.Errorf("the first sweep ended %d rows, want 2", n)
	}
	if n := sweep(); n != 0 {
		t.Errorf("a sweep within five seconds ended %d rows", n)
	}
	// they wait again, without the triggers
	f.exec("UPDATE steps SET status = 0, completed_at = NULL, failed_at = NULL WHERE status = 3 AND cancelled_at IS NULL")
	for _, want := range []int{2, 1, 2} { // the third finds two of the first
		f.exec("UPDATE steps_join_cursor SET swept_at = '-infinity'")
		if n := sweep(); n != want {
			t.Errorf("a sweep ended %d rows, want %d", n, want)
		}
	}
}

// A sweep waits neither for a lock on the cursor nor for a locked row.
func TestTheSweepLeavesWaitingRowsThatAreHeld(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.steps(2, waiting)
	f.exec("UPDATE steps SET created_at = now() - interval '16 minutes'")
	for _, held := range []string{"SELECT FROM steps_join_cursor FOR UPDATE", "SELECT FROM steps FOR UPDATE"} {
		f.hold(held, func() { f.atOnceSweep(0) })
		f.fromTheStart()
	}
	f.atOnceSweep(2)
}

// The sweep only reads rows that wait for an existing join, so no other session has to wait for the sweep.
func TestTheSweepHoldsNoRowThatWaitsForItsJoin(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	kept := f.fan(1)
	f.exec("UPDATE steps SET created_at = now() - interval '16 minutes'")
	f.hold("SELECT steps_join_sweep(100)", func() {
		f.atOnce(func(tx workqueue.Tx) error {
			_, err := tx.Exec(t.Context(), "SELECT FROM steps WHERE id = $1 FOR UPDATE", kept.onComplete)
			return err
		})
	})
}

// atOnceSweep sweeps, fails if that waits for a lock, and compares how many rows it handled.
func (f *fixture) atOnceSweep(want int) {
	f.Helper()
	f.atOnce(func(tx workqueue.Tx) error {
		n, err := f.table.In(tx).Sweep(f.Context(), 100)
		if n != want {
			f.Errorf("the sweep dealt with %d rows, want %d", n, want)
		}
		return err
	})
}
