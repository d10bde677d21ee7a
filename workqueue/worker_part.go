package workqueue

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// The phases of a worker.
const (
	phaseNew int32 = iota
	phaseStarting
	phaseWorking
	phaseStopping
)

// Join makes a worker that has not been started share a runtime with others, instead of using one of its own.
func (w *Worker) Join(r *Runtime) error {
	switch {
	case r == nil:
		return invalid("runtime", "is nil")
	case w.started.Load():
		return errors.New("txwork: a worker that has been started cannot join a runtime")
	}
	if err := r.checkPool(w.pool); err != nil {
		return err
	}
	w.runtime = r
	r.expect(w)
	return nil
}

// Workers returns the worker itself, which makes it a part of a service.
func (w *Worker) Workers() []*Worker { return []*Worker{w} }

// Tables returns the worker's table, which makes the worker a part of a service.
func (w *Worker) Tables() []*Table { return []*Table{w.table} }

// Lanes are the lanes that the worker serves, see [Domain].
func (w *Worker) Lanes() [][]any { return w.lanes }

// Options are the worker's options, with their defaults and the current Concurrency.
func (w *Worker) Options() WorkerOptions {
	o := w.options
	_, o.Concurrency = w.flow.Load()
	return o
}

// Ready reports why the worker does not claim: it is not started, waits for its table, has no database, or stops, or
// there is nothing to claim, because the subscription that its relay reads does not exist. It returns nil while the
// worker claims.
func (w *Worker) Ready() error {
	switch w.phase.Load() {
	case phaseNew:
		return fmt.Errorf("%s: not started", w.table.Name())
	case phaseStarting:
		return fmt.Errorf("%s: waiting for the table", w.table.Name())
	case phaseStopping:
		return fmt.Errorf("%s: stopping", w.table.Name())
	}
	if state := w.outage.State(); state != "" {
		return fmt.Errorf("%s: %s", w.table.Name(), state)
	}
	return w.Waits()
}

// Waits returns why a running worker has nothing to claim until somebody makes it: its relay's subscription does not
// exist. Otherwise it returns nil.
func (w *Worker) Waits() error {
	if why := w.refused.Load(); why != nil {
		return *why
	}
	return nil
}

// minStuck is the shortest time after which a worker counts as stuck.
const minStuck = time.Minute

// Alive returns an error if the worker is stuck: its renewals have not turned for so long that its leases have ended,
// which no outage of the database causes. Only a restart helps then. For a worker that does not run, it returns nil.
func (w *Worker) Alive() error {
	if p := w.phase.Load(); p == phaseNew || p == phaseStarting {
		return nil
	}
	if beat := w.beat.Load(); beat > 0 {
		if silent := time.Duration(w.clock() - beat); silent > max(2*w.options.Lease, minStuck) {
			return fmt.Errorf("%s: no renewal for %v", w.table.Name(), silent.Round(time.Second))
		}
	}
	return nil
}

// load is what the worker has to do.
func (w *Worker) load() telemetry.Load {
	running, concurrency := w.flow.Load()
	return telemetry.Load{Lane: w.lane(), InFlight: w.inFlight.Count(), Running: running, Concurrency: concurrency}
}

// loggerOf names a table, and the lane of the consumer.
func (c *consumer) loggerOf(t *Table) *slog.Logger {
	logger := t.telemetry.Logger()
	if lane := c.lane(); lane != "" {
		logger = logger.With(slog.String(c.table.spec.Lanes[0], lane))
	}
	return logger
}

// lane is the value of the table's first lane that is served; empty where there is none, or where there are several.
func (c *consumer) lane() (value string) {
	for i, lane := range c.lanes {
		if len(lane) == 0 || i > 0 && telemetry.LabelText(lane[0]) != value {
			return ""
		}
		value = telemetry.LabelText(lane[0])
	}
	return value
}

// SetConcurrency changes how many handlers run at once. It may be called at any time, also before Run, and is safe for
// concurrent use; the last call counts. It does not wait: when there are to be fewer, running handlers finish, and rows
// that were claimed and that no handler has begun are returned with their attempt, as far as there is no room for them
// any more.
func (w *Worker) SetConcurrency(n int) error {
	if err := checkConcurrency(n); err != nil {
		return err
	}
	w.flow.Resize(n)
	return nil
}
