package join_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

// A holder is a statement of an application in a transaction that stays open. It concerns a join of three members, or
// its first member. The other two members are settled meanwhile, and the join has the wanted counts after the
// transaction's end.
type holder struct {
	hold func(f *fixture, tx workqueue.Tx, fan fan) error
	want counts
}

// locks is a holder that locks the rows that the query finds.
func locks(query string, of func(fan) uuid.UUID) holder {
	return holder{func(f *fixture, tx workqueue.Tx, fan fan) error {
		_, err := tx.Exec(f.Context(), query+" FOR UPDATE", of(fan))
		return err
	}, counts{join.Pending, 2, 0, 0}}
}

func (f fan) first() uuid.UUID { return f.members[0] }

var holders = map[string]holder{
	"has cancelled a member": {func(f *fixture, tx workqueue.Tx, fan fan) error {
		_, err := f.table.In(tx).Cancel(f.Context(), fan.members[:1], "no")
		return err
	}, counts{join.Failed, 2, 1, 0}},
	"has cancelled a continuation": {func(f *fixture, tx workqueue.Tx, fan fan) error {
		_, err := f.table.In(tx).Cancel(f.Context(), []uuid.UUID{fan.onComplete}, "no")
		return err
	}, counts{join.Pending, 2, 0, 0}},
	"has extended the join": {func(f *fixture, tx workqueue.Tx, fan fan) error {
		more, err := f.insert(f.Context(), tx, 1, nil)
		if err != nil {
			return err
		}
		return f.joins.Add(f.Context(), tx, fan.id, more...)
	}, counts{join.Pending, 2, 0, 0}},
	"has cancelled the join": {func(f *fixture, tx workqueue.Tx, fan fan) error {
		_, err := f.joins.Cancel(f.Context(), tx, fan.id, join.CancelOptions{})
		return err
	}, counts{join.Cancelled, 2, 0, 0}},
	"holds the join":     locks("SELECT FROM steps_join WHERE id = $1", func(f fan) uuid.UUID { return f.id }),
	"holds a member":     locks("SELECT FROM steps WHERE id = $1", fan.first),
	"holds a membership": locks("SELECT FROM steps_join_member WHERE member_id = $1", fan.first),
	"holds all memberships": locks("SELECT FROM steps_join_member WHERE join_id = $1",
		func(f fan) uuid.UUID { return f.id }),
	"holds a continuation": locks("SELECT FROM steps WHERE id = $1", func(f fan) uuid.UUID { return f.onFail }),
	"holds a note of a join": {func(f *fixture, tx workqueue.Tx, fan fan) error {
		f.exec("INSERT INTO steps_join_note (join_id) VALUES ($1)", fan.id)
		_, err := tx.Exec(f.Context(), "SELECT FROM steps_join_note WHERE join_id = $1 FOR UPDATE", fan.id)
		return err
	}, counts{join.Pending, 2, 0, 0}},
}

// Whatever an application locks, others settle, fold, reap and read at once, even members of the same join. The locked
// rows continue when its transaction has ended.
func TestNobodyWaitsForAnApplication(t *testing.T) {
	t.Parallel()
	for name, h := range holders {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			held, other := f.fan(3, deadline(time.Hour)), f.fan(2)
			token := f.claim(append(held.members[1:], other.members...)...)
			application, err := f.Pool.Begin(t.Context())
			f.ok(err)
			defer application.Rollback(t.Context())
			f.ok(h.hold(f, workqueue.Pgx(application), held))

			f.settlesAtOnce(token, append(held.members[1:], other.members[0]), other.members[1])
			f.maintainsAtOnce(held.id)
			if got := ask[int](f, "SELECT status FROM steps_join WHERE id = $1", other.id); got != int(join.Failed) {
				t.Errorf("another join has the status %d, want it failed", got)
			}
			f.wantNext(other, cancelled, released)
			f.ok(application.Commit(t.Context()))
			f.eventually(held.id, h.want)
		})
	}
}

