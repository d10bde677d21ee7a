//go:build unix

package torture

import (
	"fmt"
	"strings"
	"time"
)

// A walk goes through the versions of one row.
type walk struct {
	h          *History
	f          *Facts
	violations []Violation
	suspects   []suspect

	now       State // the last version so far
	seq       int64 // its number
	claims    []claim
	tokens    map[string]bool // tokens that the row has had
	settles   map[int64]Change
	terminals int  // number of ends since the row began or was set anew
	rearmed   bool // a timer was set during its firing
	inserted  bool
	deleted   bool
	seen      bool // found in its table at the end of the run
	sets      int  // how often it was written: inserted or set anew
	refused   int
	early     int
	fired     int // generation of the timer that was claimed last
}

// A claim lasts from Ready → InProgress until whatever ended it.
type claim struct {
	token, app    string
	attempt       int
	at, committed time.Time
	due           time.Time // of the row, by the server's clock
	seq, endSeq   int64     // endSeq is 0 while it lasts
	ended         time.Time
	until         time.Time // end of its lease
	end           ending
	xid           int64 // transaction that ended it
	exhausted     bool  // no attempts were left, or a cancel was requested
	rearmed       bool  // the timer was set anew during the claim
	givenBack     bool  // its attempt was given back
	waited        bool  // it took the row as part of a run
	run           *Handling
}

// The names of applications that write to the tables begin with one of these.
const (
	runPrefix  = "run "     // the run's own process: producers, and those who put schedules
	crewPrefix = "torture " // workers and reapers
)

func crewed(app string) bool { return strings.HasPrefix(app, crewPrefix) }

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
	w.violations = append(w.violations, w.violation(invariant, format, args...))
}

func (w *walk) violation(invariant, format string, args ...any) Violation {
	return Violation{invariant, w.h.Table, w.h.ID, fmt.Sprintf(format, args...), w.h.text()}
}

func (w *walk) walk() {
	for _, c := range w.h.Changes {
		if c.Op == 'F' {
			w.compare(c)
			return
		}
		if c.Seq <= w.seq {
			w.broken("audit", "version #%d is on record after version #%d", c.Seq, w.seq)
		}
		w.seq = c.Seq
		if c.Op == 'U' && (c.OldStatus != w.now.Status || c.OldToken != w.now.Token) {
			w.broken("audit", "version #%d follows one that is not on record", c.Seq)
		}
		w.step(c)
		w.now = c.New
	}
}

// compare compares the row in the table at the end with the last recorded version.
func (w *walk) compare(c Change) {
	w.seen = true
	if w.inserted && !w.now.equal(c.New) {
		w.broken("audit", "the row is not in its table as its last version says")
	}
}

