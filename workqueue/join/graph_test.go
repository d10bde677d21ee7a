package join_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

// A diamond: a, then b and c, then d; e runs if a branch fails.
type diamond struct {
	a, b, c, d, e uuid.UUID
	ab, ac, bcd   uuid.UUID
}

func (f *fixture) diamond() (g diamond) {
	f.Helper()
	g.a = f.steps(1)[0]
	w := f.steps(4, waiting)
	g.b, g.c, g.d, g.e = w[0], w[1], w[2], w[3]
	ids, err := f.start(
		join.Join{Members: []uuid.UUID{g.b, g.c}, OnComplete: g.d, OnFail: g.e},
		join.Join{Members: []uuid.UUID{g.a}, OnComplete: g.b},
		join.Join{Members: []uuid.UUID{g.a}, OnComplete: g.c},
	)
	f.ok(err)
	g.bcd, g.ab, g.ac = ids[0], ids[1], ids[2]
	return g
}

func (f *fixture) wantFates(want map[uuid.UUID]string) {
	f.Helper()
	for id, fate := range want {
		if got := f.fate(id); got != fate {
			f.Errorf("%s: %s, want %s", id, got, fate)
		}
	}
}

func TestDiamond(t *testing.T) {
	t.Parallel()
	for kind, configure := range map[string]func(*workqueue.Spec){"kept": func(*workqueue.Spec) {},
		"deleted on ack": deleteDone} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, configure)
			skipped := notNeeded
			if f.table.Spec().DeleteDone {
				skipped = gone
			}

			g := f.diamond()
			f.wantFates(map[uuid.UUID]string{g.b: waits, g.c: waits, g.d: waits, g.e: waits})
			f.ack(g.a)
			f.wantFates(map[uuid.UUID]string{g.b: released, g.c: released, g.d: waits, g.e: waits})
			f.ack(g.c)
			f.wantFates(map[uuid.UUID]string{g.b: released, g.d: waits, g.e: waits})
			f.ack(g.b)
			f.wantFates(map[uuid.UUID]string{g.d: released, g.e: skipped})

			g = f.diamond() // a failure at the top ends everything below it
			f.fail(g.a)
			f.wantFates(map[uuid.UUID]string{g.b: cancelled, g.c: cancelled, g.d: cancelled, g.e: released})
			f.want(g.bcd, counts{join.Failed, 0, 2, 0})

			g = f.diamond()
			f.ack(g.a)
			f.fail(g.b)
			f.wantFates(map[uuid.UUID]string{g.c: released, g.d: waits, g.e: waits})
			f.ack(g.c)
			f.wantFates(map[uuid.UUID]string{g.d: cancelled, g.e: released})
		})
	}
}

// An on-fail row that is not needed counts as succeeded in the joins of which it is a step.
func TestUnneededStepSucceeds(t *testing.T) {
	t.Parallel()
	for kind, configure := range map[string]func(*workqueue.Spec){"kept": func(*workqueue.Spec) {},
		"deleted on ack": deleteDone} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, configure)
			fan := f.fan(1)
			all := f.fan(0, func(j *join.Join) { j.Members = []uuid.UUID{fan.members[0], fan.onFail} })
			f.ack(fan.members...)
			f.want(all.id, counts{join.Completed, 2, 0, 0})
		})
	}
}

// A chain that fails at its start ends up to its last join, however long it is. The settle only writes a note, no fold
// ends more than it is asked for, and the pages that all folds read grow linearly with the chain.
func TestLongChain(t *testing.T) {
	t.Parallel()
	short := pgtest.Size(150, 300)
	long := 4 * short
	read := map[int]int{}
	for _, links := range []int{short, long} {
		f := newFixture(t)
		first, all := f.graph("chain", links+1)
		token := f.claim(first)
		_, err := f.queue.Fail(t.Context(), token, []uuid.UUID{first}, "no good")
		f.ok(err)
		ended := func() int {
			return ask[int](f, "SELECT count(*) FROM steps WHERE status = 3 AND cancelled_at IS NOT NULL")
		}
		if n := ended(); n != 0 {
			t.Errorf("the settle has ended %d links", n)
		}
		for before := 0; ask[bool](f, "SELECT EXISTS (SELECT FROM steps_join_note)"); {
			read[links] += f.foldPages(100)
			now := ended()
			if now-before > 100 {
				t.Errorf("a fold of 100 notes has ended %d links", now-before)
			}
			before = now
		}
		if n := ended(); n != links {
			t.Errorf("%d links were ended, want %d", n, links)
		}
		f.want(all, counts{join.Failed, 0, links + 1, 0})
	}
	t.Logf("pages read by the number of links: %v", read)
	if most := 8 * read[short]; read[long] > most { // four times is linear, sixteen times is square
		t.Errorf("%d links read %d pages, %d read %d", long, read[long], short, read[short])
	}
}

