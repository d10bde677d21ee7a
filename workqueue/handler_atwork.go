package workqueue

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/txwork/txwork/internal/contain"
)

// atWork has the workers on one table that run in this process. They are asked when metrics are collected, so nothing
// is counted while rows are handled.
type atWork struct {
	// registering is held while the callback is registered or unregistered, and never by the callback itself: a
	// provider may make each of them wait for the other.
	registering sync.Mutex
	unregister  func()

	mu      sync.Mutex
	workers []*Worker
}

// begin observes a worker until the function that it returns is called.
func (t *telemetry) begin(w *Worker) (end func()) {
	t.observed(func(all []*Worker) []*Worker { return append(all, w) })
	return func() {
		t.observed(func(all []*Worker) []*Worker {
			return slices.DeleteFunc(all, func(o *Worker) bool { return o == w })
		})
	}
}

// observed changes the workers. As long as there is one, the callback is registered.
func (t *telemetry) observed(change func([]*Worker) []*Worker) {
	defer t.contain()
	a := &t.workers
	a.registering.Lock()
	defer a.registering.Unlock()
	a.mu.Lock()
	a.workers = change(a.workers)
	busy := len(a.workers) > 0
	a.mu.Unlock()
	switch {
	case busy && a.unregister == nil:
		a.unregister = func() {} // also if the provider refuses, so that it is not asked again
		registration, err := t.meter.RegisterCallback(t.observe, t.inFlight, t.running, t.concurrency)
		if err != nil {
			contain.Report(otel.Handle, fmt.Errorf("txwork: telemetry of %s: %w", t.table, err))
			return
		}
		a.unregister = func() { _ = registration.Unregister() }
	case !busy && a.unregister != nil:
		unregister := a.unregister
		a.unregister = nil
		unregister()
	}
}

// A load is what workers have to do.
type load struct{ inFlight, running, concurrency int }

// observe reports the load of all workers by the lane that they serve.
func (t *telemetry) observe(_ context.Context, to metric.Observer) error {
	defer t.contain()
	for lane, l := range t.workers.loads() {
		attributes := t.destination()
		if lane != "" {
			attributes = append(attributes, attribute.String("txwork."+t.lane, lane))
		}
		set := metric.WithAttributeSet(attribute.NewSet(attributes...))
		to.ObserveInt64(t.inFlight, int64(l.inFlight), set)
		to.ObserveInt64(t.running, int64(l.running), set)
		to.ObserveInt64(t.concurrency, int64(l.concurrency), set)
	}
	return nil
}

func (a *atWork) loads() map[string]load {
	a.mu.Lock()
	workers := slices.Clone(a.workers)
	a.mu.Unlock()
	loads := map[string]load{}
	for _, w := range workers {
		running, concurrency := w.flow.Load()
		lane := w.lane()
		l := loads[lane]
		l.inFlight, l.running, l.concurrency = l.inFlight+w.inFlight.Count(), l.running+running,
			l.concurrency+concurrency
		loads[lane] = l
	}
	return loads
}

// lane is the value of the table's first lane that the worker serves; empty where there is none, or where it serves
// several.
func (w *Worker) lane() (value string) {
	for i, lane := range w.lanes {
		if len(lane) == 0 || i > 0 && labelText(lane[0]) != value {
			return ""
		}
		value = labelText(lane[0])
	}
	return value
}
