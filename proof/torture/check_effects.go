//go:build unix

package torture

// checkEffects checks that the writes of a handler's transaction exist if and only if its ack does.
func (w *walk) checkEffects() {
	effects := map[int64]int{}
	for _, e := range w.h.Effects {
		effects[e.XID]++
		w.checkEffect(e)
	}
	for _, c := range w.claims {
		if c.end == endAcked && w.wrote(c) && effects[c.xid] != 1 {
			w.broken("I11", "the ack in transaction %d committed with %d effects", c.xid, effects[c.xid])
		}
	}
	for xid, c := range w.settles {
		if c.Op == 'I' && effects[xid] != 1 || effects[xid] > 1 {
			w.broken("I11", "transaction %d settled the row with %d effects", xid, effects[xid])
		}
	}
	if w.h.Table != "timers" && len(w.h.Effects) > 1 {
		w.broken("I11", "the row has %d effects", len(w.h.Effects))
	}
}

func (w *walk) checkEffect(e Effect) {
	c, settled := w.settles[e.XID]
	if !settled {
		w.broken("I11", "an effect of attempt %d by %s committed in transaction %d, which did not settle the row",
			e.Attempt, e.App, e.XID)
		return
	}
	if c.App != e.App {
		w.broken("I4", "an effect by %s committed with a settle by %s", e.App, c.App)
	}
	for _, of := range w.claims {
		switch {
		case of.xid != e.XID:
		case of.run == nil:
			w.broken("I11", "an effect of attempt %d by %s committed, and no handler is on record", e.Attempt, e.App)
		case of.app != e.App || of.attempt != e.Attempt:
			w.broken("I4", "an effect of attempt %d by %s committed with the settle of attempt %d by %s", e.Attempt,
				e.App, of.attempt, of.app)
		case of.end != endAcked && !of.rearmed:
			w.broken("I11", "an effect of attempt %d by %s committed, and the row went to status %d", e.Attempt, e.App,
				c.New.Status)
		}
	}
}

// wrote tells whether the claim's handler had its effect in the transaction of the settle. A timer that is set anew may
// behave differently each time.
func (w *walk) wrote(c claim) bool {
	return c.run != nil && c.run.Mode == modeTx && !c.run.Start.After(c.ended)
}
