package join_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

func TestStartWithoutMembers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fan := f.fan(0)
	f.want(fan.id, counts{join.Completed, 0, 0, 0})
	f.wantNext(fan, released, notNeeded)
}

// Members of earlier transactions that have ended are counted at once, even without the flag.
func TestStartOverRowsThatHaveEnded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	unflagged := func(r *workqueue.NewRow) { r.Values[1] = nil }
	for _, test := range []struct {
		policy join.Policy
		want   counts
	}{
		{join.WaitAll, counts{join.Pending, 1, 1, 0}},
		{join.FailFast, counts{join.Failed, 1, 1, 0}},
		{join.AnyOutcome, counts{join.Pending, 1, 1, 0}},
	} {
		ids := f.steps(3, unflagged)
		f.ack(ids[0])
		f.fail(ids[1])
		joins, err := f.start(join.Join{Members: ids, Policy: test.policy})
		f.ok(err)
		f.want(joins[0], test.want)
		f.ack(ids[2])
		if s := f.state(joins[0]); s.Succeeded+s.Failed+s.Late != 3 || s.Status == join.Pending {
			t.Errorf("%v: got %+v after the last step", test.policy, s)
		}
	}
	ids := f.steps(2)
	f.ack(ids...)
	joins, err := f.start(join.Join{Members: ids})
	f.ok(err)
	f.want(joins[0], counts{join.Completed, 2, 0, 0})
}

func TestRolledBackStart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.steps(2, func(r *workqueue.NewRow) { r.Values[1] = false })
	enough := errors.New("enough")
	err := f.inTx(func(tx workqueue.Tx) error {
		_, err := f.joins.Start(t.Context(), tx, join.Join{Members: ids}, join.Join{})
		f.ok(err)
		return enough
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	left := ask[int](f, "SELECT (SELECT count(*) FROM steps_join) + (SELECT count(*) FROM steps_join_member) + "+
		"(SELECT count(*) FROM steps WHERE joined)")
	if left != 0 {
		t.Errorf("%d rows are left of it", left)
	}
}

// Start waits for a settle of its row that is under way, and the join counts it. A settle that comes while the starting
// transaction is open waits for that, and is counted, too.
func TestStartMeetsSettle(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.steps(2, func(r *workqueue.NewRow) { r.Values[1] = nil })
	token := f.claim(ids...)

	settle, err := f.Pool.Begin(t.Context())
	f.ok(err)
	_, err = f.table.In(workqueue.Pgx(settle)).Ack(t.Context(), token, ids[:1])
	f.ok(err)
	start, err := f.Pool.Begin(t.Context())
	f.ok(err)
	started := make(chan []uuid.UUID, 1)
	go func() {
		joins, err := f.joins.Start(t.Context(), workqueue.Pgx(start), join.Join{Members: ids})
		if err != nil {
			t.Error(err)
		}
		started <- joins
	}()
	f.awaitLockWait()
	f.ok(settle.Commit(t.Context()))
	joins := <-started

	acked := make(chan error, 1)
	go func() {
		_, err := f.queue.Ack(t.Context(), token, ids[1:])
		acked <- err
	}()
	f.awaitLockWait()
	f.ok(start.Commit(t.Context()))
	f.ok(<-acked)
	f.want(joins[0], counts{join.Completed, 2, 0, 0})
}

// awaitLockWait waits until a session waits for a lock in this schema's table.
func (f *fixture) awaitLockWait() {
	f.Helper()
	if !pgtest.Await(pgtest.Patience, func() bool {
		return ask[bool](f, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE "+
			"'%'|| $1 ||'%')", f.Schema)
	}) {
		f.Fatal("nobody waits for a lock")
	}
}

func TestStartRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	steps, next := f.steps(3), f.steps(3, waiting)
	f.ack(steps[2])
	existing, err := f.start(join.Join{Members: steps[:1], OnComplete: next[0]})
	f.ok(err)
	unknown := uuid.New()
	for name, test := range map[string]struct {
		field string
		joins []join.Join
	}{
		"a member twice":            {"members", []join.Join{{Members: []uuid.UUID{steps[0], steps[0]}}}},
		"an unknown member":         {"members", []join.Join{{Members: []uuid.UUID{unknown}}}},
		"a zero member":             {"members", []join.Join{{Members: []uuid.UUID{{}}}}},
		"itself":                    {"members", []join.Join{{Members: next[1:2], OnFail: next[1]}}},
		"an unknown continuation":   {"on complete", []join.Join{{OnComplete: unknown}}},
		"a continuation that runs":  {"on fail", []join.Join{{OnFail: steps[1]}}},
		"a continuation that ran":   {"on fail", []join.Join{{OnFail: steps[2]}}},
		"a continuation of another": {"continuation", []join.Join{{Members: steps, OnFail: next[0]}}},
		"a continuation of two": {"continuation", []join.Join{{Members: steps, OnFail: next[1]},
			{Members: steps, OnComplete: next[1]}}},
		"an id that exists":         {"id", []join.Join{{ID: existing[0]}}},
		"an id twice":               {"id", []join.Join{{ID: unknown}, {ID: unknown}}},
		"a policy":                  {"policy", []join.Join{{Policy: 3}}},
		"a label with NUL":          {"label", []join.Join{{Label: "a\x00"}}},
		"a long label":              {"label", []join.Join{{Label: strings.Repeat("a", join.MaxLabel+1)}}},
		"a deadline in other units": {"deadline", []join.Join{{Deadline: time.UnixMilli(1e18)}}},
		"too many members":          {"members", []join.Join{{Members: make([]uuid.UUID, workqueue.MaxBatch+1)}}},
		"too many joins":            {"joins", make([]join.Join, workqueue.MaxBatch+1)},
		"a cycle in one call": {"members", []join.Join{{Members: next[1:2], OnComplete: next[2]},
			{Members: next[2:3], OnFail: next[1]}}},
	} {
		t.Run(name, func(t *testing.T) {
			f.ok(f.inTx(func(tx workqueue.Tx) error {
				_, err := f.joins.Start(t.Context(), tx, test.joins...)
				var invalid *workqueue.InvalidError
				if !errors.As(err, &invalid) || invalid.Field != test.field {
					t.Errorf("got the error %v, want one about %s", err, test.field)
				}
				return nil // nothing was written and the transaction is usable
			}))
		})
	}
	if n := ask[int](f, "SELECT count(*) FROM steps_join"); n != 1 {
		t.Errorf("there are %d joins, want 1", n)
	}
	if _, err := f.joins.Start(t.Context(), nil, join.Join{}); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("without a transaction: got the error %v", err)
	}
}