// foldPages folds the given number of notes, and returns how many pages that reads.
func (f *fixture) foldPages(notes int) int {
	f.Helper()
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	f.ok(f.Pool.QueryRow(f.Context(), fmt.Sprintf("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT FROM "+
		"steps_join_fold(%d)", notes)).Scan(&plans))
	return plans[0].Plan.Hit + plans[0].Plan.Read
}

// A redrive takes back a failure that a pending join has counted, and the step counts again.
func TestRedrive(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fan := f.fan(2)
	redrive := func(ids ...uuid.UUID) {
		t.Helper()
		_, err := f.queue.Redrive(t.Context(), ids, "me")
		f.ok(err)
	}
	f.fail(fan.members[0])
	f.want(fan.id, counts{join.Pending, 0, 1, 0})
	redrive(fan.members[0])
	f.want(fan.id, counts{join.Pending, 0, 0, 0})
	f.exec("SELECT steps_fail($1, ARRAY[$2::uuid], 'again')", f.claim(fan.members[0]), fan.members[0])
	f.want(fan.id, counts{join.Pending, 0, 1, 0})
	f.exec("SELECT steps_redrive(ARRAY[$1::uuid])", fan.members[0])
	f.ack(fan.members[0])
	f.want(fan.id, counts{join.Pending, 1, 0, 0})
	f.ack(fan.members[1])
	f.want(fan.id, counts{join.Completed, 2, 0, 0})
	f.wantNext(fan, released, notNeeded)
}

// After the end of the join, a redriven step is late, once, and the counts of the join stay.
func TestRedriveAfterTheEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	redrive := func(id uuid.UUID) {
		t.Helper()
		_, err := f.queue.Redrive(t.Context(), []uuid.UUID{id}, "me")
		f.ok(err)
		f.fold()
	}
	fan := f.fan(2, policy(join.FailFast))
	first, second := fan.members[0], fan.members[1]
	f.fail(first)
	f.want(fan.id, counts{join.Failed, 0, 1, 0})
	ended := f.state(fan.id).CompletedAt
	redrive(first)
	f.want(fan.id, counts{join.Failed, 0, 1, 0})
	f.ack(first)
	f.want(fan.id, counts{join.Failed, 0, 1, 1})
	f.fail(second)
	f.want(fan.id, counts{join.Failed, 0, 1, 2})
	redrive(second)
	f.want(fan.id, counts{join.Failed, 0, 1, 1})
	f.ack(second)
	f.want(fan.id, counts{join.Failed, 0, 1, 2})
	f.wantNext(fan, cancelled, released)
	if got := f.state(fan.id).CompletedAt; !got.Equal(ended) {
		t.Errorf("it ended again, at %v after %v", got, ended)
	}
	f.ok(f.inTx(func(tx workqueue.Tx) error {
		members, err := f.joins.Members(t.Context(), tx, fan.id, uuid.Nil, 10)
		f.ok(err)
		want := []join.Member{{ID: first, Outcome: join.StepFailed, Late: join.StepSucceeded},
			{ID: second, Late: join.StepSucceeded}}
		for i, m := range members {
			if m != want[i] {
				t.Errorf("member %+v, want %+v", m, want[i])
			}
		}
		return nil
	}))
}

// A continuation that was ended can be redriven by hand: an operator decides that it runs all the same.
func TestRedriveOfAContinuation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fan := f.fan(1)
	f.fail(fan.members...)
	_, err := f.queue.Redrive(t.Context(), []uuid.UUID{fan.onComplete}, "me")
	f.ok(err)
	if got := f.fate(fan.onComplete); got != released {
		t.Errorf("it is %s, want released", got)
	}
	f.ack(fan.onComplete)
	fan = f.fan(1)
	f.ack(fan.members...)
	changed, err := f.queue.Redrive(t.Context(), []uuid.UUID{fan.onFail}, "me")
	if f.ok(err); len(changed) > 0 {
		t.Error("an on-fail row of a join that completed was redriven")
	}
}
