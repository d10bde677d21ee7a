package conformance

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/dispatch"
)

// cancel cancels rows and checks which it changed.
func (s *suite) cancel(ids, changed []uuid.UUID) {
	s.Helper()
	s.do(func(ctx context.Context, o ops) error {
		got, err := o.cancel(ctx, ids, "not any more")
		s.sameIDs(got, changed)
		return err
	})
}

func cancelReady(s *suite) {
	ids := s.ready(2)
	e := failed.with(effect{"cancelled_at": now, "last_error": is("cancelled: not any more")})
	s.unchanged(ids[1:], func() {
		s.expect(ids[0], e, func() { s.cancel([]uuid.UUID{ids[0], ids[0]}, ids[:1]) })
	})
	s.unchanged(ids, func() { s.cancel(ids[:1], nil) }) // idempotent
	s.sameIDs(s.claim(10).ids, ids[1:])
}

// Cancelling a row in progress only records the request. A row that was given back still carries the token of its last
// settle; once cancelled, it has no owner.
func cancelInProgress(s *suite) {
	c, id := s.one()
	reason := effect{"cancelled_at": now, "last_error": is("cancelled: not any more")}
	s.expect(id, reason, func() { s.cancel(c.ids, c.ids) })
	s.unchanged(c.ids, func() { s.cancel(c.ids, nil) })

	given := s.claimed(1)
	s.settled(abandonSettle(0), given.token, given.ids, given.ids, nil, nil)
	s.expect(given.ids[0], failed.with(reason).with(effect{"owner_token": null}), func() {
		s.cancel(given.ids, given.ids)
	})
}

func cancelLeavesTheRest(s *suite) {
	c := s.claimed(2)
	s.settled(s.ackSettle(), c.token, c.ids[:1], c.ids[:1], nil, nil)
	s.settled(failSettle(), c.token, c.ids[1:], c.ids[1:], nil, nil)
	s.unchanged(slices.Concat(c.ids, s.ready(1)), func() {
		s.cancel(c.ids, nil)
		s.cancel([]uuid.UUID{uuid.New()}, nil)
		s.cancel(nil, nil)
	})
}

// An error text that PostgreSQL could not store would make the statement that records the failure fail.
func errorTextIsMadeStorable(s *suite) {
	each(s, []struct{ name, cause, want string }{
		{"NUL", "a\x00b", "ab"},
		{"invalid UTF-8", "a\xffb", "a\uFFFDb"},
		{"awkward", `{"a", 'b'} \ NULL` + "\n\t€ 🤖", `{"a", 'b'} \ NULL` + "\n\t€ 🤖"},
		{"NULL", "NULL", "NULL"},
		{"nothing", "", "failed without an error"},
	}, func(c struct{ name, cause, want string }) string { return c.name }, func(s *suite,
		c struct{ name, cause, want string }) {
		claim, id := s.one()
		s.do(func(ctx context.Context, o ops) error {
			_, err := o.fail(ctx, claim.token, claim.ids, c.cause)
			return err
		})
		equal(s, "last error", s.record(id)["last_error"], any(c.want))
	})

	claim, id := s.one()
	long := strings.Repeat("é", 100_000)
	s.do(func(ctx context.Context, o ops) error {
		_, err := o.abandon(ctx, claim.token, claim.ids, 0, long)
		return err
	})
	stored := s.record(id)["last_error"].(string)
	equal(s, "a prefix is kept", strings.HasPrefix(long, strings.TrimSuffix(stored, "…")), true)
	equal(s, "it is valid UTF-8", utf8.ValidString(stored), true)
	equal(s, "it is bounded", len(stored) > 1000 && len(stored) < 20_000, true)
}

// Purging deletes by age, oldest first and at most a batch at a time, and spares live rows and rows in another state. A
// cancelled row is purged like a Done one.
func purgesByAge(s *suite) {
	live := slices.Concat(s.ready(1), s.claimed(1).ids)
	bury := func(end settle, days ...int) (ids []uuid.UUID) {
		for _, d := range days {
			c, id := s.one()
			s.settled(end, c.token, c.ids, c.ids, nil, nil)
			s.exec("UPDATE $T SET completed_at = now() - make_interval(days => $2), failed_at = failed_at - "+
				"make_interval(days => $2) WHERE id = $1", id, d)
			ids = append(ids, id)
		}
		return ids
	}
	dead := bury(failSettle(), 9, 1, 8)
	gone := s.ready(3)
	s.cancel(gone, gone)
	for i, d := range []int{9, 1, 8} {
		s.exec("UPDATE $T SET completed_at = now() - make_interval(days => $2), failed_at = failed_at - "+
			"make_interval(days => $2) WHERE id = $1", gone[i], d)
	}
	purge := func(run func(context.Context, ops) (int, error), want int, left ...uuid.UUID) {
		s.Helper()
		s.do(func(ctx context.Context, o ops) error {
			n, err := run(ctx, o)
			equal(s, "purged", n, want)
			return err
		})
		s.sameIDs(s.query("SELECT id FROM $T"), slices.Concat(live, left))
	}
	week := 7 * 24 * time.Hour
	purgeDone := func(ctx context.Context, o ops) (int, error) { return o.purgeDone(ctx, week, 1) }
	purge(purgeDone, 1, append(dead, gone[1], gone[2])...)
	purge(purgeDone, 1, append(dead, gone[1])...)
	purge(purgeDone, 0, append(dead, gone[1])...)
	live = append(live, gone[1])
	if !s.Spec.DeleteDone {
		done := bury(s.ackSettle(), 8, 1, 9)
		purge(purgeDone, 1, append(dead, done[0], done[1])...)
		purge(purgeDone, 1, append(dead, done[1])...)
		purge(purgeDone, 0, append(dead, done[1])...)
		live = append(live, done[1])
	}
	purgeFailed := func(ctx context.Context, o ops) (int, error) { return o.purgeFailed(ctx, week, 1) }
	purge(purgeFailed, 1, dead[1], dead[2])
	purge(purgeFailed, 1, dead[1])
	purge(purgeFailed, 0, dead[1])
}

