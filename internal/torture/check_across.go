//go:build unix

package torture

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Orders check I8: of an ordered key at most one row is in progress, and rows end in the order in which their
// transactions committed.
type orders struct{ keys map[string][]place }

// A place is a row among those of its key.
type place struct {
	id        string
	committed time.Time // of the insert; zero where it is not known
	seq       int64     // of the insert: the order within one transaction
	xid       int64
	ended     int64 // seq of the first end; 0: none
	claims    []claim
	h         *History
}

func newOrders() *orders { return &orders{keys: map[string][]place{}} }

func (o *orders) add(w *walk) {
	if w.h.Key == "" || !w.inserted {
		return
	}
	first := w.h.Changes[0]
	p := place{id: w.h.ID, committed: first.Committed, seq: first.Seq, xid: first.XID, claims: w.claims, h: w.h}
	for _, c := range w.h.Changes {
		if c.New.Status >= done {
			p.ended = c.Seq
			break
		}
	}
	o.keys[w.h.Key] = append(o.keys[w.h.Key], p)
}

func (o *orders) check() (found []Violation) {
	for _, key := range slices.Sorted(maps.Keys(o.keys)) {
		found = append(found, together(key, o.keys[key])...)
		found = append(found, outOfOrder(key, o.keys[key])...)
	}
	return found
}

// together finds two rows of a key in progress at once. A claim that never ended lasts.
func together(key string, places []place) (found []Violation) {
	type interval struct {
		claim
		of place
	}
	var all []interval
	for _, p := range places {
		for _, c := range p.claims {
			all = append(all, interval{c, p})
		}
	}
	slices.SortFunc(all, func(a, b interval) int { return cmp.Compare(a.seq, b.seq) })
	for i := 1; i < len(all); i++ {
		before, next := all[i-1], all[i]
		if before.of.id != next.of.id && (before.endSeq == 0 || before.endSeq > next.seq) {
			found = append(found, disorder(key, before.of, next.of, "were in progress at once"))
		}
	}
	return found
}

// outOfOrder finds a row that ended before one that had committed earlier.
func outOfOrder(key string, places []place) (found []Violation) {
	slices.SortFunc(places, func(a, b place) int { return cmp.Or(a.committed.Compare(b.committed), cmp.Compare(a.seq, b.seq)) })
	for i := 1; i < len(places); i++ {
		a, b := places[i-1], places[i]
		known := a.xid == b.xid || !a.committed.IsZero() && a.committed.Before(b.committed)
		if known && a.ended > 0 && b.ended > 0 && b.ended < a.ended {
			found = append(found, disorder(key, a, b, "committed in this order and ended in the other"))
		}
	}
	return found
}

func disorder(key string, a, b place, what string) Violation {
	return Violation{"I8", "outbox", b.id, fmt.Sprintf("%s and %s of key %s %s", a.id, b.id, key, what), append(a.h.text(), b.h.text()...)}
}

// Limits check I7: a claim takes at most what it asked for.
type limits struct {
	calls   []ClaimCall
	allowed map[string]int // the most that a process asked of a table
	took    map[string]*taken
	last    map[string]*taken // of a process and table: the process may have died before it could say what it asked for
}

type taken struct {
	owner string
	rows  int
	seq   int64
	first *History
}

func newLimits(calls []ClaimCall) *limits {
	l := &limits{calls: calls, allowed: map[string]int{}, took: map[string]*taken{}, last: map[string]*taken{}}
	for _, c := range calls {
		owner := c.Table + " " + c.App
		l.allowed[owner] = max(l.allowed[owner], c.Limit)
	}
	return l
}

func (l *limits) add(w *walk) {
	for _, c := range w.claims {
		t := l.took[c.token]
		if t == nil {
			t = &taken{owner: w.h.Table + " " + c.app, first: w.h}
			l.took[c.token] = t
		}
		t.rows++
		t.seq = max(t.seq, c.seq)
		if last := l.last[t.owner]; last == nil || last.seq < t.seq {
			l.last[t.owner] = t
		}
	}
}

// check holds both records against the limits: what the process was given, and what the database gave it. The last
// claim of a process is a maybe.
func (l *limits) check() (found []Violation) {
	for _, c := range l.calls {
		if c.Delivered > c.Limit {
			found = append(found, Violation{"I7", c.Table, "", fmt.Sprintf("a claim of %s for %d rows returned %d", c.App, c.Limit, c.Delivered), nil})
		}
	}
	for _, token := range slices.Sorted(maps.Keys(l.took)) {
		t := l.took[token]
		if allowed, known := l.allowed[t.owner]; known && t != l.last[t.owner] && t.rows > allowed {
			found = append(found, Violation{"I7", t.first.Table, t.first.ID, fmt.Sprintf("the claim %s took %d rows, at most %d were ever asked for", short(token), t.rows, allowed), t.first.text()})
		}
	}
	return found
}