// A cycle across calls is refused as well, by Start and by Add.
func TestCycleAcrossCalls(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	step, next := f.steps(1), f.steps(3, waiting)
	first, err := f.start(join.Join{Members: []uuid.UUID{step[0], next[2]}, OnComplete: next[0]})
	f.ok(err)
	_, err = f.start(join.Join{Members: next[:1], OnComplete: next[1]})
	f.ok(err)
	if _, err = f.start(join.Join{Members: next[1:2], OnComplete: next[2]}); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("start: got the error %v, want one about a cycle", err)
	}
	err = f.inTx(func(tx workqueue.Tx) error { return f.joins.Add(t.Context(), tx, first[0], next[1]) })
	if !errors.Is(err, workqueue.ErrInvalid) || !strings.Contains(err.Error(), "cycle") {
		t.Errorf("add: got the error %v, want one about a cycle", err)
	}
}

func TestAdd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fan := f.fan(1)
	more := f.steps(4, func(r *workqueue.NewRow) { r.Values[1] = nil })
	f.ack(more[0])
	add := func(ids ...uuid.UUID) error {
		return f.inTx(func(tx workqueue.Tx) error { return f.joins.Add(t.Context(), tx, fan.id, ids...) })
	}
	f.ok(add(more[:2]...))
	f.ok(add(more[:2]...)) // may be repeated
	f.ok(add())
	if s := f.state(fan.id); s.Expected != 3 || s.Succeeded != 1 {
		t.Errorf("got %+v, want 3 steps, one of them done", s)
	}
	if err := add(uuid.New()); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("an unknown row: got the error %v", err)
	}
	if err := add(fan.onFail); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("its own continuation: got the error %v", err)
	}
	f.ack(more[1])
	f.want(fan.id, counts{join.Pending, 2, 0, 0})
	f.ack(fan.members...)
	f.want(fan.id, counts{join.Completed, 3, 0, 0})
	if err := add(more[2]); !errors.Is(err, join.ErrEnded) {
		t.Errorf("an ended join: got the error %v, want ErrEnded", err)
	}
	fan.id = uuid.New()
	if err := add(more[2]); !errors.Is(err, workqueue.ErrNotFound) {
		t.Errorf("no join: got the error %v, want ErrNotFound", err)
	}
}

