package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// A settle is one of the operations of a claim's owner, with its complete effect on a row.
type settle struct {
	name   string
	do     func(ctx context.Context, o ops, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error)
	effect effect
	// spent is the effect on a row without attempts left, if it differs.
	spent effect
	// wanted is the effect on a row whose cancel was requested, if it differs.
	wanted effect
	// renews says that the operation does not end the claim and can be repeated.
	renews bool
}

const cause = "the oven is on fire"

// failed is the part that every transition to a dead letter has in common.
var failed = effect{"status": is(3), "completed_at": now, "failed_at": now, "locked_until": null}

// settles returns the settles that every way has.
func (s *suite) settles() []settle {
	return []settle{s.ackSettle(), abandonSettle(0), abandonSettle(time.Minute), s.retrySettle(), failSettle(),
		extendSettle(), snoozeSettle(), releaseSettle(), leaveSettle()}
}

// ends returns the settles that end a claim.
func (s *suite) ends() []settle {
	return slices.DeleteFunc(s.settles(), func(st settle) bool { return st.renews })
}

func settleName(st settle) string { return st.name }

func (s *suite) ackSettle() settle {
	e := effect{"status": is(2), "completed_at": now, "locked_until": null}
	if s.Spec.DeleteDone {
		e = gone
	}
	return settle{name: "ack", effect: e, do: func(ctx context.Context, o ops, owner uuid.UUID,
		ids []uuid.UUID) ([]uuid.UUID, error) {
		return o.ack(ctx, owner, ids)
	}}
}

func abandonSettle(delay time.Duration) settle {
	return settle{
		name:   fmt.Sprintf("abandon for %v", delay),
		effect: effect{"status": is(0), "due_at": in(delay), "locked_until": null, "last_error": is(cause)},
		spent:  failed.with(effect{"last_error": is(cause)}),
		wanted: failed,
		do: func(ctx context.Context, o ops, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
			return o.abandon(ctx, owner, ids, delay, cause)
		},
	}
}

// A retry is an abandon with the delay of the table's own backoff.
func (s *suite) retrySettle() settle {
	lo, hi := s.backoff(1)
	return settle{
		name:   "retry",
		effect: effect{"status": is(0), "due_at": between(lo, hi), "locked_until": null, "last_error": is(cause)},
		spent:  failed.with(effect{"last_error": is(cause)}),
		wanted: failed,
		do: func(ctx context.Context, o ops, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
			return o.retry(ctx, owner, ids, cause)
		},
	}
}

// backoff returns the bounds of the table's delay after an attempt.
func (s *suite) backoff(attempt int) (lo, hi time.Duration) {
	r := s.table.Spec().Retry
	jitter := r.Jitter
	r.Jitter = 0
	hi = r.Delay(attempt)
	return time.Duration(float64(hi)*(1-jitter)) - time.Microsecond, hi + time.Microsecond
}

func failSettle() settle {
	return settle{
		name:   "fail",
		effect: failed.with(effect{"last_error": is(cause)}),
		wanted: failed,
		do: func(ctx context.Context, o ops, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
			return o.fail(ctx, owner, ids, cause)
		},
	}
}

// running is what the headers say of a claim that has been renewed.
var running = containing("txwork-running:")

func extendSettle() settle {
	return settle{
		name:   "extend",
		renews: true,
		effect: effect{"locked_until": in(time.Hour), "headers": running},
		do: func(ctx context.Context, o ops, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
			return o.extend(ctx, owner, ids, time.Hour)
		},
	}
}

func snoozeSettle() settle {
	return settle{
		name:   "snooze",
		effect: effect{"status": is(0), "attempts": is(0), "due_at": in(time.Minute), "locked_until": null},
		wanted: failed,
		do: func(ctx context.Context, o ops, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
			return o.snooze(ctx, owner, ids, time.Minute)
		},
	}
}

// A release returns a row to the queue without counting the attempt.
func releaseSettle() settle {
	return settle{
		name:   "release",
		effect: effect{"status": is(0), "attempts": is(0), "locked_until": null},
		wanted: failed,
		do: func(ctx context.Context, o ops, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
			return o.release(ctx, owner, ids)
		},
	}
}

