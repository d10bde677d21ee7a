//go:build unix

package torture

import "time"

// settle checks a change from InProgress to anything else: by the claim's own process, or by the reaper after the
// lease.
func (w *walk) settle(c Change) {
	current := w.current()
	current.endSeq, current.ended, current.xid = c.Seq, c.At, c.XID
	current.rearmed, current.exhausted = w.rearmed, w.now.Attempts >= w.now.Max || c.New.Cancelled
	if reaped := c.New.Token == ""; reaped {
		current.end = endReaped
		w.reap(c, current)
	} else {
		current.end = [...]ending{ready: endBack, done: endAcked, failed: endFailed}[c.New.Status]
		w.settles[c.XID] = c
		w.guard(c, current)
	}
	if w.rearmed && c.New.Status != ready {
		w.broken("I1", "the timer was set during its firing, and ended with it")
	}
	current.givenBack = c.New.Attempts < w.now.Attempts
	w.countBack(c)
	w.finish(c.New.Status)
	w.rearmed = false
}

func (w *walk) reap(c Change, current *claim) {
	if !w.now.Locked.Before(c.TxnAt) {
		w.broken("I3", "the claim was taken at %s, its lease ran until %s", c.TxnAt.Format(clockLayout),
			w.now.Locked.Format(clockLayout))
	}
	switch late := c.At.Sub(latest(current.until, w.f.Calm)); {
	case c.New.Status == done:
		w.broken("I4", "the row was done without a token")
	case (c.New.Status == failed) != current.exhausted && !w.rearmed:
		w.broken("I6", "attempt %d of %d was reaped, and the row went to status %d", w.now.Attempts, w.now.Max,
			c.New.Status)
	case !w.f.Calm.IsZero() && late > overdue:
		w.broken("I10", "no fault struck any more, and the claim was reaped %v after its lease", late)
	}
}

// overdue is more than a reaper needs, even on a heavily overloaded machine.
const overdue = time.Minute

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// guard checks what a token guarantees: only the claim's own process can settle it.
func (w *walk) guard(c Change, current *claim) {
	if c.New.Token != w.now.Token {
		w.broken("I4", "the settle #%d changed the token from %s to %s", c.Seq, short(w.now.Token), short(c.New.Token))
	}
	if c.App != current.app {
		w.broken("I4", "the claim of %s was settled by %s, whose own was stale", current.app, c.App)
	}
}

// countBack checks the attempts after a settle: a failed attempt stays counted, one that was given back does not, and a
// timer that was set anew starts again.
func (w *walk) countBack(c Change) {
	was, is := w.now.Attempts, c.New.Attempts
	switch {
	case w.rearmed && is == 0:
	case !w.rearmed && is == was:
	case !w.rearmed && is == was-1 && c.New.Status == ready && (c.New.Token != "" || c.New.Max > 1):
		// Snoozed or released, or its lease was lost together with others.
	default:
		w.broken("I6", "attempts went from %d to %d when the claim ended", was, is)
	}
}

func (w *walk) finish(status int16) {
	if status < done {
		return
	}
	w.terminals++
	if w.terminals > 1 {
		w.broken("I5", "the row ended %d times", w.terminals)
	}
}

// rest checks a change of a Ready row: moved, released, cancelled or parked.
func (w *walk) rest(c Change) {
	anew := c.New.Status == ready && c.New.Generation > w.now.Generation
	if c.New.Status != done && c.New.Attempts != w.now.Attempts && !anew {
		w.broken("I6", "attempts of a ready row went from %d to %d", w.now.Attempts, c.New.Attempts)
	}
	switch c.New.Status {
	case ready:
		if !anew && c.New.Token != w.now.Token {
			w.broken("I3", "the token of a ready row changed from %s to %s", short(w.now.Token), short(c.New.Token))
		}
	case failed:
		if !c.New.Cancelled || crewed(c.App) {
			w.broken("I4", "a ready row failed that nobody had claimed or cancelled")
		}
		w.finish(failed)
	default:
		w.broken("I4", "the row was done that nobody had claimed")
		w.finish(c.New.Status)
	}
}

// revive checks a change of a row that had ended. A run never redrives rows, so only timers may be set anew.
func (w *walk) revive(c Change) {
	if c.New.Status != ready || c.New.Generation <= w.now.Generation {
		w.broken("I5", "the row had ended and went from status %d to %d", w.now.Status, c.New.Status)
		return
	}
	w.terminals = 0
}
