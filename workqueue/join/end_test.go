package join_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

func deadline(in time.Duration) func(*join.Join) {
	return func(j *join.Join) { j.Deadline = time.Now().Add(in) }
}

// A deadline fails a join of any policy; its steps run on and are counted as late.
func TestDeadline(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, p := range []join.Policy{join.WaitAll, join.FailFast, join.AnyOutcome} {
		over, later := f.fan(3, policy(p), deadline(time.Hour)), f.fan(1, policy(p), deadline(time.Hour))
		f.ack(over.members[0])
		f.want(over.id, counts{join.Pending, 1, 0, 0})
		f.expire(over.id)
		f.want(over.id, counts{join.Failed, 1, 0, 0})
		f.wantNext(over, cancelled, released)
		if got := f.state(over.id).LastError; got != "the deadline has passed" {
			t.Errorf("the join says %q", got)
		}
		f.ack(over.members[1])
		f.fail(over.members[2])
		f.want(over.id, counts{join.Failed, 1, 0, 2})
		f.want(later.id, counts{join.Pending, 0, 0, 0})
	}
}

// expire moves a join's deadline, and the note of it, into the past.
func (f *fixture) expire(id uuid.UUID) {
	f.Helper()
	f.exec("UPDATE steps_join SET deadline = now() - interval '1 second' WHERE id = $1", id)
	f.exec("UPDATE steps_join_note SET at = now() - interval '1 second' WHERE join_id = $1", id)
}

// A deadline in the past ends the join with the next fold; one that is still to come tells when to fold again.
func TestDeadlineDecidesWhenToFold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	past := f.fan(1, deadline(-time.Second))
	f.want(past.id, counts{join.Failed, 0, 0, 0})
	f.fan(1, deadline(time.Hour))
	if again := ask[float64](f, "SELECT again FROM steps_join_fold(10)"); again < 3500 || again > 3600 {
		t.Errorf("the next fold is due in %v seconds, want an hour", again)
	}
}

// A join whose steps have all settled keeps its result, even if they are only counted after its deadline.
func TestRepairComesBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fan := f.fan(2, deadline(time.Hour))
	f.unnoticed(func() { f.ack(fan.members...) })
	f.expire(fan.id)
	f.want(fan.id, counts{join.Completed, 2, 0, 0})
}

// unnoticed settles while the triggers are disabled, like a bug or a restore without triggers.
func (f *fixture) unnoticed(settle func()) {
	f.Helper()
	f.exec("ALTER TABLE steps DISABLE TRIGGER USER")
	settle()
	f.exec("ALTER TABLE steps ENABLE TRIGGER USER")
}

// The sweep ends stranded joins, and corrects counts that do not match the members.
func TestRepair(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	done, broken, removed, running := f.fan(2), f.fan(2), f.fan(2, policy(join.AnyOutcome)), f.fan(2)
	f.unnoticed(func() {
		f.ack(done.members...)
		f.ack(broken.members[0])
		f.fail(broken.members[1])
		f.exec("DELETE FROM steps WHERE id = ANY ($1)", removed.members)
		f.ack(running.members[0])
	})
	f.exec("UPDATE steps_join SET succeeded = 1, expected = 7 WHERE id = $1", done.id)
	if n := f.sweep(); n != 0 {
		t.Errorf("the sweep looked at %d joins before it was time", n)
	}
	f.lookNow()
	if n := f.sweep(); n != 4 {
		t.Errorf("the sweep looked at %d joins, want 4", n)
	}
	f.want(done.id, counts{join.Completed, 2, 0, 0})
	f.wantNext(done, released, notNeeded)
	f.want(broken.id, counts{join.Failed, 1, 1, 0})
	f.wantNext(broken, cancelled, released)
	f.want(removed.id, counts{join.Completed, 0, 2, 0})
	f.wantNext(removed, released, notNeeded)
	f.want(running.id, counts{join.Pending, 1, 0, 0})
	f.ack(running.members[1])
	f.want(running.id, counts{join.Completed, 2, 0, 0})
}