// A worker leaves rows that it has not begun to others, after a while and with the reason.
func leaveSettle() settle {
	return settle{
		name:   "leave",
		effect: snoozeSettle().effect.with(effect{"last_error": like(cause + " since ")}),
		wanted: failed,
		do: func(ctx context.Context, o ops, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
			return o.leave(ctx, owner, ids, time.Minute, cause)
		},
	}
}

// unavailableSettle says that the destination of rows cannot be reached. Of a table without topics they wait as long as
// the longest rest.
func (s *suite) unavailableSettle() settle {
	st := settle{
		name: "unavailable",
		effect: effect{"status": is(0), "attempts": is(0), "locked_until": null,
			"due_at": between(8*time.Second, 10*time.Second), "last_error": like(cause + " since ")},
		do: func(ctx context.Context, o ops, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
			return o.unavailable(ctx, owner, ids, cause)
		},
	}
	if len(s.Spec.Topics.Columns) > 0 {
		delete(st.effect, "due_at")
		st.effect = st.effect.with(aside)
	}
	return st
}

// A settle that says unavailable puts a row back without its attempt, and a stale one changes nothing, not even the
// state of its topic.
func settleUnavailable(s *suite) {
	s.forgetTopics()
	c, st := s.claimed(2), s.unavailableSettle()
	stale := claim{uuid.New(), c.ids}
	s.unchanged(c.ids, func() { s.settled(st, stale.token, stale.ids, nil, stale.ids, nil) })
	equal(s, "topics that rest", s.resting(), 0)
	s.unchanged(c.ids[1:], func() {
		s.expect(c.ids[0], st.effect, func() { s.settled(st, c.token, c.ids[:1], c.ids[:1], nil, nil) })
	})
}

// settled runs one settle, and checks which rows it reports as changed, lost or gone.
func (s *suite) settled(st settle, token uuid.UUID, ids, changed, lost, gone []uuid.UUID) {
	s.Helper()
	s.refused(s.try(func(ctx context.Context, o ops) error {
		got, err := st.do(ctx, o, token, ids)
		s.sameIDs(got, changed)
		return err
	}), lost, gone)
}

func settleEffect(s *suite) {
	each(s, s.settles(), settleName, func(s *suite, st settle) {
		c := s.claimed(2)
		id, other := c.ids[0], c.ids[1:]
		s.unchanged(other, func() {
			s.expect(id, st.effect, func() { s.settled(st, c.token, c.ids[:1], c.ids[:1], nil, nil) })
		})
	})
}

// A stale token changes nothing and the caller learns that, whatever made it stale (I3, I4).
func settleRefusesStaleTokens(s *suite) {
	each(s, staleClaims, func(sc staleClaim) string { return sc.name }, func(s *suite, sc staleClaim) {
		c := sc.claim(s)
		s.unchanged(c.ids, func() {
			for _, st := range s.settles() {
				s.Log(st.name)
				s.settled(st, c.token, c.ids, nil, c.ids, nil)
			}
		})
	})
}

// A staleClaim makes a claim that no longer holds its rows, or never did.
type staleClaim struct {
	name  string
	claim func(*suite) claim
}

var staleClaims = []staleClaim{
	{"another's token", func(s *suite) claim {
		return claim{uuid.New(), s.claimed(2).ids}
	}},
	{"never claimed", func(s *suite) claim {
		return claim{uuid.New(), s.ready(2)}
	}},
	{"reaped", func(s *suite) claim {
		return s.reaped(s.claimed(2))
	}},
	{"reaped for good", func(s *suite) claim {
		return s.reaped(s.claimed(2, maxAttempts(1)))
	}},
	{"reaped and claimed again", func(s *suite) claim {
		c := s.reaped(s.claimed(2))
		s.claimAgain(c.ids)
		return c
	}},
	{"given back and claimed again", func(s *suite) claim {
		c := s.claimed(2)
		s.settled(abandonSettle(0), c.token, c.ids, c.ids, nil, nil)
		s.claimAgain(c.ids)
		return c
	}},
	{"failed and redriven", func(s *suite) claim {
		c := s.claimed(2)
		s.settled(failSettle(), c.token, c.ids, c.ids, nil, nil)
		s.do(func(ctx context.Context, o ops) error { _, err := o.redrive(ctx, c.ids, ""); return err })
		return c
	}},
}

