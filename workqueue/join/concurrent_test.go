package join_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

// consistent checks every join against its members and every continuation against its join.
func (f *fixture) consistent() {
	f.Helper()
	f.fold()
	for what, query := range map[string]string{
		"counts are not those of the members": `SELECT count(*) FROM steps_join AS j WHERE NOT EXISTS (
				SELECT FROM steps_join_member AS m WHERE m.join_id = j.id
				HAVING count(*) = j.expected AND count(*) FILTER (WHERE m.late > 0) = j.late
				AND count(*) FILTER (WHERE m.outcome = 1) = j.succeeded AND count(*) FILTER (WHERE m.outcome = 2) = j.failed)`,
		"joins are pending though all steps have settled": `SELECT count(*) FROM steps_join AS j WHERE j.status = 0 AND NOT EXISTS (
				SELECT FROM steps_join_member AS m JOIN steps AS s ON s.id = m.member_id WHERE m.join_id = j.id AND s.completed_at IS NULL)`,
		"continuations wait for a join that has ended": `SELECT count(*) FROM steps AS s JOIN steps_join AS j ON s.id IN (j.on_complete, j.on_fail)
				WHERE j.status <> 0 AND s.waiting AND s.status = 0`,
		"continuations do not wait for a pending join": `SELECT count(*) FROM steps AS s JOIN steps_join AS j ON s.id IN (j.on_complete, j.on_fail)
				WHERE j.status = 0 AND NOT s.waiting`,
	} {
		if n := ask[int](f, query); n > 0 {
			f.Errorf("%d %s", n, what)
		}
	}
}

// Two transactions settle the last two steps, each before the other has committed, and neither waits. Each is counted
// when it has committed: the last completes the join, or is late.
func TestLastTwoStepsAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, test := range []struct {
		policy join.Policy
		settle func(q *workqueue.Queue, token uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error)
		want   counts
	}{
		{join.WaitAll, func(q *workqueue.Queue, token uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
			return q.Ack(t.Context(), token, ids)
		}, counts{join.Completed, 2, 0, 0}},
		{join.FailFast, func(q *workqueue.Queue, token uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
			return q.Fail(t.Context(), token, ids, "no good")
		}, counts{join.Failed, 0, 1, 1}},
	} {
		fan := f.fan(2, policy(test.policy))
		token := f.claim(fan.members...)
		first, err := f.Pool.Begin(t.Context())
		f.ok(err)
		_, err = test.settle(f.table.In(workqueue.Pgx(first)), token, fan.members[:1])
		f.ok(err)
		f.atOnce(func(tx workqueue.Tx) error {
			_, err := test.settle(f.table.In(tx), token, fan.members[1:])
			return err
		})
		f.fold()
		f.ok(first.Commit(t.Context()))
		f.want(fan.id, test.want)
		if test.want.status == join.Completed {
			f.wantNext(fan, released, notNeeded)
		} else {
			f.wantNext(fan, cancelled, released)
		}
	}
	f.consistent()
}

