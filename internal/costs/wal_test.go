package costs_test

import (
	"testing"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
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

// TestWriteAheadLogOfLimits measures what a limit and a rate of the queue add to a claim and to an ack. Such claims
// take at most 64 jobs each, and 32 with both.
func TestWriteAheadLogOfLimits(t *testing.T) {
	for _, c := range []struct {
		name       string
		limits     jobs.Limits
		claim, ack int64
	}{
		{"limit", jobs.Limits{MaxRunning: 20_000}, limitedClaimWAL, limitedAckWAL},
		{"rate", jobs.Limits{Rate: 1e6, Burst: 1e6}, ratedClaimWAL, ackWAL},
		{"limit and rate", jobs.Limits{MaxRunning: 20_000, Rate: 1e6, Burst: 1e6}, bothClaimWAL, limitedAckWAL},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := newLab(t).jobs()
			j.inTx(j.db, func(tx workqueue.Tx) error {
				return j.client.SetLimits(t.Context(), tx, "default", c.limits)
			})
			_, claimed, acked := j.walByPhase()
			t.Logf("claim: %d bytes a job, ack: %d", claimed, acked)
			if claimed > c.claim || acked > c.ack {
				t.Errorf("a claim writes %d bytes of log a job and an ack %d, want at most %d and %d", claimed, acked,
					c.claim, c.ack)
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
