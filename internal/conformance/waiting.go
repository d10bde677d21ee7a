package conformance

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// waiting inserts n rows that are held back and have been due for an hour.
func (s *suite) waiting(n int) []uuid.UUID {
	s.Helper()
	ids := s.ready(n, func(row *workqueue.NewRow) { row.Waiting = true })
	s.set("due_at = now() - interval '1 hour'", ids...)
	return ids
}

// A row that is held back is Ready, but it is never claimed or reaped, however long it has been due.
func waitingIsNotClaimed(s *suite) {
	held := s.waiting(3)
	ready := s.ready(2)
	s.unchanged(held, func() {
		s.sameIDs(s.claim(10).ids, ready)
		equal(s, "reaped", s.reap(10), workqueue.Reaped{})
	})
	for _, id := range held {
		equal(s, "status", s.status(id), workqueue.Ready)
	}
}

// A row that is released is claimed like any other.
func waitingIsReleased(s *suite) {
	held := s.waiting(3)
	s.set("waiting = false, due_at = greatest(due_at, clock_timestamp())", held[:2]...)
	s.sameIDs(s.claim(10).ids, held[:2])
}

// A row that is held back has no owner, so no token settles it.
func waitingIsNotSettled(s *suite) {
	held := s.waiting(2)
	each(s, s.settles(), settleName, func(s *suite, st settle) {
		s.unchanged(held, func() { s.settled(st, uuid.New(), held, nil, held, nil) })
	})
}

// A row that was cancelled while it was held back is released when it is redriven.
func redriveReleases(s *suite) {
	held := s.waiting(2)
	for _, id := range held {
		s.wantCancelled(id)
	}
	s.unchanged(held[1:], func() {
		s.do(func(ctx context.Context, o ops) error {
			ids, err := o.redrive(ctx, held[:1], "")
			s.sameIDs(ids, held[:1])
			return err
		})
	})
	s.sameIDs(s.claim(10).ids, held[:1])
}

func insertWaiting(s *suite) {
	row := s.newRow()
	row.Waiting = true
	s.newlyInserted(fresh.with(effect{"waiting": is(true)}), func() uuid.UUID {
		inserted, err := s.write(row)
		s.ok(err)
		return inserted[0].ID
	})
}

func cancelWaiting(s *suite) {
	held := s.waiting(2)
	e := failed.with(effect{"cancelled_at": now, "last_error": is("cancelled: not any more")})
	s.unchanged(held[1:], func() {
		s.expect(held[0], e, func() { s.cancel(held[:1], held[:1]) })
	})
	s.unchanged(held, func() { s.cancel(held[:1], nil) })
}

// No worker needs to wake up for a row that is held back, and stats counts it separately.
func waitingIsNotDue(s *suite) {
	s.waiting(2)
	equal(s, "next wake", s.wake(), nil)
	got := s.stats()
	equal(s, "stats", got, workqueue.Stats{Waiting: 2})
	equal(s, "live rows", got.Live(), 2)
}

// own is a backoff that differs from that of every table.
var own = workqueue.Retry{Growth: workqueue.Linear, Base: 7 * time.Second, Cap: 10 * time.Second}

func ownRetry(row *workqueue.NewRow) { row.Retry = own }

// A row's own backoff overrides the table's, both for a reported failure and for an expired lease, up to its cap. A
// delay that a settle names overrides both.
func rowsOwnBackoff(s *suite) {
	near := func(d time.Duration) (lo, hi time.Duration) { return d - time.Microsecond, d + time.Microsecond }

	c, id := s.one(ownRetry)
	e := s.retrySettle().effect
	s.expect(id, e.with(effect{"due_at": between(near(7 * time.Second))}), func() {
		s.settled(s.retrySettle(), c.token, c.ids, c.ids, nil, nil)
	})
	c = s.claimAgain(c.ids)
	s.expect(id, e.with(effect{"due_at": between(near(10 * time.Second))}), func() {
		s.settled(s.retrySettle(), c.token, c.ids, c.ids, nil, nil)
	})
	c = s.claimAgain(c.ids)
	s.expect(id, abandonSettle(time.Minute).effect, func() {
		s.settled(abandonSettle(time.Minute), c.token, c.ids, c.ids, nil, nil)
	})

	_, reaped := s.one(ownRetry)
	s.expire(reaped)
	s.expect(reaped, effect{
		"status": is(0), "due_at": afterTheLease(near(7 * time.Second)), "locked_until": null, "owner_token": null,
		"last_error": like("lease expired at "), "headers": lostAlone,
	}, func() { equal(s, "reaped", s.reap(10), workqueue.Reaped{Requeued: 1}) })
}

// rest returns one row of every state, none of which waits for anything.
func (s *suite) rest() []uuid.UUID {
	s.Helper()
	c := s.claimed(4)
	s.settled(s.ackSettle(), c.token, c.ids[:1], c.ids[:1], nil, nil)
	s.settled(failSettle(), c.token, c.ids[1:2], c.ids[1:2], nil, nil)
	s.wantCancelled(c.ids[2])
	return slices.Concat(c.ids, s.ready(1), s.waiting(1))
}

// A table's sweeps, if it has any, can be called at any time. If there is nothing to do they report that and change
// nothing.
func sweepsLeaveTheRestAlone(s *suite) {
	ids := s.rest()
	s.unchanged(ids, func() {
		s.do(func(ctx context.Context, o ops) error {
			n, err := o.sweep(ctx, 100)
			equal(s, "rows swept", n, 0)
			return err
		})
	})
}

// The sweeps' SQL functions can be called by every client, in many sessions at once.
func sweepFunctions(s *suite) {
	ids := s.rest()
	s.unchanged(ids, func() {
		s.together(4, func(int) error {
			for _, suffix := range s.Spec.Sweeps {
				var n int
				if err := s.eyes.QueryRow(s.Context(), s.sql("SELECT $T_"+suffix+"(100)")).Scan(&n); err != nil {
					return fmt.Errorf("%s: %w", suffix, err)
				}
				if n != 0 {
					return fmt.Errorf("%s changed %d rows", suffix, n)
				}
			}
			return nil
		})
	})
}
