//go:build unix

package torture

import (
	"slices"
	"time"
)

// checkAsked compares what producers asked for with what is there.
func (w *walk) checkAsked() {
	h := w.h
	switch {
	case len(h.Changes) == 0 && slices.Contains(h.Asked, Committed):
		w.broken("I1", "it was committed, and there is no row")
		return
	case w.inserted && len(h.Asked) > 0 && !slices.ContainsFunc(h.Asked, func(o Outcome) bool { return o != RolledBack }):
		w.broken("I2", "every transaction that wrote it was rolled back, and there is a row")
	case len(h.Changes) > 0 && !w.inserted:
		w.broken("audit", "there are versions of a row whose insert is not on record")
	}
	if len(h.Changes) == 0 || w.now.Status >= done {
		return
	}
	if w.f.Stalled {
		w.broken("I10", "it was left with status %d although nothing moved any more", w.now.Status)
	} else {
		w.broken("I1", "it was left with status %d", w.now.Status)
	}
}

// checkRuns compares the handlers' journal with the claims.
func (w *walk) checkRuns() {
	for _, r := range w.h.Runs {
		if !w.inserted {
			w.broken("I2", "a handler ran for a row that was never committed")
			return
		}
		c, found := w.claimOf(r)
		switch {
		case !found && !w.mayBeForgotten(r):
			w.broken("I3", "the handler of attempt %d by %s ran without a committed claim", r.Attempt, r.App)
		case found && c.committed.After(r.Start):
			w.broken("I3", "the handler of attempt %d by %s began at %s, before its claim had committed at %s",
				r.Attempt, r.App, r.Start.Format(clockLayout), c.committed.Format(clockLayout))
		}
		if found && c.end == endReaped && !r.End.IsZero() {
			w.refused++
		}
		if r.Result == resultTx && !w.hasEffect(r) {
			w.broken("I4", "the handler of attempt %d by %s was told that its transaction had committed, and it had not", r.Attempt, r.App)
		}
	}
	w.checkAcked()
}

// claimOf is the claim that a handler ran for: the last one of that process and attempt before it.
func (w *walk) claimOf(r Handling) (found claim, ok bool) {
	for _, c := range w.claims {
		if c.app == r.App && c.attempt == r.Attempt && !c.at.After(r.Start) {
			found, ok = c, true
		}
	}
	return found, ok
}

// forgettable is how long a commit may be in memory only: three times PostgreSQL's wal_writer_delay of 200 ms, and a margin for
// a machine that is busy.
const forgettable = 3 * time.Second

func (w *walk) mayBeForgotten(r Handling) bool {
	return slices.ContainsFunc(w.f.Outages, func(s Span) bool {
		return r.Start.After(s.From.Add(-forgettable)) && r.Start.Before(s.To)
	})
}

func (w *walk) hasEffect(r Handling) bool {
	return slices.ContainsFunc(w.h.Effects, func(e Effect) bool { return e.App == r.App && e.Attempt == r.Attempt })
}

// checkAcked: what is done was done by a handler.
func (w *walk) checkAcked() {
	for _, c := range w.claims {
		ran := func(r Handling) bool { return r.App == c.app && r.Attempt == c.attempt }
		if c.end == endAcked && !slices.ContainsFunc(w.h.Runs, ran) {
			w.broken("I4", "attempt %d of %s is done, and no handler ran", c.attempt, c.app)
		}
	}
}

// checkEffects: the writes of a handler's transaction are there if and only if its ack is.
func (w *walk) checkEffects() {
	effects := map[int64]int{}
	for _, e := range w.h.Effects {
		effects[e.XID]++
		if c, settled := w.settles[e.XID]; !settled || c.New.Status == failed {
			w.broken("I11", "an effect of attempt %d by %s committed in transaction %d, which did not ack the row", e.Attempt, e.App, e.XID)
		}
	}
	for _, c := range w.claims {
		if c.end == endAcked && w.wrote(c) && effects[c.xid] != 1 {
			w.broken("I11", "the ack in transaction %d committed with %d effects", c.xid, effects[c.xid])
		}
	}
	for xid, c := range w.settles {
		if c.Op == 'I' && effects[xid] != 1 {
			w.broken("I11", "the message was processed in transaction %d with %d effects", xid, effects[xid])
		}
	}
	if w.h.Table != "timers" && len(w.h.Effects) > 1 {
		w.broken("I11", "the row has %d effects", len(w.h.Effects))
	}
}

// wrote tells whether the claim's handler had its effect in the transaction of the settle. A timer that is set anew
// may behave otherwise each time.
func (w *walk) wrote(c claim) bool {
	return slices.ContainsFunc(w.h.Runs, func(r Handling) bool {
		return r.Mode == modeTx && r.App == c.app && r.Attempt == c.attempt && r.Start.After(c.at) && r.Start.Before(c.ended)
	})
}
