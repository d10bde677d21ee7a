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

// orders check I8: the rows of an ordered key that are in progress have one token, and none of them begins before those
// whose transactions committed earlier have ended, or are in progress with its token. They end in this order.
type orders struct{ keys map[string][]place }

// A place is the position of a row among those of its key.
type place struct {
	id        string
	committed time.Time // commit time of the insert; zero if unknown
	seq       int64     // number of the insert, which gives the order within one transaction
	xid       int64
	ended     int64 // seq of the first end; 0 if there is none
	endXID    int64
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
			p.ended, p.endXID = c.Seq, c.XID
			break
		}
	}
	o.keys[w.h.Key] = append(o.keys[w.h.Key], p)
}

func (o *orders) check() (found []Violation) {
	for _, key := range slices.Sorted(maps.Keys(o.keys)) {
		found = append(found, together(key, o.keys[key])...)
		found = append(found, outOfOrder(key, o.keys[key])...)
		found = append(found, headless(key, o.keys[key])...)
	}
	return found
}

// together finds two rows of a key that were in progress at the same time and are no run. A claim that never ended
// lasts forever.
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
	var open []interval
	for _, next := range all {
		open = slices.DeleteFunc(open, func(before interval) bool {
			return before.endSeq > 0 && before.endSeq < next.seq
		})
		for _, before := range open {
			if before.of.id != next.of.id && before.token != next.token {
				found = append(found, disorder(key, before.of, next.of, "were in progress at once"))
			}
		}
		open = append(open, next)
	}
	return found
}

// headless finds a row that waited and was claimed without a row of its key that had been claimed with the same token.
func headless(key string, places []place) (found []Violation) {
	heads := map[string]place{}
	for _, p := range places {
		for _, c := range p.claims {
			if !c.waited {
				heads[c.token] = p
			}
		}
	}
	for _, p := range places {
		for _, c := range p.claims {
			if head, known := heads[c.token]; c.waited && (!known || !head.holds(c)) {
				found = append(found, Violation{"I8", "outbox", p.id, fmt.Sprintf("the claim #%d took a row of key %s "+
					"that waits, and its token had none that was released", c.seq, key), p.h.text()})
			}
		}
	}
	return found
}

// holds tells whether the row was in progress with the token of a claim when that was made.
func (p place) holds(of claim) bool {
	return slices.ContainsFunc(p.claims, func(c claim) bool {
		return c.token == of.token && c.seq < of.seq && (c.endSeq == 0 || c.endSeq > of.seq)
	})
}

// outOfOrder finds a row that was claimed, or ended, before a row that committed earlier had ended.
func outOfOrder(key string, places []place) (found []Violation) {
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(a.committed.Compare(b.committed), cmp.Compare(a.seq, b.seq))
	})
	var earlier []*place // those that committed before, and had not ended when the last one began
	for len(places) > 0 {
		once := sameCommit(places)
		for i := range once {
			for _, before := range slices.Concat(earlier, ofTransaction(once[:i], once[i].xid)) {
				if once[i].precedes(before) {
					found = append(found, disorder(key, *before, once[i],
						"committed in this order and ran in the other"))
				}
			}
		}
		if !once[0].committed.IsZero() {
			began := once[0].began()
			for i := range once {
				earlier, began = append(earlier, &once[i]), min(began, once[i].began())
			}
			earlier = slices.DeleteFunc(earlier, func(p *place) bool { return p.end() < began })
		}
		places = places[len(once):]
	}
	return found
}

// precedes tells whether the row was claimed, or ended, before a row that comes first had ended. The rows of a run are
// claimed together, and end together or in their order.
func (p place) precedes(first *place) bool {
	if p.ended > 0 && p.ended < first.end() && p.endXID != first.endXID {
		return true
	}
	return slices.ContainsFunc(p.claims, func(c claim) bool { return c.seq < first.end() && !first.had(c.token) })
}

// had tells whether the row was claimed with a token.
func (p place) had(token string) bool {
	return slices.ContainsFunc(p.claims, func(c claim) bool { return c.token == token })
}

// ofTransaction returns those that a transaction wrote.
func ofTransaction(once []place, xid int64) (all []*place) {
	for i := range once {
		if once[i].xid == xid {
			all = append(all, &once[i])
		}
	}
	return all
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
