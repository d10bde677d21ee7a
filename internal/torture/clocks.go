//go:build unix

package torture

import (
	"context"
	"time"
)

// A clockStep is how far the server's clock is from ours from then on.
type clockStep struct {
	offset        time.Duration
	before, after int64     // versions up to the first have the time of the step before, those beyond the second have the new one
	from, until   time.Time // of the versions in between: those with the new time are from here, by our clock
}

// of tells whether a version has the time of this step or of a later one.
func (s clockStep) of(seq int64, server time.Time) bool {
	at := server.Add(-s.offset)
	return seq > s.after || seq > s.before && !at.Before(s.from) && !at.After(s.until)
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

// ourCommit is when the transaction committed that wrote a version at the given time, by the clock of the processes. It may
// have gone on past later steps: of the times that are possible it is the first, since transactions of a run are shorter
// than a step back.
func (l *lab) ourCommit(server, at time.Time, step int) (commit time.Time) {
	if len(l.clocks) == 0 {
		return server
	}
	for i := step; i < len(l.clocks); i++ {
		told := server.Add(-l.clocks[i].offset)
		possible := !told.Before(at) && !told.Before(l.clocks[i].from)
		if possible && (commit.IsZero() || told.Before(commit)) {
			commit = told
		}
	}
	return commit
}

// lastVersion is the number of the version that was written last.
func (l *lab) lastVersion(ctx context.Context) (seq int64, err error) {
	err = l.admin.QueryRow(ctx, "SELECT last_value FROM "+l.schema+".audit_seq_seq").Scan(&seq)
	return seq, err
}
