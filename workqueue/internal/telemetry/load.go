package telemetry

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
	workers []*func() Load
}

// Begin observes the load of a worker until the function that it returns is called.
func (r *Recorder) Begin(load func() Load) (end func()) {
	r.observed(func(all []*func() Load) []*func() Load { return append(all, &load) })
	return func() {
		r.observed(func(all []*func() Load) []*func() Load {
			return slices.DeleteFunc(all, func(o *func() Load) bool { return o == &load })
		})
	}
}

// observed changes the workers. As long as there is one, the callback is registered.
func (r *Recorder) observed(change func([]*func() Load) []*func() Load) {
	defer r.contain()
	a := &r.workers
	a.registering.Lock()
	defer a.registering.Unlock()
	a.mu.Lock()
	a.workers = change(a.workers)
	busy := len(a.workers) > 0
	a.mu.Unlock()
	switch {
	case busy && a.unregister == nil:
		a.unregister = func() {} // also if the provider refuses, so that it is not asked again
		registration, err := r.meter.RegisterCallback(r.observe, r.inFlight, r.running, r.concurrency)
		if err != nil {
			contain.Report(otel.Handle, fmt.Errorf("txwork: telemetry of %s: %w", r.table, err))
			return
		}
		a.unregister = func() { _ = registration.Unregister() }
	case !busy && a.unregister != nil:
		unregister := a.unregister
		a.unregister = nil
		unregister()
	}
}

// A Load is what a worker has to do.
type Load struct {
	Lane                           string // of the table's first lane the value that it serves; empty if several
	InFlight, Running, Concurrency int
}

// observe reports the load of all workers by the lane that they serve.
func (r *Recorder) observe(_ context.Context, to metric.Observer) error {
	defer r.contain()
	for lane, l := range r.workers.loads() {
		attributes := r.destination()
		if lane != "" {
			attributes = append(attributes, attribute.String("txwork."+r.lane, lane))
		}
		set := metric.WithAttributeSet(attribute.NewSet(attributes...))
		to.ObserveInt64(r.inFlight, int64(l.InFlight), set)
		to.ObserveInt64(r.running, int64(l.Running), set)
		to.ObserveInt64(r.concurrency, int64(l.Concurrency), set)
	}
	return nil
}

func (a *atWork) loads() map[string]Load {
	a.mu.Lock()
	workers := slices.Clone(a.workers)
	a.mu.Unlock()
	loads := map[string]Load{}
	for _, load := range workers {
		one := (*load)()
		l := loads[one.Lane]
		loads[one.Lane] = Load{one.Lane, l.InFlight + one.InFlight, l.Running + one.Running,
			l.Concurrency + one.Concurrency}
	}
	return loads
}