// The sweep looks at a pending join less and less often, but at least every quarter of an hour.
func TestWhenTheSweepLooksAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for age, want := range map[string]string{"5 seconds": "1 minute", "4 minutes": "4 minutes", "1 day": "15 minutes"} {
		id := f.fan(1).id
		f.exec("UPDATE steps_join SET created_at = now() - $2::text::interval, look_at = now() WHERE id = $1", id, age)
		f.sweep()
		if !ask[bool](f, "SELECT look_at - now() BETWEEN $2::text::interval - interval '10 seconds' AND "+
			"$2::text::interval + interval '10 seconds' FROM steps_join WHERE id = $1", id, want) {
			t.Errorf("at an age of %s the next look is not in %s", age, want)
		}
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fan := f.fan(2)
	cancel := func(o join.CancelOptions) (was bool) {
		f.ok(f.inTx(func(tx workqueue.Tx) (err error) {
			was, err = f.joins.Cancel(t.Context(), tx, fan.id, o)
			return err
		}))
		return was
	}
	f.ack(fan.members[0])
	if !cancel(join.CancelOptions{Reason: "changed our mind\x00"}) || cancel(join.CancelOptions{}) {
		t.Error("want it cancelled once")
	}
	f.want(fan.id, counts{join.Cancelled, 1, 0, 0})
	f.wantNext(fan, cancelled, notNeeded)
	if got := f.state(fan.id).LastError; got != "changed our mind" {
		t.Errorf("the join says %q", got)
	}
	f.ack(fan.members[1])
	f.want(fan.id, counts{join.Cancelled, 1, 0, 1})

	fan = f.fan(3)
	f.ack(fan.members[0])
	f.claim(fan.members[1])
	cancel(join.CancelOptions{CancelMembers: true})
	f.want(fan.id, counts{join.Cancelled, 1, 0, 1})
	if got := f.fate(fan.members[2]); got != cancelled {
		t.Errorf("a Ready step is %s, want cancelled", got)
	}
	if !ask[bool](f, "SELECT cancelled_at IS NOT NULL AND status = 1 FROM steps WHERE id = $1", fan.members[1]) {
		t.Error("a step in progress was not told")
	}
	err := f.inTx(func(tx workqueue.Tx) error {
		_, err := f.joins.Cancel(t.Context(), tx, uuid.New(), join.CancelOptions{})
		return err
	})
	if !errors.Is(err, workqueue.ErrNotFound) {
		t.Errorf("no join: got the error %v, want ErrNotFound", err)
	}
}

// A continuation that was cancelled before is left alone, and the join ends all the same.
func TestCancelledContinuation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fan := f.fan(1)
	_, err := f.queue.Cancel(t.Context(), []uuid.UUID{fan.onComplete}, "no")
	f.ok(err)
	f.ack(fan.members...)
	f.want(fan.id, counts{join.Completed, 1, 0, 0})
	f.wantNext(fan, cancelled, notNeeded)
}

// One row may be both continuations of a join.
func TestOneContinuationForBoth(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	both := func(j *join.Join) { j.OnFail = j.OnComplete }
	for _, settle := range []func(...uuid.UUID){f.ack, f.fail} {
		fan := f.fan(1, both)
		settle(fan.members...)
		if got := f.fate(fan.onComplete); got != released {
			t.Errorf("the continuation is %s, want released", got)
		}
	}
	many := make([]fan, 100) // ended by one statement
	var members []uuid.UUID
	for i := range many {
		many[i] = f.fan(1, both)
		members = append(members, many[i].members...)
	}
	f.ack(members...)
	for _, fan := range many {
		if got := f.fate(fan.onComplete); got != released {
			t.Errorf("one continuation of many is %s, want released", got)
		}
	}
	fan := f.fan(1, both)
	f.ok(f.inTx(func(tx workqueue.Tx) error {
		_, err := f.joins.Cancel(t.Context(), tx, fan.id, join.CancelOptions{})
		return err
	}))
	if got := f.fate(fan.onComplete); got != cancelled {
		t.Errorf("the continuation is %s, want cancelled", got)
	}
}

