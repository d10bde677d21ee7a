package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

func isRefused(err error) bool {
	return errors.Is(err, workqueue.ErrLeaseLost) || errors.Is(err, workqueue.ErrGone)
}

// reap runs the reaper once.
func (s *suite) reap(limit int) workqueue.Reaped {
	s.Helper()
	var r workqueue.Reaped
	s.do(func(ctx context.Context, o ops) (err error) {
		r, err = o.reap(ctx, limit)
		return err
	})
	return r
}

// lostAlone is what the headers say of a lease that no other row of the process lost.
var lostAlone = containing("txwork-lost-alone:1", "txwork-lost-at:")

// The lost attempt counts, the backoff runs from the end of the lease, and the token is cleared.
func reapEffect(s *suite) {
	_, id := s.one()
	s.expire(id)
	e := effect{
		"status": is(0), "due_at": afterTheLease(s.backoff(1)), "locked_until": null, "owner_token": null,
		"last_error": like("lease expired at "), "headers": lostAlone,
	}
	s.expect(id, e, func() { equal(s, "reaped", s.reap(10), workqueue.Reaped{Requeued: 1}) })
	s.expect(id, effect{}, func() { equal(s, "reaped again", s.reap(10), workqueue.Reaped{}) })

	_, forgotten := s.one() // its lease ended so long ago that the backoff is over: it is due now, not in the past
	s.set("locked_until = now() - interval '1 day'", forgotten)
	s.expect(forgotten, e.with(effect{"due_at": now}), func() {
		equal(s, "reaped", s.reap(10), workqueue.Reaped{Requeued: 1})
	})
}

// The reaper treats an expired lease like a reported failure.
func reapExhausted(s *suite) {
	_, spent := s.one(maxAttempts(1))
	_, left := s.one(maxAttempts(2))
	s.expire(spent, left)
	e := failed.with(effect{"owner_token": null, "last_error": like(" in attempt 1"), "headers": lostAlone})
	s.expect(spent, e, func() { equal(s, "reaped", s.reap(10), workqueue.Reaped{Requeued: 1, Failed: 1}) })
	equal(s, "status of the row with attempts left", s.status(left), workqueue.Ready)
}

func reapCancelled(s *suite) {
	_, id := s.one()
	s.wantCancelled(id)
	s.expire(id)
	s.expect(id, failed.with(effect{"owner_token": null, "headers": lostAlone}), func() {
		equal(s, "reaped", s.reap(10), workqueue.Reaped{Failed: 1})
	})
}

// The limit counts expired rows only: a page of rows with longer leases that are due earlier does not hide them.
func reapLimit(s *suite) {
	expired := s.claimed(5)
	long := s.claimed(20) // due earlier
	s.expire(expired.ids...)
	s.unchanged(long.ids, func() {
		for _, want := range []int{2, 2, 1, 0} {
			equal(s, "reaped", s.reap(2), workqueue.Reaped{Requeued: want})
		}
	})
}

func reapLeavesLiveLeases(s *suite) {
	held, renewed := s.claimed(2), s.claimed(2)
	s.expire(renewed.ids...)
	s.settled(extendSettle(), renewed.token, renewed.ids, renewed.ids, nil, nil)
	s.unchanged(slices.Concat(held.ids, renewed.ids, s.ready(1)), func() {
		equal(s, "reaped", s.reap(100), workqueue.Reaped{})
	})
}

// A row whose settle is about to commit is locked: the reaper skips it and does not wait for it.
func reapLeavesLockedRows(s *suite) {
	c := s.claimed(4)
	s.expire(c.ids...)
	s.locked(c.ids[:2], func() {
		s.unchanged(c.ids[:2], func() { equal(s, "reaped", s.reap(100), workqueue.Reaped{Requeued: 2}) })
	})
	equal(s, "reaped later", s.reap(100), workqueue.Reaped{Requeued: 2})
}

const raceRounds, raceRows = 2, 24

// If an ack and a reap race for a row, exactly one wins, and the ack learns which.
func reapAgainstAck(s *suite) {
	for range raceRounds {
		c := s.claimed(raceRows)
		s.expire(c.ids...)
		r := s.race(c, s.ackSettle())
		equal(s, "rows acked and reaped", len(r.won)+r.reaped.Requeued+r.reaped.Failed, raceRows)
		s.sameIDs(s.query("SELECT id FROM $T WHERE status = 0 AND owner_token IS NULL"), without(c.ids, r.won))
		if s.Spec.DeleteDone {
			r.won = nil
		}
		s.sameIDs(s.query("SELECT id FROM $T WHERE status = 2 AND owner_token = $1", c.token), r.won)
		s.exec("DELETE FROM $T")
	}
}