// settlesAtOnce settles rows and folds, in transactions that fail if they have to wait for a lock.
func (f *fixture) settlesAtOnce(token uuid.UUID, done []uuid.UUID, failed uuid.UUID) {
	f.Helper()
	f.atOnce(func(tx workqueue.Tx) error {
		_, err := f.table.In(tx).Ack(f.Context(), token, done)
		return err
	})
	f.exec("UPDATE steps SET locked_until = now() - interval '1 second' WHERE id = $1", failed)
	f.atOnce(func(tx workqueue.Tx) error {
		reaped, err := f.table.In(tx).ReapExpired(f.Context(), 10)
		if reaped.Failed != 1 {
			f.Errorf("reaped %+v, want one that has failed", reaped)
		}
		return err
	})
	f.atOnce(func(tx workqueue.Tx) error {
		_, err := tx.Exec(f.Context(), "SELECT steps_join_fold(1000)")
		return err
	})
}

// maintainsAtOnce does what reapers and operators do, in such transactions.
func (f *fixture) maintainsAtOnce(id uuid.UUID) {
	f.Helper()
	f.atOnce(func(tx workqueue.Tx) error {
		if _, err := tx.Exec(f.Context(), "SELECT steps_join_sweep(100), steps_join_purge('1 hour', 100)"); err != nil {
			return err
		}
		_, err := f.joins.Get(f.Context(), tx, id)
		return err
	})
}

// eventually folds as often as the folds ask for it, until the join has the wanted counts.
func (f *fixture) eventually(id uuid.UUID, want counts) {
	f.Helper()
	if !pgtest.Await(pgtest.Patience, func() bool {
		s := f.state(id)
		return counts{s.Status, s.Succeeded, s.Failed, s.Late} == want
	}) {
		f.want(id, want)
	}
}

// Folds try locked rows again after half a second, and not before.
func TestWhatIsHeldIsFoldedLater(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fan := f.fan(2)
	token := f.claim(fan.members...)
	f.hold("SELECT FROM steps_join FOR UPDATE", func() {
		for _, id := range fan.members {
			_, err := f.queue.Ack(t.Context(), token, []uuid.UUID{id})
			f.ok(err)
			// How much time passes meanwhile depends on the machine, so the test reads the time in the note.
			begun := ask[time.Time](f, "SELECT clock_timestamp()")
			if again := ask[float64](f, "SELECT again FROM steps_join_fold(10)"); again > 0.5 {
				t.Errorf("the next fold is due in %v s, want half a second at most", again)
			}
			if due := ask[time.Time](f,
				"SELECT max(at) FROM steps_join_note"); due.Before(begun.Add(500 * time.Millisecond)) {
				t.Errorf("the next fold is due %v after it began, want half a second at least", due.Sub(begun))
			}
		}
		if marked := ask[int](f, "SELECT count(*) FROM steps_join_member WHERE outcome = 1"); marked != 2 {
			t.Errorf("%d members are marked, want both", marked)
		}
	})
	f.want(fan.id, counts{join.Pending, 0, 0, 0})
	f.eventually(fan.id, counts{join.Completed, 2, 0, 0})
	f.wantNext(fan, released, notNeeded)
}

// A row that its ack has deleted counts as succeeded, and not as deleted by hand, however long its note waits.
func TestADeletedRowIsCountedByItsNote(t *testing.T) {
	t.Parallel()
	f := newFixture(t, deleteDone)
	fan := f.fan(2, deadline(time.Hour))
	token := f.claim(fan.members...)
	f.hold("SELECT FROM steps_join_member FOR UPDATE", func() {
		_, err := f.queue.Ack(t.Context(), token, fan.members)
		f.ok(err)
		f.lookNow()
		f.sweep() // the join is counted anew: only the notes say how both members ended
	})
	f.eventually(fan.id, counts{join.Completed, 2, 0, 0})
}

// If the database refuses to end a join, other joins still end. The refused join ends once the database accepts it.
func TestARefusedEndIsPutOff(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	refused, other := f.fan(1), f.fan(1)
	f.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION USING ERRCODE = ''42501'', MESSAGE = ''not this one''; END'`)
	f.exec("CREATE TRIGGER refuse BEFORE UPDATE ON steps FOR EACH ROW WHEN (OLD.id = '" + refused.onComplete.String() +
		"' AND NOT NEW.waiting) EXECUTE FUNCTION refuse()")
	members := append(refused.members, other.members...)
	token := f.claim(members...)
	_, err := f.queue.Ack(t.Context(), token, members)
	f.ok(err)
	f.want(other.id, counts{join.Completed, 1, 0, 0})
	f.wantNext(other, released, notNeeded)
	f.want(refused.id, counts{join.Pending, 1, 0, 0})
	f.wantNext(refused, waits, waits)
	if again := ask[float64](f, "SELECT again FROM steps_join_fold(10)"); again < 30 || again > 60 {
		t.Errorf("the next fold is due in %v s, want a minute", again)
	}
	f.exec("DROP TRIGGER refuse ON steps")
	f.exec("UPDATE steps_join_note SET at = now()")
	f.want(refused.id, counts{join.Completed, 1, 0, 0})
	f.wantNext(refused, released, notNeeded)
}

