//go:build unix

package torture

import (
	"context"
	"time"
)

// A clockStep is the distance of the server's clock from ours after a change.
type clockStep struct {
	offset time.Duration
	// Versions up to number before have the old time, those beyond number after have the new one.
	before, after int64
	from, until   time.Time // for versions in between: the new time was set in this period, by our clock
}

// of tells whether a version has the time of this step or of a later one.
func (s clockStep) of(seq int64, server time.Time) bool {
	at := server.Add(-s.offset)
	return seq > s.after || seq > s.before && !at.Before(s.from) && !at.After(s.until.Add(lag))
}

// serverTime is the server's time, which may be hours from ours.
func (l *lab) serverTime() time.Time {
	if len(l.clocks) == 0 {
		return time.Now()
	}
	return time.Now().Add(l.clocks[len(l.clocks)-1].offset)
}

// ours is the time of a version by the clock of the processes, and the step that it belongs to.
func (l *lab) ours(server time.Time, seq int64) (time.Time, int) {
	for i := len(l.clocks) - 1; i >= 0; i-- {
		if i == 0 || l.clocks[i].of(seq, server) {
			return server.Add(-l.clocks[i].offset), i
		}
	}
	return server, 0
}

// dated converts the commit times of a row's versions to the clock of the processes.
func (l *lab) dated(h *History) *History {
	for i := range h.Changes {
		c := &h.Changes[i]
		if !c.Committed.IsZero() && len(l.clocks) > 0 {
			c.Committed = l.ourCommit(c.Committed, *c, h.Changes[i+1:])
		}
	}
	return h
}

// ourCommit is when the transaction that wrote a version committed. Its commit may be later than further clock steps,
// but not later than the next version, whose transaction had to wait for it. It is unknown if a step back makes two
// times possible.
func (l *lab) ourCommit(server time.Time, c Change, later []Change) (commit time.Time) {
	for i := c.step; i < len(l.clocks); i++ {
		told := server.Add(-l.clocks[i].offset)
		if told.Before(c.At) || !l.showed(i, told) || succeeded(c, later, told) {
			continue
		}
		if !commit.IsZero() {
			return time.Time{}
		}
		commit = told
	}
	return commit
}

// showed tells whether a session may have seen the time of a step at that moment.
func (l *lab) showed(step int, at time.Time) bool {
	return !at.Before(l.clocks[step].from) && (step+1 == len(l.clocks) || !at.After(l.clocks[step+1].until))
}

// succeeded tells whether another transaction had written the next version by then.
func succeeded(c Change, later []Change, by time.Time) bool {
	for _, next := range later {
		if next.Op != 'F' && next.XID != c.XID {
			return next.At.Before(by)
		}
	}
	return false
}

// lastVersion is the number of the latest version.
func (l *lab) lastVersion(ctx context.Context) (seq int64, err error) {
	err = l.admin.QueryRow(ctx, "SELECT last_value FROM "+l.schema+".row_changes_seq_seq").Scan(&seq)
	return seq, err
}
