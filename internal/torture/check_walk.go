//go:build unix

package torture

import (
	"fmt"
	"time"
)

// A walk goes through the versions of one row.
type walk struct {
	h          *History
	f          *Facts
	violations []Violation

	now       State // the last version
	claims    []claim
	tokens    map[string]bool // that the row has had
	settles   map[int64]Change
	terminals int  // since the row began, or was set anew
	rearmed   bool // a timer was set during its firing
	inserted  bool
	refused   int
	early     int
	fired     int // the generation of a timer that was claimed last
}

// A claim is from Ready → InProgress to whatever ended it.
type claim struct {
	token, app    string
	attempt       int
	at, committed time.Time
	seq, endSeq   int64 // endSeq is 0 while it lasts
	ended         time.Time
	end           ending
	xid           int64 // of the end
}

type ending uint8

const (
	endNone ending = iota
	endAcked
	endBack
	endFailed
	endReaped
)

func newWalk(h *History, f *Facts) *walk {
	return &walk{h: h, f: f, fired: -1, tokens: map[string]bool{}, settles: map[int64]Change{}}
}

func (w *walk) broken(invariant, format string, args ...any) {
	w.violations = append(w.violations, Violation{invariant, w.h.Table, w.h.ID, fmt.Sprintf(format, args...), w.h.text()})
}

func (w *walk) walk() {
	for _, c := range w.h.Changes {
		if c.Op == 'U' && (c.OldStatus != w.now.Status || c.OldToken != w.now.Token) {
			w.broken("audit", "version #%d follows one that is not on record", c.Seq)
		}
		w.step(c)
		w.now = c.New
	}
}

func (w *walk) step(c Change) {
	from, to := w.now.Status, c.New.Status
	switch {
	case c.Op == 'I':
		w.insert(c)
	case c.Op == 'D':
		w.broken("I1", "the row was deleted, and nobody purges in a run")
	case from == ready && to == inProgress:
		w.claim(c)
	case from == inProgress && to == inProgress:
		w.hold(c)
	case from == inProgress:
		w.settle(c)
	case from == ready:
		w.rest(c)
	case to != from:
		w.revive(c)
	case c.New.Token != w.now.Token:
		w.broken("I4", "the token of a settled row changed from %s to %s", short(w.now.Token), short(c.New.Token))
	}
}

func (w *walk) insert(c Change) {
	if w.inserted {
		w.broken("I1", "the row was inserted twice")
	}
	w.inserted = true
	switch c.New.Status {
	case ready:
	case done: // the inbox takes a key and processes its message in one transaction
		w.terminals++
		w.settles[c.XID] = c
	default:
		w.broken("I5", "the row began with status %d", c.New.Status)
	}
}

// claim is Ready → InProgress.
func (w *walk) claim(c Change) {
	switch s := c.New; {
	case s.Token == "" || w.tokens[s.Token]:
		w.broken("I3", "the claim #%d has no token of its own", c.Seq)
	case w.now.Waiting:
		w.broken("I8", "the claim #%d took a row that waits", c.Seq)
	case s.Attempts != w.now.Attempts+1:
		w.broken("I6", "the claim #%d counted from %d to %d", c.Seq, w.now.Attempts, s.Attempts)
	case s.Attempts > s.Max:
		w.broken("I6", "the claim #%d is attempt %d of %d", c.Seq, s.Attempts, s.Max)
	}
	first := w.fired != w.now.Generation // a retry goes by its due time alone
	w.fired = w.now.Generation
	if w.now.Due.After(c.TxnAt) || first && w.now.Fire.After(c.TxnAt) {
		w.broken("I9", "claimed at %s by the database's clock, due at %s", c.TxnAt.Format(clockLayout), w.now.Due.Format(clockLayout))
		if w.h.Table == "timers" {
			w.early++
		}
	}
	w.tokens[c.New.Token] = true
	w.claims = append(w.claims, claim{token: c.New.Token, app: c.App, attempt: c.New.Attempts, at: c.At, committed: c.Committed, seq: c.Seq})
}

// hold is a renewal, a wish to cancel, or a timer that is set during its firing.
func (w *walk) hold(c Change) {
	if c.New.Token != w.now.Token {
		w.broken("I3", "the token changed from %s to %s while the row was in progress", short(w.now.Token), short(c.New.Token))
	}
	if c.New.Attempts != w.now.Attempts {
		w.broken("I6", "attempts went from %d to %d while the row was in progress", w.now.Attempts, c.New.Attempts)
	}
	if c.New.Generation > w.now.Generation {
		w.rearmed = true
	}
}

// settle is InProgress → anything else: by the claim's own process, or by the reaper once the lease is over.
func (w *walk) settle(c Change) {
	current := &w.claims[len(w.claims)-1]
	current.endSeq, current.ended, current.xid = c.Seq, c.At, c.XID
	if reaped := c.New.Token == ""; reaped {
		current.end = endReaped
		w.reap(c)
	} else {
		current.end = [...]ending{ready: endBack, done: endAcked, failed: endFailed}[c.New.Status]
		w.settles[c.XID] = c
		w.guard(c, current)
	}
	w.countBack(c)
	w.finish(c.New.Status)
	w.rearmed = false
}

func (w *walk) reap(c Change) {
	if !w.now.Locked.Before(c.TxnAt) {
		w.broken("I3", "the claim was taken at %s, its lease ran until %s", c.TxnAt.Format(clockLayout), w.now.Locked.Format(clockLayout))
	}
	if c.New.Status == done {
		w.broken("I4", "the row was done without a token")
	}
}

// guard is what a token promises: nobody but the claim's own process settles it.
func (w *walk) guard(c Change, current *claim) {
	if c.New.Token != w.now.Token {
		w.broken("I4", "the settle #%d changed the token from %s to %s", c.Seq, short(w.now.Token), short(c.New.Token))
	}
	if c.App != current.app {
		w.broken("I4", "the claim of %s was settled by %s, whose own was stale", current.app, c.App)
	}
}

// countBack: a failed attempt stays counted, one that was given back does not, and a timer set anew begins again.
func (w *walk) countBack(c Change) {
	was, is := w.now.Attempts, c.New.Attempts
	switch {
	case w.rearmed && c.New.Status == ready && is == 0:
	case is == was:
	case is == was-1 && c.New.Status == ready && c.New.Token != "": // snoozed or released
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

// rest is a change of a Ready row: moved, released, cancelled, parked.
func (w *walk) rest(c Change) {
	switch c.New.Status {
	case ready:
		if c.New.Attempts != w.now.Attempts && c.New.Generation == w.now.Generation {
			w.broken("I6", "attempts of a ready row went from %d to %d", w.now.Attempts, c.New.Attempts)
		}
	case failed:
		if !c.New.Cancelled && !w.now.Waiting {
			w.broken("I4", "a ready row failed that nobody had claimed or cancelled")
		}
		w.finish(failed)
	default:
		w.broken("I4", "the row was done that nobody had claimed")
		w.finish(c.New.Status)
	}
}

// revive is the end of an end. Nobody redrives in a run; timers are set anew.
func (w *walk) revive(c Change) {
	if c.New.Status != ready || c.New.Generation <= w.now.Generation {
		w.broken("I5", "the row had ended and went from status %d to %d", w.now.Status, c.New.Status)
		return
	}
	w.terminals = 0
}
