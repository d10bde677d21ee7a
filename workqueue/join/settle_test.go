package join_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

// A way is one in which a step may end.
type way struct {
	name string
	end  func(f *fixture, id uuid.UUID)
}

// function calls one of the table's SQL functions with the claim's token.
func function(call string) func(*fixture, uuid.UUID) {
	return func(f *fixture, id uuid.UUID) {
		f.Helper()
		token := f.claim(id)
		f.exec(fmt.Sprintf("SELECT "+call, fmt.Sprintf("'%s', ARRAY['%s'::uuid]", token, id)))
	}
}

var successes = []way{
	{"ack", func(f *fixture, id uuid.UUID) { f.ack(id) }},
	{"SQL ack", function("steps_ack(%s)")},
}

var failures = []way{
	{"fail", func(f *fixture, id uuid.UUID) { f.fail(id) }},
	{"SQL fail", function("steps_fail(%s, 'no good')")},
	{"SQL abandon", function("steps_retry(%s)")},
	{"retry", func(f *fixture, id uuid.UUID) {
		_, err := f.queue.Retry(f.Context(), f.claim(id), []uuid.UUID{id}, "no good")
		f.ok(err)
	}},
	{"reaper", func(f *fixture, id uuid.UUID) {
		f.claim(id)
		f.exec("UPDATE steps SET locked_until = now() - interval '1 second' WHERE id = $1", id)
		_, err := f.queue.ReapExpired(f.Context(), 10)
		f.ok(err)
	}},
	{"SQL reaper", func(f *fixture, id uuid.UUID) {
		f.claim(id)
		f.exec("UPDATE steps SET locked_until = now() - interval '1 second' WHERE id = $1", id)
		f.exec("SELECT steps_reap_expired()")
	}},
	{"cancel", func(f *fixture, id uuid.UUID) {
		_, err := f.queue.Cancel(f.Context(), []uuid.UUID{id}, "not any more")
		f.ok(err)
	}},
	{"cancel in progress", func(f *fixture, id uuid.UUID) {
		token := f.claim(id)
		_, err := f.queue.Cancel(f.Context(), []uuid.UUID{id}, "not any more")
		f.ok(err)
		_, err = f.queue.Snooze(f.Context(), token, []uuid.UUID{id}, 0)
		f.ok(err)
	}},
	{"delete", func(f *fixture, id uuid.UUID) { f.exec("DELETE FROM steps WHERE id = $1", id) }},
}

// An ending is the state of a join of two steps with these outcomes, after the first step and after both.
type ending struct {
	policy        join.Policy
	first, second bool // succeeded
	after, both   counts
}

var endings = []ending{
	{join.WaitAll, true, true, counts{join.Pending, 1, 0, 0}, counts{join.Completed, 2, 0, 0}},
	{join.WaitAll, true, false, counts{join.Pending, 1, 0, 0}, counts{join.Failed, 1, 1, 0}},
	{join.WaitAll, false, true, counts{join.Pending, 0, 1, 0}, counts{join.Failed, 1, 1, 0}},
	{join.WaitAll, false, false, counts{join.Pending, 0, 1, 0}, counts{join.Failed, 0, 2, 0}},
	{join.FailFast, true, true, counts{join.Pending, 1, 0, 0}, counts{join.Completed, 2, 0, 0}},
	{join.FailFast, true, false, counts{join.Pending, 1, 0, 0}, counts{join.Failed, 1, 1, 0}},
	{join.FailFast, false, true, counts{join.Failed, 0, 1, 0}, counts{join.Failed, 0, 1, 1}},
	{join.FailFast, false, false, counts{join.Failed, 0, 1, 0}, counts{join.Failed, 0, 1, 1}},
	{join.AnyOutcome, true, true, counts{join.Pending, 1, 0, 0}, counts{join.Completed, 2, 0, 0}},
	{join.AnyOutcome, true, false, counts{join.Pending, 1, 0, 0}, counts{join.Completed, 1, 1, 0}},
	{join.AnyOutcome, false, true, counts{join.Pending, 0, 1, 0}, counts{join.Completed, 1, 1, 0}},
	{join.AnyOutcome, false, false, counts{join.Pending, 0, 1, 0}, counts{join.Completed, 0, 2, 0}},
}