// wake tells in how long there is work in the first lane; nil: not soon.
func (s *suite) wake() (in *time.Duration) {
	s.Helper()
	s.do(func(ctx context.Context, o ops) (err error) { in, err = o.wake(ctx, s.Lanes[0]...); return err })
	return in
}

func (s *suite) stats() (got workqueue.Stats) {
	s.Helper()
	s.do(func(ctx context.Context, o ops) (err error) { got, err = o.stats(ctx); return err })
	return got
}

// A worker learns in how long the first row is due, if that is soon.
func tellsTheNextWake(s *suite) {
	near := func(d time.Duration) {
		s.Helper()
		if in := s.wake(); in == nil || *in > d || *in < d-slack {
			s.Fatalf("next wake: got %v, want about %v", in, d)
		}
	}
	none := func(of string) {
		s.Helper()
		if in := s.wake(); in != nil {
			s.Fatalf("next wake of %s: in %v", of, *in)
		}
	}
	none("an empty table")
	c := s.claimed(2)
	s.settled(extendSettle(), c.token, c.ids, c.ids, nil, nil)
	none("a table whose leases are long")
	later := s.ready(1, func(row *workqueue.NewRow) { row.DueAt = s.clock().Add(10 * time.Minute) })
	none("a table whose rows are due later")
	s.set("due_at = now() + interval '50 seconds'", later...)
	near(50 * time.Second)
	s.ready(1)
	near(0)
	for _, id := range s.query("SELECT id FROM $T WHERE status = 0") {
		s.cancel([]uuid.UUID{id}, []uuid.UUID{id})
	}
	s.settled(failSettle(), c.token, c.ids, c.ids, nil, nil)
	none("a table without live rows")
}

// NextWakeAt tells the first due time or the first end of a lease, whichever comes first, however late it is.
func tellsWhenToWake(s *suite) {
	wake := func() (w *dispatch.Wake) {
		s.do(func(ctx context.Context, o ops) (err error) { w, err = o.(queueOps).NextWakeAt(ctx); return err })
		return w
	}
	near := func(d time.Duration) {
		s.Helper()
		before := s.clock()
		w := wake()
		if w == nil || w.At.Before(before.Add(d-slack)) || w.At.After(s.clock().Add(d)) {
			s.Fatalf("next wake: got %v, want about %v after %v", w, d, before)
		}
		if w.In > d || w.In < d-slack {
			s.Fatalf("next wake: in %v, want about %v", w.In, d)
		}
	}
	if w := wake(); w != nil {
		s.Fatalf("next wake of an empty table: got %v", w)
	}
	c := s.claimed(2)
	s.settled(extendSettle(), c.token, c.ids, c.ids, nil, nil)
	near(time.Hour)
	s.ready(1, func(row *workqueue.NewRow) { row.DueAt = s.clock().Add(10 * time.Minute) })
	near(10 * time.Minute)
	s.ready(1)
	near(0)
	for _, id := range s.query("SELECT id FROM $T WHERE status = 0") {
		s.cancel([]uuid.UUID{id}, []uuid.UUID{id})
	}
	s.settled(failSettle(), c.token, c.ids, c.ids, nil, nil)
	if w := wake(); w != nil {
		s.Fatalf("next wake of a table without live rows: got %v", w)
	}
}

func countsLiveRows(s *suite) {
	equal(s, "an empty table", s.stats(), workqueue.Stats{})

	held := s.claimed(5)
	s.expire(held.ids[0])
	s.settled(s.ackSettle(), held.token, held.ids[3:4], held.ids[3:4], nil, nil)
	s.settled(failSettle(), held.token, held.ids[4:], held.ids[4:], nil, nil)
	ended := s.ready(1)
	s.cancel(ended, ended)
	s.ready(3, func(row *workqueue.NewRow) { row.DueAt = s.clock().Add(time.Hour) })
	s.set("due_at = now() - interval '1 hour'", s.ready(2)...)

	got := s.stats()
	if got.OldestReady < time.Hour || got.OldestReady > time.Hour+slack {
		s.Fatalf("oldest ready: got %v, want an hour", got.OldestReady)
	}
	got.OldestReady = 0
	equal(s, "live rows", got.Live(), 8)
	equal(s, "stats", got, workqueue.Stats{Ready: 2, Scheduled: 3, InProgress: 3, Expired: 1, Failed: 1, Cancelled: 1})
}
