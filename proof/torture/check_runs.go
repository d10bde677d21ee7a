//go:build unix

package torture

import (
	"slices"
	"time"
)

// checkRuns compares the handlers' journal with the claims.
func (w *walk) checkRuns() {
	if len(w.h.Runs) > 0 && !w.inserted {
		w.broken("I2", "a handler ran for a row that was never committed")
		return
	}
	for _, r := range w.h.Runs {
		w.checkRun(r)
	}
	for _, c := range w.claims {
		w.checkHandled(c)
	}
}

func (w *walk) checkRun(r Handling) {
	c := w.claimOf(r)
	switch {
	case c == nil:
		w.suspect(r, "the handler of attempt %d by %s ran without a committed claim", r.Attempt, r.App)
	case c.over(r.Start):
		w.suspect(r, "the handler of attempt %d by %s began after it had settled the claim", r.Attempt, r.App)
		c = nil
	case c.run != nil:
		w.broken("I3", "the claim #%d of %s ran two handlers", c.seq, c.app)
	case c.committed.After(r.Start):
		w.broken("I3", "the handler of attempt %d by %s began at %s, before its claim had committed at %s",
			r.Attempt, r.App, r.Start.Format(clockLayout), c.committed.Format(clockLayout))
	}
	if len(w.h.Asked) > 0 && r.Told != w.h.Name {
		w.broken("I1", "the handler of attempt %d by %s was given what was written for %q", r.Attempt, r.App, r.Told)
	}
	if r.Result == resultTx && !w.hasEffect(r, c) {
		w.broken("I4", "the handler of attempt %d by %s was told that its transaction had committed, and it had not",
			r.Attempt, r.App)
	}
	if c == nil {
		return
	}
	c.run = &r
	if c.end == endReaped && !r.End.IsZero() {
		w.refused++
	}
}

// suspect records a violation that a crash may explain.
func (w *walk) suspect(r Handling, format string, args ...any) {
	w.suspects = append(w.suspects, suspect{r.Start, w.violation("I3", format, args...)})
}

// claimOf returns the claim that a handler ran for: the last one of its process and attempt before it. A run of a key
// that is lost uses up no attempt of the rows behind its head, so their number comes again. Its handler may go on with
// them while the process has already claimed them anew: then the time at which the attempt became due tells the claims
// apart. A handler that does not know that time may begin long after its claim, see fits.
func (w *walk) claimOf(r Handling) (found *claim) {
	for i := range w.claims {
		c := &w.claims[i]
		switch {
		case c.app != r.App || c.attempt != r.Attempt || c.at.After(r.Start):
		case found == nil:
			found = c
		case r.Due.IsZero():
			if w.fits(r, c) >= w.fits(r, found) {
				found = c
			}
		case c.due.Equal(r.Due) || !found.due.Equal(r.Due):
			found = c
		}
	}
	return found
}

// fits tells how well a claim fits a handler of its process and attempt: best if no other handler ran for it, and it
// was settled with an effect if the handler had one, and only then.
func (w *walk) fits(r Handling, c *claim) int {
	switch {
	case c.run != nil:
		return 0
	case w.hasEffect(r, c) == r.hadEffect():
		return 2
	}
	return 1
}

// over tells whether the claim's own process had settled it by the given time.
func (c *claim) over(by time.Time) bool {
	return c.end != endNone && c.end != endReaped && by.After(c.ended)
}

// hasEffect looks for the handler's effect in the transaction that settled its claim.
func (w *walk) hasEffect(r Handling, c *claim) bool {
	return c != nil && slices.ContainsFunc(w.h.Effects, func(e Effect) bool {
		return e.App == r.App && e.Attempt == r.Attempt && e.XID == c.xid
	})
}

// checkHandled checks that a claim ended as its handler reported.
func (w *walk) checkHandled(c claim) {
	switch c.end {
	case endAcked:
		w.checkAcked(c)
	case endFailed:
		w.checkOver(c)
		if !c.exhausted && !c.permanent() {
			w.broken("I6", "attempt %d of %s failed for good, and there were more", c.attempt, c.app)
		}
	case endBack:
		w.checkOver(c)
		w.checkBack(c)
	}
}

// checkOver checks that a claim whose row failed or was given back ended after its handler, except for a timer that was
// set anew.
func (w *walk) checkOver(c claim) {
	if c.run != nil && !w.inTx(c) && (c.run.End.IsZero() || c.run.End.After(c.ended)) {
		w.broken("I4", "attempt %d of %s was settled while its handler was at work", c.attempt, c.app)
	}
}

// checkAcked checks that a row that is done was done by its handler. A handler that settles in its own transaction ends
// only after the settle.
func (w *walk) checkAcked(c claim) {
	switch {
	case c.run == nil || c.run.Start.After(c.ended):
		w.broken("I4", "attempt %d of %s is done, and no handler ran", c.attempt, c.app)
	case !w.inTx(c) && !c.run.done(c.ended):
		w.broken("I4", "attempt %d of %s is done, and its handler was not", c.attempt, c.app)
	}
}

// checkBack checks that a row whose handler succeeded is not given back, unless the timer was set anew, and that a
// failed attempt stays counted.
func (w *walk) checkBack(c claim) {
	switch {
	case c.rearmed:
	case c.run == nil && !c.givenBack && w.h.Table != "inbox": // the inbox begins its transaction first, which may fail
		w.broken("I6", "attempt %d of %s counts, and no handler ran", c.attempt, c.app)
	case c.run == nil:
	case c.waited && c.givenBack: // in its run, one before it was lost
	case w.h.Table != "inbox" && c.run.done(c.ended):
		w.broken("I4", "the handler of attempt %d by %s was done, and the row went back", c.attempt, c.app)
	case c.givenBack && c.run.failedBy(c.ended):
		w.broken("I6", "attempt %d of %s failed and was given back", c.attempt, c.app)
	}
}

// inTx tells whether the claim's handler had its effect in the transaction of the settle. The inbox commits that
// transaction after its handler.
func (w *walk) inTx(c claim) bool {
	return c.run != nil && c.run.Mode == modeTx && w.h.Table != "inbox"
}

// failedBy tells whether the handler had failed by itself by the given time. A handler that a shutdown interrupted had
// been running for longer than workers wait.
func (r Handling) failedBy(t time.Time) bool {
	failed := r.Result == resultError && r.Mode != modeSnooze || r.Result == resultPanic
	return failed && !r.End.After(t) && r.End.Sub(r.Start) < shutdownLimit
}

// permanent tells whether the handler returned a permanent error.
func (c claim) permanent() bool {
	return c.run != nil && c.run.Mode == modePermanent && c.run.Result == resultError && !c.run.End.After(c.ended)
}