// A released continuation is announced. It keeps its due time, but is not due before now.
func TestRelease(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	listener, err := f.Pool.Acquire(t.Context())
	f.ok(err)
	defer listener.Release()
	_, err = listener.Exec(t.Context(), `LISTEN "`+f.table.Name()+`"`)
	f.ok(err)
	fan := f.fan(1)
	f.exec("UPDATE steps SET due_at = 'yesterday' WHERE id = $1", fan.onComplete)
	token := f.claim(fan.members...)
	announced := func() {
		t.Helper()
		if n, err := listener.Conn().WaitForNotification(t.Context()); err != nil || n.Payload == "" {
			t.Errorf("got %v, %v", n, err)
		}
	}
	announced() // the inserts
	_, err = f.queue.Ack(t.Context(), token, fan.members)
	f.ok(err)
	announced() // a note to fold
	f.fold()
	announced()
	if age := ask[float64](f, "SELECT extract(epoch FROM clock_timestamp() - due_at) FROM steps WHERE id = $1",
		fan.onComplete); age < 0 || age > 60 {
		t.Errorf("it was due %v seconds ago", age)
	}
	rows, err := f.queue.Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 10)
	f.ok(err)
	if len(rows) != 1 || rows[0].ID != fan.onComplete {
		t.Errorf("claimed %v, want the continuation", rows)
	}
}

// Ended joins are kept for the table's retention, then the sweep deletes them. Purge does it sooner.
func TestRetention(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(s *workqueue.Spec) { s.Retention = time.Hour })
	ended, pending := f.fan(2), f.fan(2)
	f.ack(ended.members...)
	f.ack(ended.onComplete)
	f.sweep()
	f.want(ended.id, counts{join.Completed, 2, 0, 0})
	if !ask[bool](f, "SELECT look_at = completed_at + interval '1 hour' OR look_at - completed_at BETWEEN interval "+
		"'59 minutes' AND interval '61 minutes' FROM steps_join WHERE id = $1", ended.id) {
		t.Error("it is not kept for an hour")
	}
	f.exec("UPDATE steps_join SET look_at = now() - interval '1 second'")
	f.sweep()
	left := func() (joins, members int) {
		return ask[int](f, "SELECT count(*) FROM steps_join"), ask[int](f, "SELECT count(*) FROM steps_join_member")
	}
	if joins, members := left(); joins != 1 || members != 2 {
		t.Errorf("%d joins and %d members are left, want the pending one", joins, members)
	}
	f.ack(pending.members...)
	f.ack(pending.onComplete)
	purge := func(age time.Duration, limit int) (n int, err error) {
		err = f.inTx(func(tx workqueue.Tx) error {
			n, err = f.joins.Purge(t.Context(), tx, age, limit)
			return err
		})
		return n, err
	}
	if n, err := purge(time.Minute, 10); n != 0 || err != nil {
		t.Errorf("purged %d, %v, want none yet", n, err)
	}
	f.exec("UPDATE steps_join SET completed_at = now() - interval '2 minutes'")
	if n, err := purge(time.Minute, 10); n != 1 || err != nil {
		t.Errorf("purged %d, %v, want 1", n, err)
	}
	if joins, members := left(); joins+members != 0 {
		t.Errorf("%d joins and %d members are left", joins, members)
	}
	for _, bad := range [][2]int{{-1, 1}, {1, 0}, {1, workqueue.MaxBatch + 1}} {
		if _, err := purge(time.Duration(bad[0]), bad[1]); !errors.Is(err, workqueue.ErrInvalid) {
			t.Errorf("purge %v: got the error %v", bad, err)
		}
	}
}

