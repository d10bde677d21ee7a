package costs_test

import (
	"testing"

	"github.com/txwork/txwork/jobs"
)

// TestWriteAheadLog measures the log that a job writes in each of its phases: in a new table, and in one that has been
// filled and vacuumed before.
func TestWriteAheadLog(t *testing.T) {
	j := newLab(t).jobs()
	for _, table := range []string{"new", "used"} {
		t.Run(table, func(t *testing.T) {
			inserted, claimed, acked := j.walByPhase()
			for _, phase := range []struct {
				name        string
				got, budget int64
			}{{"insert", inserted, insertWAL}, {"claim", claimed, claimWAL}, {"ack", acked, ackWAL}} {
				t.Logf("%s: %d bytes a job", phase.name, phase.got)
				if phase.got > phase.budget {
					t.Errorf("%s writes %d bytes of log a job, want at most %d", phase.name, phase.got, phase.budget)
				}
			}
		})
	}
}

// walByPhase returns bytes for each job.
func (j *jobTable) walByPhase() (inserted, claimed, acked int64) {
	j.Helper()
	const n = 10_000
	start := j.wal()
	j.enqueue(j.db, n, anErrand, jobs.Insert{})
	inserted = (j.wal() - start) / n
	j.settle()
	var middle int64
	start = j.wal()
	j.inPhases(j.db, n, jobs.WorkerOptions{}, func() { middle = j.wal() })
	return inserted, (middle - start) / n, (j.wal() - middle) / n
}