// reaped expires the leases of a claim and lets the reaper take its rows.
func (s *suite) reaped(c claim) claim {
	s.Helper()
	s.expire(c.ids...)
	s.do(func(ctx context.Context, o ops) error {
		r, err := o.reap(ctx, 100)
		equal(s, "rows reaped", r.Requeued+r.Failed, len(c.ids))
		return err
	})
	return c
}

// claimAgain claims rows as another worker.
func (s *suite) claimAgain(ids []uuid.UUID) claim {
	s.Helper()
	s.set(fmt.Sprintf("due_at = timestamptz '2000-01-01' - interval '%d seconds'", s.rows.Add(1)), ids...)
	c := s.claim(len(ids))
	s.sameIDs(c.ids, ids)
	return c
}

// A row ends only once (I5): after that, even its own token cannot change the outcome. If the requested outcome could
// be the one that the row has, the call counts as a repetition.
func settleRefusesAnotherOutcome(s *suite) {
	if !s.Spec.DeleteDone {
		each(s, s.ends()[1:], settleName, func(s *suite, st settle) {
			c := s.claimed(2)
			s.settled(s.ackSettle(), c.token, c.ids, c.ids, nil, nil)
			s.unchanged(c.ids, func() { s.settled(st, c.token, c.ids, nil, c.ids, nil) })
		})
	}
	each(s, s.ends()[1:], settleName, func(s *suite, st settle) {
		c := s.claimed(2)
		s.settled(st, c.token, c.ids, c.ids, nil, nil)
		s.unchanged(c.ids, func() { s.settled(s.ackSettle(), c.token, c.ids, nil, c.ids, nil) })
	})
}

// Repeating a settle because its reply was lost succeeds and changes nothing.
func settleRepeated(s *suite) {
	each(s, s.settles(), settleName, func(s *suite, st settle) {
		if st.renews {
			return // repeating a renewal renews again
		}
		c := s.claimed(2)
		s.settled(st, c.token, c.ids, c.ids, nil, nil)
		for range 2 {
			s.unchanged(c.ids, func() { s.settled(st, c.token, c.ids, nil, nil, s.goneAfter(st, c.ids)) })
		}
	})
}

// goneAfter returns the rows that a settle deletes.
func (s *suite) goneAfter(st settle, ids []uuid.UUID) []uuid.UUID {
	if st.name == "ack" && s.Spec.DeleteDone {
		return ids
	}
	return nil
}

func settleOfGoneRows(s *suite) {
	each(s, s.settles(), settleName, func(s *suite, st settle) {
		c := s.claimed(2)
		s.exec("DELETE FROM $T WHERE id = ANY ($1)", c.ids)
		never := slices.Concat(c.ids, []uuid.UUID{uuid.New()})
		s.settled(st, c.token, never, nil, nil, never)
	})
}

// Each row of a batch is settled on its own: stale rows do not affect the others.
func settlePartialBatch(s *suite) {
	each(s, s.settles(), settleName, func(s *suite, st settle) {
		c := s.claimed(5)
		mine, lost, deleted := c.ids[:2], c.ids[2:4], c.ids[4:]
		s.set("owner_token = gen_random_uuid()", lost...)
		s.exec("DELETE FROM $T WHERE id = ANY ($1)", deleted)

		s.unchanged(lost, func() {
			s.expect(mine[0], st.effect, func() { s.settled(st, c.token, c.ids, mine, lost, deleted) })
		})
	})
}

// An id that is named twice is settled once and reported once.
func settleDuplicateIDs(s *suite) {
	each(s, s.settles(), settleName, func(s *suite, st settle) {
		c := s.claimed(3)
		mine, lost, deleted := c.ids[:1], c.ids[1:2], c.ids[2:]
		s.set("owner_token = gen_random_uuid()", lost...)
		s.exec("DELETE FROM $T WHERE id = ANY ($1)", deleted)

		s.expect(mine[0], st.effect, func() {
			s.settled(st, c.token, slices.Concat(c.ids, c.ids, c.ids), mine, lost, deleted)
		})
	})
}

