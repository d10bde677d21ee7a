package join_test

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

// A join whose continuation is locked ends half a second later, and other joins end meanwhile.
func TestAHeldContinuationHoldsUpNoOtherJoin(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	held, other := f.fan(1), f.fan(1)
	members := append(held.members, other.members...)
	token := f.claim(members...)
	f.hold("SELECT FROM steps WHERE id = '"+held.onFail.String()+"' FOR UPDATE", func() {
		f.atOnce(func(tx workqueue.Tx) error {
			if _, err := f.table.In(tx).Ack(t.Context(), token, members); err != nil {
				return err
			}
			_, err := tx.Exec(t.Context(), "SELECT steps_join_fold(1000)")
			return err
		})
		if got := ask[int](f, "SELECT status FROM steps_join WHERE id = $1", other.id); got != int(join.Completed) {
			t.Errorf("another join has the status %d, want it completed", got)
		}
		// A refusal of the database would postpone it for a minute.
		if later := ask[float64](f, "SELECT extract(epoch FROM max(at) - now()) FROM steps_join_note"); later > 10 {
			t.Errorf("the join is looked at again in %v s, want half a second", later)
		}
	})
	f.eventually(held.id, counts{join.Completed, 1, 0, 0})
	f.wantNext(held, released, notNeeded)
}

// A purge leaves locked memberships and their joins.
func TestAPurgeLeavesWhatIsHeld(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fan := f.fan(2)
	f.ack(fan.members...)
	f.ack(fan.onComplete)
	f.want(fan.id, counts{join.Completed, 2, 0, 0})
	purge := func(want int) {
		f.atOnce(func(tx workqueue.Tx) error {
			n, err := f.joins.Purge(t.Context(), tx, 0, 10)
			if n != want {
				t.Errorf("%d joins are purged, want %d", n, want)
			}
			return err
		})
	}
	f.hold("SELECT FROM steps_join_member WHERE member_id = '"+fan.members[0].String()+"' FOR UPDATE", func() { purge(0) })
	purge(1)
	if n := ask[int](f, "SELECT count(*) FROM steps_join_member"); n != 0 {
		t.Errorf("%d memberships are left, want none", n)
	}
}

// However many joins a fold looks at, it writes notes only for those that are over and have not ended. It would
// otherwise look at the others for ever.
func TestAFoldOfManyJoinsComesToAnEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const many = 301 // one more than a fold ends at once
	steps := f.steps(3 * many)
	joins := make([]join.Join, many)
	for i := range joins {
		joins[i] = join.Join{Members: []uuid.UUID{steps[i], steps[many+i], steps[2*many+i]}, Policy: join.FailFast}
	}
	_, err := f.start(joins...)
	f.ok(err)
	token := f.claim(steps...)
	_, err = f.queue.Ack(t.Context(), token, steps[:many])
	f.ok(err)
	f.foldsUp("are pending", join.Pending, many)
	_, err = f.queue.Fail(t.Context(), token, steps[many:2*many], "no good")
	f.ok(err)
	f.foldsUp("fail", join.Failed, many)
	_, err = f.queue.Ack(t.Context(), token, steps[2*many:])
	f.ok(err)
	f.foldsUp("have ended", join.Failed, many)
	if n := ask[int](f, "SELECT count(*) FROM steps_join WHERE late = 1"); n != many {
		t.Errorf("%d joins have a step that was late, want all %d", n, many)
	}
}

// foldsUp folds until no note is left. Each fold goes on for a tenth of a second.
func (f *fixture) foldsUp(what string, status join.Status, joins int) {
	f.Helper()
	const folds = 100
	for range folds {
		f.exec("SELECT steps_join_fold(10000)")
		if ask[int](f, "SELECT count(*) FROM steps_join_note") > 0 {
			continue
		}
		if n := ask[int](f, "SELECT count(*) FROM steps_join WHERE status = $1", int(status)); n != joins {
			f.Errorf("%d joins %s, want %d", n, what, joins)
		}
		return
	}
	f.Fatalf("joins %s, and folds of them come to no end", what)
}

// enrolling begins a call that inserts memberships, and stops it before the first one, while it holds its locks. The
// call continues and commits when the returned function is called.
func (f *fixture) enrolling(call func(ctx context.Context, tx workqueue.Tx) error) (goOn func()) {
	f.Helper()
	f.exec(`CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(hashtext(TG_TABLE_SCHEMA)); RETURN NEW; END'`)
	f.exec("CREATE TRIGGER stop BEFORE INSERT ON steps_join_member FOR EACH ROW EXECUTE FUNCTION stop()")
	stop, err := f.Pool.Begin(f.Context())
	f.ok(err)
	_, err = stop.Exec(f.Context(), "SELECT pg_advisory_xact_lock(hashtext($1))", f.Schema)
	f.ok(err)
	ended := make(chan error, 1)
	go func() {
		ended <- f.inTx(func(tx workqueue.Tx) error { return call(f.Context(), tx) })
	}()
	f.waitingForLocks(1)
	return func() {
		f.Helper()
		f.ok(stop.Rollback(f.Context()))
		f.ok(<-ended)
	}
}

// waitingForLocks waits until n sessions wait for a lock in the test's schema.
func (f *fixture) waitingForLocks(n int) {
	f.Helper()
	if !pgtest.Await(pgtest.Patience, func() bool { return f.locked() == n }) {
		f.Fatalf("%d sessions wait for locks, want %d", f.locked(), n)
	}
}

// locked counts the sessions that wait for a lock in the test's schema.
func (f *fixture) locked() int {
	return ask[int](f, `SELECT count(DISTINCT l.pid) FROM pg_locks AS w JOIN pg_locks AS l USING (pid)
		WHERE NOT w.granted AND l.relation IN (SELECT oid FROM pg_class WHERE relnamespace = $1::regnamespace)`, f.Schema)
}

// A join does not end while a transaction that adds steps to it is open.
func TestAJoinThatIsAddedToStaysPending(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fan, more := f.fan(1), f.steps(1)
	token := f.claim(fan.members...)
	goOn := f.enrolling(func(ctx context.Context, tx workqueue.Tx) error {
		return f.joins.Add(ctx, tx, fan.id, more...)
	})
	_, err := f.queue.Ack(t.Context(), token, fan.members)
	f.ok(err)
	f.exec("SELECT steps_join_fold(1000)")
	goOn()
	f.eventually(fan.id, counts{join.Pending, 1, 0, 0})
	f.ack(more...)
	f.want(fan.id, counts{join.Completed, 2, 0, 0})
}

// A row that is a step of a join becomes a step of another one. Its settle waits for that, and both joins count it.
func TestASettleMeetsTheStartOfAJoin(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.fan(1)
	token := f.claim(first.members...)
	second := join.Join{ID: uuid.New(), Members: first.members}
	goOn := f.enrolling(func(ctx context.Context, tx workqueue.Tx) error {
		_, err := f.joins.Start(ctx, tx, second)
		return err
	})
	acked := make(chan error, 1)
	go func() {
		_, err := f.queue.Ack(context.Background(), token, first.members)
		acked <- err
	}()
	var err error
	settled := false
	pgtest.Await(pgtest.Patience, func() bool {
		select {
		case err = <-acked:
			settled = true
		default:
		}
		return settled || f.locked() == 2
	})
	f.exec("SELECT steps_join_fold(1000)")
	goOn()
	if !settled {
		err = <-acked
	}
	f.ok(err)
	f.want(first.id, counts{join.Completed, 1, 0, 0})
	f.want(second.ID, counts{join.Completed, 1, 0, 0})
}