// If a renewal and a reap race for a row, exactly one wins, and the renewal learns which.
func reapAgainstExtend(s *suite) {
	for range raceRounds {
		c := s.claimed(raceRows)
		s.expire(c.ids...)
		r := s.race(c, extendSettle())
		equal(s, "rows renewed and reaped", len(r.won)+r.reaped.Requeued+r.reaped.Failed, raceRows)
		s.sameIDs(s.query("SELECT id FROM $T WHERE status = 1 AND owner_token = $1", c.token), r.won)
		s.sameIDs(s.query("SELECT id FROM $T WHERE status = 0 AND owner_token IS NULL"), without(c.ids, r.won))
		s.exec("DELETE FROM $T")
	}
}

func without(ids, others []uuid.UUID) []uuid.UUID {
	return slices.DeleteFunc(slices.Clone(ids), func(id uuid.UUID) bool { return slices.Contains(others, id) })
}

// A raced is who got which rows of a claim.
type raced struct {
	won    []uuid.UUID // rows that the settle reported as its own
	reaped workqueue.Reaped
}

// race settles a claim row by row from two sides, while a reaper takes a few of its rows at a time, until no row is
// left. A row that the settle neither changed nor reported as lost was locked, so it is settled again.
func (s *suite) race(c claim, st settle) raced {
	s.Helper()
	var r raced
	var mu sync.Mutex
	var settling atomic.Int32
	settling.Store(2)
	s.together(3, func(i int) error {
		if i == 2 {
			for last := false; ; {
				n, err := s.tryReap(3)
				r.reaped.Requeued += n.Requeued
				r.reaped.Failed += n.Failed
				if err != nil || last {
					return err
				}
				last = settling.Load() == 0
			}
		}
		defer settling.Add(-1)
		for j := i; j < len(c.ids); j += 2 {
			won, err := s.fight(st, c.token, c.ids[j])
			if err != nil {
				return err
			}
			if won {
				mu.Lock()
				r.won = append(r.won, c.ids[j])
				mu.Unlock()
			}
		}
		return nil
	})
	return r
}

func (s *suite) tryReap(limit int) (r workqueue.Reaped, err error) {
	err = s.try(func(ctx context.Context, o ops) error {
		r, err = o.reap(ctx, limit)
		return err
	})
	return r, err
}

// fight settles one row until the answer says who has it.
func (s *suite) fight(st settle, token, id uuid.UUID) (won bool, err error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		var changed []uuid.UUID
		err = s.try(func(ctx context.Context, o ops) (err error) {
			changed, err = st.do(ctx, o, token, []uuid.UUID{id})
			return err
		})
		switch {
		case len(changed) == 1:
			return true, err
		case isRefused(err):
			return false, nil
		case err != nil:
			return false, err
		}
	}
	return false, fmt.Errorf("%s of %s: the answers do not say who has the row", st.name, id)
}

// Redriven rows start again like new ones. The headers record who redrove them and when, and the last error stays.
func redriveEffect(s *suite) {
	c := s.claimed(2, func(row *workqueue.NewRow) { row.Headers = map[string]string{"tenant": "acme"} })
	s.settled(failSettle(), c.token, c.ids, c.ids, nil, nil)
	s.set("cancelled_at = now()", c.ids...)
	e := effect{
		"status": is(0), "attempts": is(0), "due_at": now, "owner_token": null,
		"completed_at": null, "failed_at": null, "cancelled_at": null,
		"headers": containing("tenant:acme", "txwork-redriven-at:", "txwork-redriven-by:"+
			scan[string](s, "SELECT session_user")),
	}
	s.unchanged(c.ids[1:], func() {
		s.expect(c.ids[0], e, func() {
			s.do(func(ctx context.Context, o ops) error {
				ids, err := o.redrive(ctx, []uuid.UUID{c.ids[0], c.ids[0]}, "")
				s.sameIDs(ids, c.ids[:1])
				return err
			})
		})
	})
	s.claimAgain(c.ids[:1])
}

func redriveOnlyFailed(s *suite) {
	held := s.claimed(2)
	s.settled(s.ackSettle(), held.token, held.ids[:1], held.ids[:1], nil, nil)
	ids := slices.Concat(held.ids, s.ready(1))
	s.unchanged(ids, func() {
		for _, ids := range [][]uuid.UUID{ids, {uuid.New()}, {}} {
			s.do(func(ctx context.Context, o ops) error {
				changed, err := o.redrive(ctx, ids, "")
				s.sameIDs(changed, nil)
				return err
			})
		}
	})
}

func redriveRecordsTheActor(s *suite) {
	c, id := s.one()
	s.settled(failSettle(), c.token, c.ids, c.ids, nil, nil)
	s.do(func(ctx context.Context, o ops) error {
		_, err := o.redrive(ctx, c.ids, "alice\x00 of support")
		return err
	})
	headers := scan[map[string]string](s, "SELECT headers FROM $T WHERE id = $1", id)
	equal(s, "actor", headers["txwork-redriven-by"], "alice of support")
	at, err := time.Parse(time.RFC3339Nano, headers["txwork-redriven-at"])
	s.ok(err)
	if now := s.clock(); at.After(now) || at.Before(now.Add(-slack)) {
		s.Fatalf("redriven at %v, it is %v", at, now)
	}
}
