//go:build unix

package torture

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// wakes check that rows are found: no row waits for longer than its workers may take to notice it, while workers are
// free and nothing else holds it up.
//
// A wait ends with a row's first claim. It begins when the row can be claimed: when its insert has committed, by the
// server's commit timestamp, and it is due. A row that has to wait its turn is recognised by the recorded claims, see
// [tableClaims.turn], and a row that a fault held up by the conductor's record of the strikes:
//
//   - Without a fault around, a row is announced and may wait for hearing.
//   - If only announcers were struck, rows of silent producers may wait for a poll: the interval plus hearing.
//   - During any other fault, and for an interval plus hearing after it, a wait is not judged.
type wakes struct {
	f        *Facts
	tables   map[string]*tableClaims
	suspects []wait
	judged   int
	longest  time.Duration
}

const (
	// hearing is how long it may take from an announcement to a claim on an overloaded machine.
	hearing = 3 * time.Second
	// resting is how long nothing is claimed from a table whose workers rest. At most fewRows are in progress then, so
	// that a single worker has room for more.
	resting = 200 * time.Millisecond
	fewRows = handlersEach / 2
)

// never is later than the end of any run.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// A Disturbance is a time in which something may have held up rows.
type Disturbance struct {
	Span
	// Announcers says that only announcers were struck: workers continue, and find unannounced rows by a poll.
	Announcers bool
}

// A wait is a row's wait for its first claim, by the clock of the processes.
type wait struct {
	h        *History
	written  time.Time // when the row was inserted
	since    time.Time // when the row could be claimed
	due      time.Time // when the row was due, by the server's clock
	claimed  time.Time
	released bool // the row first waited for a fold
}

// tableClaims are the claims of a table in their order.
type tableClaims struct {
	claims []claimOfRow
	ends   []time.Time
}

type claimOfRow struct{ at, due time.Time }

func newWakes(f *Facts) *wakes { return &wakes{f: f, tables: map[string]*tableClaims{}} }

func (k *wakes) add(w *walk) {
	if k.f.Poll == 0 {
		return
	}
	t := k.tables[w.h.Table]
	if t == nil {
		t = &tableClaims{}
		k.tables[w.h.Table] = t
	}
	for _, c := range w.claims {
		t.claims = append(t.claims, claimOfRow{c.at, c.due})
		if !c.ended.IsZero() {
			t.ends = append(t.ends, c.ended)
		}
	}
	first, ok := firstWait(w.h)
	switch took := first.claimed.Sub(first.since); {
	case !ok:
	case took > hearing:
		k.suspects = append(k.suspects, first)
	default:
		if _, judged := k.limit(first, first.since); judged {
			k.note(took)
		}
	}
}

func (k *wakes) note(took time.Duration) {
	k.judged++
	k.longest = max(k.longest, took)
}

// firstWait returns a row's wait for its first claim, if nothing else happened to the row before. A row that waits for
// a fold counts only if no other row has its key, because others wait for their predecessors.
func firstWait(h *History) (w wait, ok bool) {
	if len(h.Changes) < 2 || h.Changes[0].Op != 'I' || h.Changes[0].Committed.IsZero() {
		return w, false
	}
	insert, next := h.Changes[0], h.Changes[1]
	last := insert
	if released := insert.New; released.Waiting && next.Op == 'U' && len(h.Changes) > 2 {
		released.Waiting, released.Due = false, next.New.Due
		if w.released = released.equal(next.New) && strings.HasPrefix(h.Key, onlyKey); w.released {
			last, next = next, h.Changes[2]
		}
	}
	claimed := next.Op == 'U' && last.New.Status == ready && !last.New.Waiting && next.New.Status == inProgress
	due := insert.At.Add(last.New.Due.Sub(insert.TxnAt))
	w.h, w.written, w.since, w.due, w.claimed = h, insert.At, latest(insert.Committed, due), last.New.Due, next.At
	return w, claimed
}

// check returns the rows that waited for too long.
func (k *wakes) check() (found []Violation) {
	for _, t := range k.tables {
		t.sort()
	}
	for _, w := range k.suspects {
		turn := k.tables[w.h.Table].turn(w)
		took := w.claimed.Sub(turn)
		limit, judged := k.limit(w, turn)
		if !judged {
			continue
		}
		k.note(took)
		if took > limit {
			found = append(found, Violation{"wake", w.h.Table, w.h.ID, fmt.Sprintf(
				"it could be claimed at %s, its turn had come at %s, and it was claimed %v after that: %v are allowed",
				w.since.Format(clockLayout), turn.Format(clockLayout), took, limit), w.h.text()})
		}
	}
	return found
}

// limit is how long a row may wait from its turn on, and whether that is judged. A disturbance after that time excuses
// nothing.
func (k *wakes) limit(w wait, turn time.Time) (limit time.Duration, judged bool) {
	if !k.disturbed(w.written, turn.Add(hearing), func(Disturbance) bool { return true }) {
		return hearing, true
	}
	limit = k.f.Poll + hearing
	others := func(d Disturbance) bool { return !d.Announcers }
	return limit, !w.released && !k.disturbed(w.written, turn.Add(limit), others) // a fold has its own polls
}

// disturbed tells whether a disturbance, extended by one poll, overlaps the time between from and to.
func (k *wakes) disturbed(from, to time.Time, which func(Disturbance) bool) bool {
	return slices.ContainsFunc(k.f.Disturbed, func(d Disturbance) bool {
		return which(d) && !d.From.After(to) && !d.To.Add(k.f.Poll+hearing).Before(from)
	})
}

func (t *tableClaims) sort() {
	slices.SortFunc(t.claims, func(a, b claimOfRow) int { return a.at.Compare(b.at) })
	slices.SortFunc(t.ends, time.Time.Compare)
}

// turn is when it was a row's turn: when workers first passed it over by claiming one that is due later, or when they
// rested although the row was available.
func (t *tableClaims) turn(w wait) time.Time {
	i, _ := slices.BinarySearchFunc(t.claims, w.since, func(c claimOfRow, at time.Time) int { return c.at.Compare(at) })
	for from := w.since; ; i++ {
		until := w.claimed
		if i < len(t.claims) && t.claims[i].at.Before(until) {
			until = t.claims[i].at
		}
		if rest := latest(from, t.room(i)); until.Sub(rest) >= resting {
			return rest
		}
		if !until.Before(w.claimed) || t.claims[i].due.After(w.due) {
			return until
		}
		from = until
	}
}

// room is when so few of the given number of claims were still unfinished that any worker could make another one.
func (t *tableClaims) room(claims int) time.Time {
	switch ended := claims - fewRows; {
	case ended < 0:
		return time.Time{}
	case ended >= len(t.ends):
		return never
	default:
		return t.ends[ended]
	}
}