func (w *walk) step(c Change) {
	from, to := w.now.Status, c.New.Status
	if c.Op == 'I' || c.New.Generation > w.now.Generation {
		w.sets++
	}
	w.checkKept(c)
	switch {
	case c.Op == 'I':
		w.insert(c)
	case c.Op == 'D':
		w.deleted = true
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

// checkKept checks that a row's settings stay the same until it is set anew, and that only producers cancel rows, and
// only timers.
func (w *walk) checkKept(c Change) {
	anew := c.Op == 'I' || c.New.Generation > w.now.Generation || w.rearmed && w.now.Status == inProgress &&
		c.New.Status == ready
	switch {
	case c.New.Max != w.now.Max && !anew:
		w.broken("I6", "the maximum of attempts went from %d to %d", w.now.Max, c.New.Max)
	case c.New.Cancelled && !w.now.Cancelled && (c.Op == 'I' || crewed(c.App) || w.h.Table != "timers"):
		w.broken("I5", "the row was cancelled by %s, which cancels none", c.App)
	case c.New.Generation < w.now.Generation:
		w.broken("I5", "the generation went from %d to %d", w.now.Generation, c.New.Generation)
	case w.now.Cancelled && !c.New.Cancelled && !anew:
		w.broken("I5", "the row is not cancelled any more")
	}
}

func (w *walk) insert(c Change) {
	if w.inserted {
		w.broken("I1", "the row was inserted twice")
	}
	w.inserted = true
	switch c.New.Status {
	case ready:
		if c.New.Token != "" || c.New.Attempts != 0 {
			w.broken("I6", "the row began with %d attempts and the token %s", c.New.Attempts, short(c.New.Token))
		}
	case done: // the inbox inserts a message and processes it in one transaction
		w.terminals++
		w.settles[c.XID] = c
	default:
		w.broken("I5", "the row began with status %d", c.New.Status)
	}
}

// claim checks a change from Ready to InProgress.
func (w *walk) claim(c Change) {
	switch s := c.New; {
	case s.Token == "" || w.tokens[s.Token]:
		w.broken("I3", "the claim #%d has no token of its own", c.Seq)
	case w.now.Waiting && w.h.Key == "":
		w.broken("I8", "the claim #%d took a row that waits", c.Seq)
	case s.Attempts != w.now.Attempts+1:
		w.broken("I6", "the claim #%d counted from %d to %d", c.Seq, w.now.Attempts, s.Attempts)
	case s.Attempts > s.Max:
		w.broken("I6", "the claim #%d is attempt %d of %d", c.Seq, s.Attempts, s.Max)
	}
	first := w.fired != w.now.Generation // a retry depends on its due time only
	w.fired = w.now.Generation
	if at := c.claimed(); w.now.Due.After(at) || first && w.now.Fire.After(at) {
		w.broken("I9", "claimed at %s by the database's clock, due at %s", at.Format(clockLayout),
			w.now.Due.Format(clockLayout))
		if w.h.Table == "timers" {
			w.early++
		}
	}
	w.tokens[c.New.Token] = true
	w.claims = append(w.claims, claim{token: c.New.Token, app: c.App, attempt: c.New.Attempts, at: c.At,
		committed: c.Committed, due: w.now.Due, seq: c.Seq, until: c.leased(),
		waited: w.now.Waiting})
}

// claimed is the time of a claim by the server's clock: the beginning of the transaction, or in the SQL functions,
// whose callers may be in a transaction for long, the time from which the lease counts. A fetch looks for rows before
// that. If the clock steps back in between, nobody knows at which time it looked, shortly after the beginning.
func (c Change) claimed() time.Time {
	if !strings.HasPrefix(c.App, sqlPrefix) {
		return c.TxnAt
	}
	if at := c.New.Locked.Add(-lease); !at.Before(c.TxnAt) {
		return at
	}
	return c.TxnAt.Add(lag)
}

// current is the claim that lasts. Every row in progress has one.
func (w *walk) current() *claim {
	if last := len(w.claims) - 1; last >= 0 && w.claims[last].end == endNone {
		return &w.claims[last]
	}
	w.broken("I3", "the row is in progress, and no claim is on record")
	w.claims = append(w.claims, claim{token: w.now.Token, attempt: w.now.Attempts})
	return &w.claims[len(w.claims)-1]
}

// leased is the end of the lease, by the clock of the processes.
func (c Change) leased() time.Time { return c.At.Add(c.New.Locked.Sub(c.TxnAt)) }

// hold checks a change of a row that stays in progress: a renewal, a requested cancel, or a timer set during its
// firing.
func (w *walk) hold(c Change) {
	current := w.current()
	if !c.New.Locked.Equal(w.now.Locked) {
		current.until = c.leased()
		if c.App != current.app {
			w.broken("I4", "the lease of %s was renewed by %s", current.app, c.App)
		}
	}
	if c.New.Token != w.now.Token {
		w.broken("I3", "the token changed from %s to %s while the row was in progress", short(w.now.Token),
			short(c.New.Token))
	}
	if c.New.Attempts != w.now.Attempts {
		w.broken("I6", "attempts went from %d to %d while the row was in progress", w.now.Attempts, c.New.Attempts)
	}
	switch {
	case c.New.Generation > w.now.Generation:
		w.rearmed = true
	case !crewed(c.App): // a cancel discards what was set during the firing
		w.rearmed = false
	}
}