func settleNothing(s *suite) {
	c := s.claimed(1)
	each(s, s.settles(), settleName, func(s *suite, st settle) {
		s.unchanged(c.ids, func() {
			s.settled(st, c.token, nil, nil, nil, nil)
			s.settled(st, c.token, []uuid.UUID{}, nil, nil, nil)
		})
	})
}

// A row whose lease has expired but was not reaped can still be settled by its owner.
func settleAfterTheLeaseButBeforeTheReaper(s *suite) {
	each(s, s.settles(), settleName, func(s *suite, st settle) {
		c, id := s.one()
		s.expire(id)
		s.expect(id, st.effect, func() { s.settled(st, c.token, c.ids, c.ids, nil, nil) })
	})
}

// A row on its last attempt becomes a dead letter, unless the settle gives the attempt back.
func settleExhausted(s *suite) {
	each(s, s.settles(), settleName, func(s *suite, st settle) {
		c, id := s.one(maxAttempts(1))
		e := st.effect
		if st.spent != nil {
			e = st.spent
		}
		s.expect(id, e, func() { s.settled(st, c.token, c.ids, c.ids, nil, nil) })
	})
}

// A row whose cancel was requested ends when it is settled, with the reason of the cancel. An ack still counts as done.
func settleCancelled(s *suite) {
	each(s, s.settles(), settleName, func(s *suite, st settle) {
		c, id := s.one()
		s.wantCancelled(id)
		e := st.effect
		if st.wanted != nil {
			e = st.wanted
		}
		s.expect(id, e, func() { s.settled(st, c.token, c.ids, c.ids, nil, nil) })
	})
}

// wantCancelled requests a cancel from a session other than the worker's.
func (s *suite) wantCancelled(id uuid.UUID) {
	s.Helper()
	ids, err := s.table.On(s.db.Pool).Cancel(s.Context(), []uuid.UUID{id}, "not any more")
	s.ok(err)
	s.sameIDs(ids, []uuid.UUID{id})
}

// Batches that name the same rows in different orders do not deadlock, because each locks its rows in the same order.
func settleInAnyOrderWithoutDeadlock(s *suite) {
	c := s.claimed(100)
	settles := s.settles()
	s.together(6, func(i int) error {
		st := settles[i%len(settles)]
		ids := slices.Clone(c.ids)
		for range 4 {
			rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
			if err := s.try(func(ctx context.Context, o ops) error {
				_, err := st.do(ctx, o, c.token, ids)
				return err
			}); err != nil && !isRefused(err) {
				return err
			}
		}
		return nil
	})
	equal(s, "rows in progress", scan[int](s, "SELECT count(*) FROM $T WHERE status = 1"), 0)
}

func extendEffect(s *suite) {
	c, id := s.one()
	token := s.record(id)["owner_token"]
	// longer, shorter, the longest, and as before
	for _, d := range []time.Duration{time.Hour, time.Second, workqueue.MaxLease, lease} {
		s.expect(id, effect{"locked_until": in(d), "owner_token": is(token),
			"headers": containing("txwork-running:", fmt.Sprint(token))}, func() {
			s.do(func(ctx context.Context, o ops) error {
				ids, err := o.extend(ctx, c.token, c.ids, d)
				s.sameIDs(ids, c.ids)
				return err
			})
		})
	}
}

func extendRefusesSettledRows(s *suite) {
	each(s, s.ends(), settleName, func(s *suite, st settle) {
		c := s.claimed(1)
		s.settled(st, c.token, c.ids, c.ids, nil, nil)
		lost, gone := c.ids, s.goneAfter(st, c.ids)
		if gone != nil {
			lost = nil
		}
		s.unchanged(c.ids, func() { s.settled(extendSettle(), c.token, c.ids, nil, lost, gone) })
	})
}

// A renewal never waits for a lock, and does not report a row that is just being settled as lost.
func extendSkipsLockedRows(s *suite) {
	c := s.claimed(4)
	busy, free := c.ids[:2], c.ids[2:]
	s.locked(busy, func() {
		s.unchanged(busy, func() {
			s.expect(free[0], extendSettle().effect, func() {
				s.settled(extendSettle(), c.token, c.ids, free, nil, nil)
			})
		})
	})
	s.settled(extendSettle(), c.token, c.ids, c.ids, nil, nil)
}
