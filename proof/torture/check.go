//go:build unix

package torture

import (
	"fmt"
	"iter"
	"slices"
	"time"
)

// Facts are what the checker needs to know besides the histories.
type Facts struct {
	// Outages are the times when a server ended without warning. Claims made just before may be lost, see forgotten.
	Outages []Span
	// Calls are the claims as the processes saw them.
	Calls []ClaimCall
	// Strikes are the strikes of all faults.
	Strikes []Strike
	// Calm is when the last fault was over.
	Calm time.Time
	// Stalled says that rows were left although nothing had changed for longer than everything may take.
	Stalled bool
	// Poll is how often workers poll for rows that were not announced. If it is 0, waits are not judged.
	Poll time.Duration
	// Disturbed lists the times in which something may have held up rows.
	Disturbed []Disturbance
}

// A Span is a period of time.
type Span struct{ From, To time.Time }

// A ClaimCall is one claim as its process saw it: how many rows of a table it asked for and got.
type ClaimCall struct {
	Table, App       string
	Limit, Delivered int
}

// A Strike is one episode of a fault.
type Strike struct {
	Fault  string        `json:"fault"`
	At     time.Time     `json:"at"` // when it hit, which may be after some preparations
	Took   time.Duration `json:"took"`
	Detail string        `json:"detail,omitempty"`
	Error  string        `json:"error,omitempty"`
}

// A Violation says which invariant a row broke.
type Violation struct {
	Invariant string   `json:"invariant"`
	Table     string   `json:"table"`
	ID        string   `json:"id"`
	What      string   `json:"what"`
	History   []string `json:"history"`
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s %s: %s", v.Invariant, v.Table, v.ID, v.What)
}

// A Verdict is what the checker concludes from the histories.
type Verdict struct {
	Violations   []Violation
	Counts       map[string]int // number of violations by invariant
	Rows         int
	Claims       int
	Redeliveries int // claims of a row after its first
	Reaped       int
	Refused      int // handlers that ended after their claim was taken away
	EarlyTimers  int
	Waits        int           // first claims whose wait was judged
	LongestWait  time.Duration // the longest of these waits
	// Recovered is, for each strike, how long it took until every row in progress at the strike had been settled or
	// reaped.
	Recovered []time.Duration
}

// keptViolations bounds how many violations of each invariant a verdict contains. All of them are counted.
const keptViolations = 3

// Check evaluates I1 to I11 over the histories, and how long rows waited.
func Check(rows iter.Seq[*History], f Facts) Verdict {
	v := Verdict{Violations: []Violation{}, Counts: map[string]int{}, Recovered: make([]time.Duration, len(f.Strikes))}
	orders, limits, forgotten, wakes := newOrders(), newLimits(f.Calls), newForgotten(f.Outages), newWakes(&f)
	for h := range rows {
		w := newWalk(h, &f)
		w.walk()
		w.checkAsked()
		w.checkRuns()
		w.checkEffects()
		v.add(w)
		orders.add(w)
		limits.add(w)
		forgotten.add(w)
		wakes.add(w)
	}
	v.report(forgotten.check()...)
	v.report(orders.check()...)
	v.report(limits.check()...)
	v.report(wakes.check()...)
	v.Waits, v.LongestWait = wakes.judged, wakes.longest
	return v
}

func (v *Verdict) add(w *walk) {
	if len(w.h.Changes) > 0 {
		v.Rows++
	}
	v.Claims += len(w.claims)
	v.Redeliveries += max(0, len(w.claims)-1)
	v.Refused += w.refused
	v.EarlyTimers += w.early
	for _, c := range w.claims {
		if c.end == endReaped {
			v.Reaped++
		}
		v.recover(c, w.f.Strikes)
	}
	v.report(w.violations...)
}

func (v *Verdict) report(violations ...Violation) {
	for _, found := range violations {
		v.Counts[found.Invariant]++
		if v.Counts[found.Invariant] <= keptViolations {
			v.Violations = append(v.Violations, found)
		}
	}
}

// recover records, for every strike during a claim, when the claim ended.
func (v *Verdict) recover(c claim, strikes []Strike) {
	if c.ended.IsZero() {
		return
	}
	first, _ := slices.BinarySearchFunc(strikes, c.at, func(s Strike, t time.Time) int { return s.At.Compare(t) })
	for i := first; i < len(strikes) && strikes[i].At.Before(c.ended); i++ {
		v.Recovered[i] = max(v.Recovered[i], c.ended.Sub(strikes[i].At))
	}
}
