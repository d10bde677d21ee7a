//go:build unix

package torture

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// orders check I8: at most one row of an ordered key is in progress, and no row begins before those whose transactions
// committed earlier have ended.
type orders struct{ keys map[string][]place }

// A place is the position of a row among those of its key.
type place struct {
	id        string
	committed time.Time // commit time of the insert; zero if unknown
	seq       int64     // number of the insert, which gives the order within one transaction
	xid       int64
	ended     int64 // seq of the first end; 0 if there is none
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

// together finds two rows of a key that were in progress at the same time. A claim that never ended lasts forever.
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

// outOfOrder finds a row that was claimed, or ended, before a row that committed earlier had ended.
func outOfOrder(key string, places []place) (found []Violation) {
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(a.committed.Compare(b.committed), cmp.Compare(a.seq, b.seq))
	})
	var earlier *place // of the rows that committed before, the one that ended last
	for len(places) > 0 {
		once := sameCommit(places)
		for i := range once {
			if before := lastEnded(earlier, once[:i], once[i].xid); before != nil && once[i].began() < before.end() {
				found = append(found, disorder(key, *before, once[i], "committed in this order and ran in the other"))
			}
		}
		if !once[0].committed.IsZero() {
			for i := range once {
				earlier = laterEnd(earlier, &once[i])
			}
		}
		places = places[len(once):]
	}
	return found
}

// sameCommit returns the first of the places and those that committed at the same time, usually in the same
// transaction.
func sameCommit(places []place) []place {
	n := 1
	for n < len(places) && places[n].committed.Equal(places[0].committed) {
		n++
	}
	return places[:n]
}

// lastEnded returns the row that ended last among all that are known to precede a row: those that committed earlier,
// and those before it in its own transaction.
func lastEnded(earlier *place, once []place, xid int64) *place {
	for i := range once {
		if once[i].xid == xid {
			earlier = laterEnd(earlier, &once[i])
		}
	}
	return earlier
}

func laterEnd(a, b *place) *place {
	if a == nil || a.end() < b.end() {
		return b
	}
	return a
}

// began is when the row was first claimed, or ended without a claim. A row with neither has not begun.
func (p place) began() int64 {
	switch {
	case len(p.claims) > 0:
		return p.claims[0].seq
	case p.ended > 0:
		return p.ended
	}
	return math.MaxInt64
}

// end is when the row ended, or later than everything if it has not.
func (p place) end() int64 {
	if p.ended > 0 {
		return p.ended
	}
	return math.MaxInt64
}

func disorder(key string, a, b place, what string) Violation {
	return Violation{"I8", "outbox", b.id, fmt.Sprintf("%s and %s of key %s %s", a.id, b.id, key, what),
		append(a.h.text(), b.h.text()...)}
}
