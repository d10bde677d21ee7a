//go:build unix

package torture

import (
	"fmt"
	"iter"
	"slices"
	"time"
)

// Facts are what the checker has to know beside the histories.
type Facts struct {
	// Outages are when a server ended without warning. What was claimed just before may be gone, see forgotten.
	Outages []Span
	// Calls are the claims as the processes saw them.
	Calls []ClaimCall
	// Strikes are when faults struck.
	Strikes []Strike
	// Calm is when the last fault was over.
	Calm time.Time
	// Stalled says that rows were left although nothing had moved for longer than everything may take.
	Stalled bool
	// Poll is how often workers look for rows of which nobody tells them; zero: waits are not judged.
	Poll time.Duration
	// Disturbed is when something may have held rows up.
	Disturbed []Disturbance
}

// A Span is a stretch of time.
type Span struct{ From, To time.Time }

// A ClaimCall is one claim: how many rows were wanted of a table.
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

// A Violation is an invariant that a row broke.
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

// A Verdict is what the histories say.
type Verdict struct {
	Violations   []Violation
	Counts       map[string]int // of violations, by invariant
	Rows         int
	Claims       int
	Redeliveries int // claims beyond a row's first
	Reaped       int
	Refused      int // handlers that ended after their claim was taken from them
	EarlyTimers  int
	Waits        int           // for a first claim, that were judged
	LongestWait  time.Duration // of those
	// Recovered is, for each strike, how long it took until every row had been settled or reaped that was in
	// progress then.
	Recovered []time.Duration
}

// keptViolations bounds what a verdict carries of each invariant; all are counted.
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

// recover notes for every strike during a claim when the claim ended.
func (v *Verdict) recover(c claim, strikes []Strike) {
	if c.ended.IsZero() {
		return
	}
	first, _ := slices.BinarySearchFunc(strikes, c.at, func(s Strike, t time.Time) int { return s.At.Compare(t) })
	for i := first; i < len(strikes) && strikes[i].At.Before(c.ended); i++ {
		v.Recovered[i] = max(v.Recovered[i], c.ended.Sub(strikes[i].At))
	}
}