// A step that fans out adds its own steps in the transaction that settles it.
func TestStepThatFansOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fan := f.fan(1)
	token := f.claim(fan.members...)
	var more []uuid.UUID
	f.ok(f.inTx(func(tx workqueue.Tx) (err error) {
		more, err = f.insert(t.Context(), tx, 5, nil)
		f.ok(err)
		f.ok(f.joins.Add(t.Context(), tx, fan.id, more...))
		_, err = f.table.In(tx).Ack(t.Context(), token, fan.members)
		return err
	}))
	f.want(fan.id, counts{join.Pending, 1, 0, 0})
	f.ack(more...)
	f.want(fan.id, counts{join.Completed, 6, 0, 0})
}

// Every operation works through database/sql, which does not support arrays of ids.
func TestDatabaseSQL(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	db := f.SQL(t)
	begin := func(work func(tx workqueue.Tx) error) {
		t.Helper()
		tx, err := db.BeginTx(t.Context(), nil)
		f.ok(err)
		defer tx.Rollback()
		f.ok(work(workqueue.SQL(tx)))
		f.ok(tx.Commit())
	}
	deadline := time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC)
	var id uuid.UUID
	var members, next []uuid.UUID
	begin(func(tx workqueue.Tx) (err error) {
		members, err = f.insert(t.Context(), tx, 2, func(r *workqueue.NewRow) { r.Values[1] = nil })
		f.ok(err)
		next, err = f.insert(t.Context(), tx, 2, waiting)
		f.ok(err)
		ids, err := f.joins.Start(t.Context(), tx, join.Join{
			Label: `a "label"`, Members: members[:1], OnComplete: next[0], OnFail: next[1], Policy: join.FailFast,
			Deadline: deadline,
		})
		id = ids[0]
		return err
	})
	begin(func(tx workqueue.Tx) error { return f.joins.Add(t.Context(), tx, id, members[1]) })
	f.exec("UPDATE steps SET due_at = now() WHERE NOT waiting")
	begin(func(tx workqueue.Tx) error {
		token := workqueue.NewOwnerToken()
		_, err := f.table.In(tx).Claim(t.Context(), token, time.Minute, 10)
		f.ok(err)
		_, err = f.table.In(tx).Ack(t.Context(), token, members)
		return err
	})
	f.fold()
	begin(func(tx workqueue.Tx) error {
		s, err := f.joins.ContinuedBy(t.Context(), tx, next[1])
		f.ok(err)
		if s.ID != id || s.Label != `a "label"` || s.Status != join.Completed || s.Policy != join.FailFast ||
			s.Expected != 2 ||
			s.Succeeded != 2 || s.OnComplete != next[0] || s.OnFail != next[1] || !s.Deadline.Equal(deadline) ||
			s.CompletedAt.IsZero() {
			t.Errorf("got %+v", s)
		}
		list, err := f.joins.List(t.Context(), tx, join.ListOptions{Label: `a "label"`, Status: &s.Status})
		f.ok(err)
		if len(list) != 1 || list[0].ID != id {
			t.Errorf("listed %+v", list)
		}
		steps, err := f.joins.Members(t.Context(), tx, id, uuid.Nil, 10)
		f.ok(err)
		if len(steps) != 2 || steps[0].Outcome != join.StepSucceeded || steps[0].Late != join.None {
			t.Errorf("members %+v", steps)
		}
		changed, err := f.joins.Cancel(t.Context(), tx, id, join.CancelOptions{CancelMembers: true})
		if changed {
			t.Error("an ended join was cancelled")
		}
		f.ok(err)
		n, err := f.joins.Purge(t.Context(), tx, 0, 10)
		if n != 0 { // it has ended, but not before now(), which is the start of this transaction
			_, err = f.joins.Get(t.Context(), tx, id)
			if !errors.Is(err, workqueue.ErrNotFound) {
				t.Errorf("purged: got the error %v", err)
			}
			err = nil
		}
		return err
	})
}

func TestListPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	joins := make([]join.Join, 25)
	for i := range joins {
		joins[i].Label = []string{"odd", "even"}[i%2]
	}
	ids, err := f.start(joins...)
	f.ok(err)
	f.ok(pgx.BeginFunc(t.Context(), f.Pool, func(tx pgx.Tx) error {
		var seen []uuid.UUID
		o := join.ListOptions{Label: "odd", Limit: 5}
		for {
			page, err := f.joins.List(t.Context(), workqueue.Pgx(tx), o)
			f.ok(err)
			for _, s := range page {
				seen = append(seen, s.ID)
			}
			if len(page) < o.Limit {
				break
			}
			o.Before = seen[len(seen)-1]
		}
		if len(seen) != 13 || seen[0] != ids[24] || seen[12] != ids[0] {
			t.Errorf("listed %d joins", len(seen))
		}
		return nil
	}))
}