// Hundreds of joins, whose steps are settled concurrently in any order, each by its own goroutine.
func TestConcurrentSteps(t *testing.T) {
	t.Parallel()
	const steps = 4
	joins := pgtest.Size(50, 200)
	f := newFixture(t)
	var fans []fan
	var members []uuid.UUID
	for range joins {
		fan := f.fan(steps)
		fans, members = append(fans, fan), append(members, fan.members...)
	}
	token := f.claim(members...)
	rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	var group sync.WaitGroup
	for _, id := range members {
		group.Go(func() {
			if _, err := f.queue.Ack(t.Context(), token, []uuid.UUID{id}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for _, fan := range fans {
		f.want(fan.id, counts{join.Completed, steps, 0, 0})
		f.wantNext(fan, released, notNeeded)
	}
	f.consistent()
}

// Concurrent settles in batches that have steps of the same joins in different orders, with two folders.
func TestConcurrentBatches(t *testing.T) {
	t.Parallel()
	const joins, batch = 40, 20
	f := newFixture(t)
	members := f.steps(400)
	all := make([]join.Join, joins)
	for i := range all {
		rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		all[i].Members = append([]uuid.UUID(nil), members[:100]...)
	}
	ids, err := f.start(all...)
	f.ok(err)
	token := f.claim(members...)
	var group sync.WaitGroup
	for len(members) > 0 {
		part := members[:batch]
		members = members[batch:]
		group.Go(func() {
			half := len(part) / 2
			_, err := f.queue.Ack(t.Context(), token, part[:half])
			_, err2 := f.queue.Fail(t.Context(), token, part[half:], "no good")
			if err := errors.Join(err, err2); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for _, id := range ids {
		if s := f.state(id); s.Status == join.Pending || s.Succeeded+s.Failed != 100 {
			t.Errorf("%+v", s)
		}
	}
	f.consistent()
}

// Steps are added while other steps settle: each is counted, or refused because the join has ended.
func TestAddMeetsTheLastStep(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 30 {
		fan := f.fan(1)
		more := f.steps(1)
		token := f.claim(fan.members[0], more[0])
		var added error
		var group sync.WaitGroup
		group.Go(func() {
			added = f.inTx(func(tx workqueue.Tx) error { return f.joins.Add(t.Context(), tx, fan.id, more...) })
		})
		group.Go(func() {
			if _, err := f.queue.Ack(t.Context(), token, fan.members); err != nil {
				t.Error(err)
			}
		})
		group.Wait()
		if added != nil {
			if !errors.Is(added, join.ErrEnded) {
				t.Fatal(added)
			}
			f.want(fan.id, counts{join.Completed, 1, 0, 0})
			continue
		}
		f.want(fan.id, counts{join.Pending, 1, 0, 0})
		if _, err := f.queue.Ack(t.Context(), token, more); err != nil {
			t.Fatal(err)
		}
		f.want(fan.id, counts{join.Completed, 2, 0, 0})
	}
	f.consistent()
}

// Many joins, with workers that drop claims, settle twice or settle with stale claims, while sweeps and reapers run:
// every continuation runs once, and every count is right.
func TestManyJoinsWithRedeliveries(t *testing.T) {
	t.Parallel()
	const steps, claimers = 10, 4
	joins := pgtest.Size(50, 250)
	f := newFixture(t, func(s *workqueue.Spec) { s.MaxAttempts = 1000 })
	f.startMany(joins, steps)

	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	live := func() bool { return ask[bool](f, "SELECT EXISTS (SELECT FROM steps WHERE completed_at IS NULL)") }
	var group sync.WaitGroup
	for range claimers {
		group.Go(func() {
			for ctx.Err() == nil && live() {
				if err := f.claimer(ctx); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Go(func() {
		for ctx.Err() == nil && live() {
			// Claims that have not been settled for a while were dropped; their leases end early here.
			f.exec("UPDATE steps SET locked_until = now() - interval '1 second' WHERE id IN (SELECT id FROM steps " +
				"WHERE status = 1 ORDER BY random() LIMIT 50 FOR NO KEY UPDATE SKIP LOCKED)")
			if _, err := f.queue.ReapExpired(ctx, 1000); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			f.exec("UPDATE steps_join SET look_at = now() WHERE id IN (SELECT id FROM steps_join WHERE status = 0 " +
				"ORDER BY random() LIMIT 10 FOR NO KEY UPDATE SKIP LOCKED)")
			f.sweep()
		}
	})
	group.Wait()
	if live() {
		t.Fatal("rows are left")
	}
	f.consistent()
	if n := ask[int](f, "SELECT count(*) FROM steps_join WHERE status = 0"); n > 0 {
		t.Errorf("%d joins are pending", n)
	}
	for status, columns := range map[int][2]string{1: {"on_complete", "on_fail"}, 2: {"on_fail", "on_complete"}} {
		ran := ask[int](f, "SELECT count(*) FROM steps_join AS j JOIN effects AS e ON e.id = j."+columns[0]+
			" WHERE j.status = $1", status)
		want := ask[int](f, "SELECT count(*) FROM steps_join WHERE status = $1", status)
		wrong := ask[int](f, "SELECT count(*) FROM steps_join AS j JOIN effects AS e ON e.id = j."+columns[1]+
			" WHERE j.status = $1", status)
		if ran != want || wrong != 0 || want == 0 {
			t.Errorf("of %d joins with status %d, %d have run their continuation and %d the other", want, status, ran,
				wrong)
		}
	}
	settled := ask[int](f, "SELECT sum(succeeded + failed + late) FROM steps_join")
	if settled != joins*steps {
		t.Errorf("%d steps were counted, want %d", settled, joins*steps)
	}
}

// startMany starts joins of every policy, in transactions of ten, and creates a table that counts effects.
func (f *fixture) startMany(joins, steps int) {
	f.Helper()
	f.exec("CREATE TABLE effects (id uuid PRIMARY KEY)") // a second effect of a row is an error
	due := func(r *workqueue.NewRow) { r.DueAt = time.Time{} }
	for range joins / 10 {
		f.ok(f.inTx(func(tx workqueue.Tx) error {
			members, err := f.insert(f.Context(), tx, 10*steps, due)
			f.ok(err)
			next, err := f.insert(f.Context(), tx,
				20, func(r *workqueue.NewRow) { due(r); waiting(r); r.Values = []any{"next", nil} })
			f.ok(err)
			rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
			ten := make([]join.Join, 10)
			for i := range ten {
				ten[i] = join.Join{
					Members: members[i*steps : (i+1)*steps], OnComplete: next[2*i], OnFail: next[2*i+1],
					Policy: join.Policy(i % 3),
				}
			}
			_, err = f.joins.Start(f.Context(), tx, ten...)
			return err
		}))
	}
}

// claimer claims a batch, and drops, fails, retries or acks each row at random.
func (f *fixture) claimer(ctx context.Context) error {
	token := workqueue.NewOwnerToken()
	rows, err := f.queue.Claim(ctx, token, time.Minute, 20)
	if err != nil {
		return err
	}
	var batch []uuid.UUID
	for _, r := range rows {
		switch n := rand.IntN(20); {
		case n < 2: // dropped: the reaper finds it
		case n < 3 && r.Values[0] == "step":
			_, err = f.queue.Fail(ctx, token, []uuid.UUID{r.ID}, "no good")
		case n < 4:
			_, err = f.queue.Abandon(ctx, token, []uuid.UUID{r.ID}, 0, "not yet")
		case n < 12:
			batch = append(batch, r.ID)
		default:
			err = f.settleWithEffect(ctx, token, r.ID)
			if err == nil {
				_, err = f.queue.Ack(ctx, token, []uuid.UUID{r.ID}) // again: its reply was lost
			}
		}
		if err != nil && !errors.Is(err, workqueue.ErrLeaseLost) {
			return err
		}
	}
	return f.settleBatch(ctx, token, batch)
}

// settleWithEffect writes an effect and acks in one transaction, as Claim.Tx does.
func (f *fixture) settleWithEffect(ctx context.Context, token uuid.UUID, ids ...uuid.UUID) error {
	return pgx.BeginFunc(ctx, f.Pool, func(tx pgx.Tx) error {
		if _, err := f.table.In(workqueue.Pgx(tx)).Ack(ctx, token, ids); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO effects SELECT unnest($1::uuid[])", ids)
		return err
	})
}

// settleBatch settles several rows at once. If one claim is lost, all rows are left to the reaper. Batches of several
// joins in an application's own transaction may deadlock, and are then left to the reaper as well.
func (f *fixture) settleBatch(ctx context.Context, token uuid.UUID, ids []uuid.UUID) error {
	err := f.settleWithEffect(ctx, token, ids...)
	if errors.Is(err, workqueue.ErrLeaseLost) || isDeadlock(err) {
		return nil
	}
	return err
}