// Only one session folds at a time. A second one gets NULLs, and so does a transaction with an old snapshot.
func TestOneFolderAtATime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fan := f.fan(2)
	_, err := f.queue.Ack(t.Context(), f.claim(fan.members[0]), fan.members[:1])
	f.ok(err)
	const refused = "SELECT folded IS NULL AND released IS NULL AND again IS NULL AND upto IS NULL FROM " +
		"steps_join_fold(10)"
	f.ok(pgx.BeginFunc(t.Context(), f.Pool, func(tx pgx.Tx) error {
		var folded int
		f.ok(tx.QueryRow(t.Context(), "SELECT folded FROM steps_join_fold(10)").Scan(&folded))
		if folded != 1 || !ask[bool](f, refused) {
			t.Errorf("folded %d, want 1 and nobody else to fold", folded)
		}
		return nil
	}))
	f.ok(pgx.BeginTxFunc(t.Context(), f.Pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		var yes bool
		f.ok(tx.QueryRow(t.Context(), refused).Scan(&yes))
		if !yes {
			t.Error("a fold under REPEATABLE READ is not refused")
		}
		return nil
	}))
}

// Notes commit and roll back with the change that they are about. A fold that rolls back leaves them.
func TestNotesBelongToTheirTransaction(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fan := f.fan(1)
	token := f.claim(fan.members...)
	notes := func() int { return ask[int](f, "SELECT count(*) FROM steps_join_note") }
	for _, end := range []func(tx pgx.Tx) error{
		func(tx pgx.Tx) error { return tx.Rollback(t.Context()) },
		func(tx pgx.Tx) error { return tx.Commit(t.Context()) },
	} {
		if n := notes(); n != 0 {
			t.Errorf("%d notes, want none", n)
		}
		tx, err := f.Pool.Begin(t.Context())
		f.ok(err)
		_, err = f.table.In(workqueue.Pgx(tx)).Ack(t.Context(), token, fan.members)
		f.ok(err)
		f.ok(end(tx))
	}
	tx, err := f.Pool.Begin(t.Context())
	f.ok(err)
	_, err = tx.Exec(t.Context(), "SELECT steps_join_fold(10)")
	f.ok(err)
	f.ok(tx.Rollback(t.Context()))
	if n := notes(); n != 1 {
		t.Errorf("%d notes are left of a fold that was rolled back, want 1", n)
	}
	f.want(fan.id, counts{join.Completed, 1, 0, 0})
}

// A fold takes at most max_notes notes, and none from before since.
func TestAFoldTakesWhatItIsAskedFor(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fan := f.fan(4)
	token := f.claim(fan.members[:3]...)
	_, err := f.queue.Ack(t.Context(), token, fan.members[:3])
	f.ok(err)
	f.exec("UPDATE steps_join_note SET at = now() - interval '1 hour' WHERE member_id = $1", fan.members[0])
	for _, want := range []struct {
		call   string
		folded int
		again  any
	}{
		{"1, now() - interval '1 minute'", 1, 0.0},
		{"10, now() - interval '1 minute'", 1, nil},
		{"10, now() - interval '1 minute'", 0, nil},
		{"10", 1, nil},
	} {
		var folded int
		var again *float64
		f.ok(f.Pool.QueryRow(t.Context(), "SELECT folded, again FROM steps_join_fold("+want.call+")").Scan(&folded,
			&again))
		if folded != want.folded || (again == nil) != (want.again == nil) || again != nil && *again != want.again {
			t.Errorf("fold(%s): %d notes, again %v, want %d, %v", want.call, folded, again, want.folded, want.again)
		}
	}
	if _, err := f.Pool.Exec(t.Context(), "SELECT steps_join_fold(0)"); err == nil {
		t.Error("a fold of no notes is not refused")
	}
}
