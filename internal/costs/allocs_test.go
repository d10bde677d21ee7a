package costs_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

// TestAllocationsOfWorker counts what a worker allocates for each job, from its start to its end.
func TestAllocationsOfWorker(t *testing.T) {
	skipUnderRace(t)
	const n = 20_000
	j := newLab(t).jobs()
	j.allocationsOfDrain(n / 10) // fills caches that are filled once
	got := j.allocationsOfDrain(n)
	t.Logf("%.1f allocations a job", got)
	if got > workerAllocations {
		t.Errorf("a worker makes %.1f allocations a job, want at most %v", got, workerAllocations)
	}
}

// allocationsOfDrain returns the allocations for each job.
func (j *jobTable) allocationsOfDrain(n int) float64 {
	j.Helper()
	j.fill(n)
	var handled atomic.Int64
	all := make(chan struct{})
	w := j.worker(j.db, jobs.WorkerOptions{}, func() error {
		if handled.Add(1) == int64(n) {
			close(all)
		}
		return nil
	})
	before := mallocs()
	stop := j.run(w)
	<-all
	stop() // which settles the jobs
	return float64(mallocs()-before) / float64(n)
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// TestAllocationsOfEnqueue counts the allocations of an enqueue with its transaction.
func TestAllocationsOfEnqueue(t *testing.T) {
	skipUnderRace(t)
	j := newLab(t).jobs()
	for _, test := range []struct {
		name   string
		jobs   int
		budget float64
	}{{"one", 1, enqueueAllocations}, {"a thousand", 1000, bulkAllocations}} {
		t.Run(test.name, func(t *testing.T) {
			inserts := make([]jobs.Insert, test.jobs)
			for i := range inserts {
				inserts[i].Args = anErrand
			}
			got := testing.AllocsPerRun(20, func() {
				j.inTx(j.db, func(tx workqueue.Tx) error {
					_, err := j.client.EnqueueMany(t.Context(), tx, inserts...)
					return err
				})
			}) / float64(test.jobs)
			t.Logf("%.1f allocations a job", got)
			if got > test.budget {
				t.Errorf("enqueueing makes %.1f allocations a job, want at most %v", got, test.budget)
			}
		})
	}
}

func skipUnderRace(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("the race detector allocates by itself")
	}
}
