package telemetry

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/metric"

	"github.com/txwork/txwork/workqueue/internal/fault"
	"github.com/txwork/txwork/workqueue/metrics"
)

// instruments are those of a table.
type instruments struct {
	duration, maintenance, delay,
	process metric.Float64Histogram
	sent, consumed, arrivals, settled, retried, dead, redriven, cancelled, purged, expired, lost,
	announces metric.Int64Counter
	inFlight, running,
	concurrency metric.Int64ObservableUpDownCounter
}

func (t *instruments) histograms() map[string]*metric.Float64Histogram {
	return map[string]*metric.Float64Histogram{
		"messaging.client.operation.duration": &t.duration,
		"txwork.operation.duration":           &t.maintenance,
		"txwork.start.delay":                  &t.delay,
		"messaging.process.duration":          &t.process,
	}
}

func (t *instruments) counters() map[string]*metric.Int64Counter {
	return map[string]*metric.Int64Counter{
		"messaging.client.sent.messages":     &t.sent,
		"messaging.client.consumed.messages": &t.consumed,
		"txwork.arrivals":                    &t.arrivals,
		"txwork.settled":                     &t.settled,
		"txwork.retried":                     &t.retried,
		"txwork.dead_letters":                &t.dead,
		"txwork.redriven":                    &t.redriven,
		"txwork.cancelled":                   &t.cancelled,
		"txwork.purged":                      &t.purged,
		"txwork.lease.expired":               &t.expired,
		"txwork.lease.lost":                  &t.lost,
		"txwork.announcements":               &t.announces,
	}
}

func (t *instruments) observables() map[string]*metric.Int64ObservableUpDownCounter {
	return map[string]*metric.Int64ObservableUpDownCounter{
		"txwork.worker.in_flight":   &t.inFlight,
		"txwork.worker.running":     &t.running,
		"txwork.worker.concurrency": &t.concurrency,
	}
}

// create makes an instrument of each of the list's metrics.
func (t *instruments) create(meter metric.Meter) error {
	histograms, counters, observables := t.histograms(), t.counters(), t.observables()
	var errs []error
	for _, m := range metrics.Workers() {
		unit, meaning := metric.WithUnit(m.Unit), metric.WithDescription(m.Meaning)
		var err error
		switch m.Instrument {
		case "counter":
			*counters[m.Name], err = meter.Int64Counter(m.Name, unit, meaning)
		case "histogram":
			*histograms[m.Name], err = meter.Float64Histogram(m.Name, unit, meaning,
				metric.WithExplicitBucketBoundaries(m.Buckets...))
		default:
			*observables[m.Name], err = meter.Int64ObservableUpDownCounter(m.Name, unit, meaning)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// measure makes an event's metrics.
func (r *Recorder) measure(ctx context.Context, e Event) {
	defer r.contain()
	histogram := r.duration
	if conventions[e.Operation].typ == "" {
		histogram = r.maintenance
	}
	if histogram.Enabled(ctx) {
		histogram.Record(ctx, e.Duration.Seconds(),
			r.with(series{op: e.Operation, key: errorTypeKey, value: fault.Type(e.Err)}).record...)
	}
	r.add(ctx, r.lost, len(e.lost), series{op: e.Operation})
	own, changed := series{op: e.Operation}, e.Changed
	if e.Err != nil { // nothing of the kind that is counted here has happened
		changed = 0
	}
	switch e.Operation {
	case Enqueue:
		r.countRows(ctx, e, tally{counter: r.sent, series: own})
	case Claim:
		r.countRows(ctx, e, tally{counter: r.consumed, series: own})
	case Ack, Abandon, Snooze, Fail, Settle:
		r.countRows(ctx, e, tally{counter: r.settled, series: series{op: Settle, key: outcomeKey}, of: Row.counted},
			tally{counter: r.retried, series: series{op: Settle, key: reasonKey}, of: Row.retried},
			tally{counter: r.dead, series: series{op: Settle, key: reasonKey}, of: Row.dead})
	case Cancel:
		r.add(ctx, r.cancelled, changed, own)
	case Redrive:
		r.add(ctx, r.redriven, changed, own)
	case Purge:
		r.add(ctx, r.purged, changed, series{op: Purge, key: stateKey, value: e.State})
	case Reap:
		expired := series{op: Reap, key: reasonKey, value: LeaseExpired}
		r.add(ctx, r.expired, changed, own)
		r.add(ctx, r.retried, changed-e.Failed, expired)
		r.add(ctx, r.dead, e.Failed-e.Cancelled, expired)
	}
}

// A tally counts rows, each with the value that of returns, and none for which it is empty.
type tally struct {
	counter metric.Int64Counter
	of      func(Row) string // nil: the series has no value
	series  series
	same    int // rows of it that are not added yet: consecutive rows of one series are added at once
}

// countRows makes each row of an event once, for all tallies, and none if nobody collects these metrics.
func (r *Recorder) countRows(ctx context.Context, e Event, tallies ...tally) {
	tallies = slices.DeleteFunc(tallies, func(t tally) bool { return !t.counter.Enabled(ctx) })
	for i := 0; len(tallies) > 0 && e.Rows != nil && i < e.Rows.Len(); i++ {
		row := e.Rows.Row(i)
		for j := range tallies {
			r.count(ctx, &tallies[j], row)
		}
	}
	for _, t := range tallies {
		r.add(ctx, t.counter, t.same, t.series)
	}
}

func (r *Recorder) count(ctx context.Context, t *tally, row Row) {
	next := t.series
	next.labels = row.Labels
	if t.of != nil {
		if next.value = t.of(row); next.value == "" {
			return
		}
	}
	if t.same > 0 && next != t.series {
		r.add(ctx, t.counter, t.same, t.series)
		t.same = 0
	}
	t.series = next
	t.same++
}

// counted is a row's outcome as metrics tell it: a row that was left to other workers was released.
func (r Row) counted() string {
	switch r.Outcome {
	case OutcomeLeave:
		return OutcomeRelease
	case OutcomeLost, OutcomeGone:
		return ""
	}
	return r.Outcome
}

// retried is why a row will be attempted again; empty if it will not, or if no attempt has failed.
func (r Row) retried() string {
	if r.Outcome == OutcomeAbandon {
		return r.Reason
	}
	return ""
}

// dead is why a row is a dead letter; empty if it is none.
func (r Row) dead() string {
	if r.Outcome == OutcomeFail || r.Outcome == OutcomeExhausted {
		return r.Reason
	}
	return ""
}