// A join is kept for as long as its continuation may still run and read it: also as a dead letter, which may be
// redriven. It delays the deletion of no other join.
func TestAJoinIsKeptForItsContinuation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	kept, other := f.fan(1), f.fan(1)
	f.ack(kept.members...)
	f.ack(other.members...)
	f.ack(other.onComplete)
	f.exec("UPDATE steps_join SET completed_at = completed_at - interval '1 hour' WHERE id = $1", kept.id) // the first
	sweep := func(want int) {
		t.Helper()
		f.exec("UPDATE steps_join SET look_at = now() - interval '1 second'")
		f.exec("SELECT steps_join_purge('0', 1)")
		f.exec("SELECT steps_join_sweep(100)")
		if n := ask[int](f, "SELECT count(*) FROM steps_join"); n != want {
			t.Errorf("%d joins are left, want %d", n, want)
		}
		if n := ask[int](f, "SELECT count(*) FROM steps_join WHERE look_at <= now()"); n != 0 {
			t.Errorf("the next sweep looks at %d joins again", n)
		}
	}
	f.exec("SELECT steps_join_purge('0', 1)")
	if n := ask[int](f, "SELECT count(*) FROM steps_join WHERE id = $1", other.id); n != 0 {
		t.Error("a join that is kept delays the deletion of another one")
	}
	sweep(1) // ready
	f.fail(kept.onComplete)
	sweep(1) // a dead letter
	_, err := f.table.On(f.Pool).Redrive(t.Context(), []uuid.UUID{kept.onComplete}, "test")
	f.ok(err)
	sweep(1)
	f.ack(kept.onComplete)
	sweep(0)
}

// A fold counts a bounded number of members anew, and writes notes for the remaining joins.
func TestAFoldCountsABoundedNumberOfMembersAnew(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 3 {
		f.fan(1)
	}
	f.exec("UPDATE steps_join SET expected = 15000")
	f.exec("INSERT INTO steps_join_note (join_id) SELECT id FROM steps_join")
	for _, want := range []int{1, 0} {
		f.exec("SELECT steps_join_fold(3)")
		if left := ask[int](f, "SELECT count(*) FROM steps_join WHERE expected = 15000"); left != want {
			t.Errorf("%d joins are left to count, want %d", left, want)
		}
	}
}

// A sweep deletes a bounded number of memberships.
func TestASweepForgetsABoundedNumberOfMembers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fan := f.fan(1)
	f.ack(fan.members...)
	f.ack(fan.onComplete)
	f.exec("INSERT INTO steps_join_member (member_id, join_id) SELECT gen_random_uuid(), $1 FROM generate_series(1, 30000)", fan.id)
	f.lookNow()
	for _, want := range [][2]int{{1, 10_001}, {0, 0}} {
		f.sweep()
		joins, members := ask[int](f, "SELECT count(*) FROM steps_join"),
			ask[int](f, "SELECT count(*) FROM steps_join_member")
		if joins != want[0] || members != want[1] {
			t.Errorf("%d joins and %d members are left, want %v", joins, members, want)
		}
	}
}

// A cancel locks members before their join, as Add does. In the opposite order the two could deadlock.
func TestACancelThatWaitsForAMemberHoldsNoJoin(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fan := f.fan(1)
	application, err := f.Pool.Begin(t.Context())
	f.ok(err)
	defer application.Rollback(t.Context())
	_, err = application.Exec(t.Context(), "UPDATE steps SET name = 'held' WHERE id = $1", fan.members[0])
	f.ok(err)
	done := make(chan error, 1)
	go func() {
		done <- f.inTx(func(tx workqueue.Tx) error {
			_, err := f.joins.Cancel(t.Context(), tx, fan.id, join.CancelOptions{CancelMembers: true})
			return err
		})
	}()
	f.awaitLockWait()
	f.exec("SELECT FROM steps_join WHERE id = $1 FOR UPDATE NOWAIT", fan.id)
	f.ok(application.Commit(t.Context()))
	f.ok(<-done)
	f.want(fan.id, counts{join.Cancelled, 0, 0, 1})
}
