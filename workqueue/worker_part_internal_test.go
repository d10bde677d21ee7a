package workqueue

import (
	"testing"
	"time"
)

// A worker whose renewals have not turned for two leases is stuck, whatever the state of the database. A worker that
// has ended is not.
func TestAWorkerThatIsStuckIsTold(t *testing.T) {
	t.Parallel()
	table, err := Open(Spec{Table: "rows"}, Telemetry{})
	if err != nil {
		t.Fatal(err)
	}
	o := WorkerOptions{Lease: time.Hour}.withDefaults()
	w := newWorker(consumer{table: table, handling: o.handling()}, nil, o)
	w.epoch = time.Now().Add(-24 * time.Hour)
	for _, c := range []struct {
		phase int32
		beat  time.Duration // ago; 0: none
		alive bool
	}{
		{phaseNew, 0, true},
		{phaseStarting, 0, true},
		{phaseWorking, time.Minute, true},
		{phaseWorking, 119 * time.Minute, true},
		{phaseWorking, 121 * time.Minute, false},
		{phaseStopping, 121 * time.Minute, false},
		{phaseStopping, 0, true},
	} {
		w.phase.Store(c.phase)
		w.beat.Store(0)
		if c.beat > 0 {
			w.beat.Store(w.clock() - int64(c.beat))
		}
		if err := w.Alive(); (err == nil) != c.alive {
			t.Errorf("phase %d, %v ago: %v", c.phase, c.beat, err)
		}
	}
}