// Every policy with every way in which a step ends, in both orders.
func TestEveryWayOfSettling(t *testing.T) {
	t.Parallel()
	for kind, configure := range map[string]func(*workqueue.Spec){
		"kept":            func(*workqueue.Spec) {},
		"deleted on ack":  deleteDone,
		"a reserved word": func(s *workqueue.Spec) { s.Columns[0].Name = "order" },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, configure)
			every := pgtest.Size(3, 1) // combination
			n := rand.IntN(every)
			for _, e := range endings {
				for _, s := range successes {
					for _, l := range failures {
						if e.first && e.second && l.name != failures[0].name || !e.first && !e.second &&
							s.name != successes[0].name {
							continue // a combination that does not occur
						}
						if n++; n%every == 0 {
							f.checkEnding(e, s, l)
						}
					}
				}
			}
		})
	}
}

func (f *fixture) checkEnding(e ending, success, failure way) {
	f.Helper()
	pick := func(succeeds bool) way {
		if succeeds {
			return success
		}
		return failure
	}
	failedBefore := f.Failed()
	fan := f.fan(2, policy(e.policy))
	f.wantNext(fan, waits, waits)
	pick(e.first).end(f, fan.members[0])
	f.want(fan.id, e.after)
	pick(e.second).end(f, fan.members[1])
	f.want(fan.id, e.both)
	if e.both.status == join.Completed {
		f.wantNext(fan, released, notNeeded)
	} else {
		f.wantNext(fan, cancelled, released)
	}
	if f.Failed() && !failedBefore {
		f.Fatalf("%v: %s (%v), then %s (%v)", e.policy, pick(e.first).name, e.first, pick(e.second).name, e.second)
	}
}

// A failed join stores the reason in its own row and in the continuation that will not run.
func TestReasons(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fan := f.fan(3)
	f.ack(fan.members[0])
	f.fail(fan.members[1])
	f.ack(fan.members[2])
	why := "1 of 3 steps failed, among them " + fan.members[1].String() + ": no good"
	if got := f.state(fan.id).LastError; got != why {
		t.Errorf("the join says %q, want %q", got, why)
	}
	got := ask[string](f, "SELECT last_error FROM steps WHERE id = $1", fan.onComplete)
	if want := "cancelled: join " + fan.id.String() + " failed: " + why; got != want {
		t.Errorf("its continuation says %q, want %q", got, want)
	}
}

// A step that goes back to Ready has not ended.
func TestRetriesDoNotCount(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(s *workqueue.Spec) { s.MaxAttempts = 3 })
	fan := f.fan(1)
	id := fan.members
	_, err := f.queue.Abandon(t.Context(), f.claim(id...), id, 0, "not yet")
	f.ok(err)
	_, err = f.queue.Snooze(t.Context(), f.claim(id...), id, 0)
	f.ok(err)
	_, err = f.queue.Release(t.Context(), f.claim(id...), id)
	f.ok(err)
	stale := f.claim(id...)
	f.exec("UPDATE steps SET locked_until = now() - interval '1 second'  WHERE status = 1")
	f.exec("SELECT steps_reap_expired()")
	f.want(fan.id, counts{join.Pending, 0, 0, 0})
	if _, err := f.queue.Ack(t.Context(), stale, id); err == nil {
		t.Error("a stale claim was acknowledged")
	}
	f.want(fan.id, counts{join.Pending, 0, 0, 0})
	f.ack(id...)
	f.want(fan.id, counts{join.Completed, 1, 0, 0})
}

// A settle that is rolled back counts nothing, even if only its savepoint was rolled back.
func TestRolledBackSettle(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fan := f.fan(2)
	token := f.claim(fan.members...)
	f.ok(f.inTx(func(tx workqueue.Tx) error {
		_, err := tx.Exec(t.Context(), "SAVEPOINT s")
		f.ok(err)
		_, err = f.table.In(tx).Ack(t.Context(), token, fan.members)
		f.ok(err)
		_, err = tx.Exec(t.Context(), "ROLLBACK TO s")
		f.ok(err)
		_, err = f.table.In(tx).Ack(t.Context(), token, fan.members[:1])
		return err
	}))
	f.want(fan.id, counts{join.Pending, 1, 0, 0})
	f.wantNext(fan, waits, waits)
}

// A row that is not a step costs only the trigger's test. A settle of steps and other rows counts the steps.
func TestOtherRows(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fan := f.fan(2)
	others := f.steps(2, func(r *workqueue.NewRow) { r.Values[1] = nil })
	f.ack(append(others, fan.members...)...)
	f.want(fan.id, counts{join.Completed, 2, 0, 0})
}
