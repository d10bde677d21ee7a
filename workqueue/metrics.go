package workqueue

import (
	"errors"
	"slices"

	"go.opentelemetry.io/otel/metric"
)

// A Metric describes one that txwork reports through OpenTelemetry, for documentation, views and dashboards.
type Metric struct {
	Name       string
	Instrument string   // counter, up-down counter, histogram or gauge
	Unit       string   // in UCUM's notation
	Attributes []string // keys that its points can have
	Meaning    string
}

// RowLabels stands among the Attributes of a [Metric] for those of a table's Spec.Labels, each with txwork. before its
// name: txwork.topic of an outbox, txwork.kind and txwork.queue of jobs.
const RowLabels = "txwork.<label>"

// Metrics lists what a [Table] and its workers report. Package reaper has the gauges.
func Metrics() []Metric {
	var list []Metric
	for _, i := range new(telemetry).instruments() {
		list = append(list, i.Metric)
	}
	return list
}

// Boundaries of histograms, in seconds.
var (
	// durationBuckets are those that the conventions recommend for messaging durations.
	durationBuckets = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
	// workBuckets go on to an hour: handlers may take that long, and rows may wait that long for one.
	workBuckets = append(slices.Clip(durationBuckets), 15, 30, 60, 120, 300, 600, 1200, 1800, 3600)
	// delayBuckets tell milliseconds apart, too, which is how soon an idle worker starts.
	delayBuckets = append([]float64{0.001, 0.0025}, workBuckets...)
)

// An instrument is a metric, and where it is kept: one of the three.
type instrument struct {
	Metric
	buckets   []float64
	histogram *metric.Float64Histogram
	counter   *metric.Int64Counter
	observed  *metric.Int64ObservableUpDownCounter
}

// instruments are in the order of the documentation.
func (t *telemetry) instruments() []instrument {
	table := []string{"messaging.system", "messaging.destination.name"}
	operation := append(slices.Clip(table), "messaging.operation.name")
	typed := append(slices.Clip(operation), "messaging.operation.type")
	row := append(slices.Clip(typed), RowLabels)
	with := func(attributes []string, more string) []string { return append(slices.Clip(attributes), more) }
	histogram := func(into *metric.Float64Histogram, buckets []float64, name string, attributes []string,
		meaning string) instrument {
		return instrument{Metric: Metric{name, "histogram", "s", attributes, meaning}, buckets: buckets,
			histogram: into}
	}
	counter := func(into *metric.Int64Counter, name string, attributes []string, meaning string) instrument {
		return instrument{Metric: Metric{name, "counter", "{message}", attributes, meaning}, counter: into}
	}
	// lanes of the domains; a table of your own has its own
	laned := append(slices.Clip(table), "txwork.queue", "txwork.consumer")
	observed := func(into *metric.Int64ObservableUpDownCounter, name, unit, meaning string) instrument {
		return instrument{Metric: Metric{name, "up-down counter", unit, slices.Clone(laned), meaning}, observed: into}
	}
	announcements := counter(&t.announces, "txwork.announcements", table,
		"Notifications sent on behalf of producers that were silent")
	announcements.Unit = "{announcement}"
	return []instrument{
		histogram(&t.duration, durationBuckets, "messaging.client.operation.duration", with(typed, "error.type"),
			"Duration of an enqueue, a claim or a settle of one or many rows, with the wait for a connection"),
		histogram(&t.maintenance, durationBuckets, "txwork.operation.duration", with(operation, "error.type"),
			"Duration of any other operation on the table"),
		histogram(&t.delay, delayBuckets, "txwork.start.delay", row,
			"From when a row could be claimed, because it was due and waited for nothing else, to the start of its "+
				"handler, by the database's clock"),
		histogram(&t.process, workBuckets, "messaging.process.duration", with(row, "error.type"),
			"Duration of a handler"),
		counter(&t.sent, "messaging.client.sent.messages", row, "Rows written by an enqueue"),
		counter(&t.consumed, "messaging.client.consumed.messages", row, "Rows claimed"),
		counter(&t.settled, "txwork.settled", with(row, "txwork.outcome"), "Rows settled, by outcome"),
		counter(&t.retried, "txwork.retried", with(row, "txwork.reason"),
			"Rows that will be attempted again after an attempt that failed, by reason: error, or lease_expired"),
		counter(&t.dead, "txwork.dead_letters", with(row, "txwork.reason"),
			"Rows that became dead letters, by reason: permanent, exhausted (the attempts are used up) or "+
				"lease_expired (in the last attempt)"),
		counter(&t.redriven, "txwork.redriven", operation,
			"Dead letters and cancelled rows that were made ready again"),
		counter(&t.cancelled, "txwork.cancelled", operation,
			"Rows that were cancelled from outside: ended, or while in progress marked to end"),
		counter(&t.purged, "txwork.purged", with(operation, "txwork.state"),
			"Rows deleted after their retention, by state: done (with the cancelled) or dead_letter"),
		counter(&t.expired, "txwork.lease.expired", operation,
			"Rows taken from their owner because the lease had expired"),
		counter(&t.lost, "txwork.lease.lost", typed, "Settles and renewals refused because the lease was lost"),
		announcements,
		observed(&t.inFlight, "txwork.worker.in_flight", "{message}",
			"Rows that workers of the process have claimed and not settled yet"),
		observed(&t.running, "txwork.worker.running", "{handler}", "Handlers of the process that run"),
		observed(&t.concurrency, "txwork.worker.concurrency", "{handler}",
			"Handlers of the process that may run at once"),
	}
}

func (t *telemetry) create(m metric.Meter) error {
	var errs []error
	for _, i := range t.instruments() {
		unit, meaning := metric.WithUnit(i.Unit), metric.WithDescription(i.Meaning)
		var err error
		switch {
		case i.counter != nil:
			*i.counter, err = m.Int64Counter(i.Name, unit, meaning)
		case i.observed != nil:
			*i.observed, err = m.Int64ObservableUpDownCounter(i.Name, unit, meaning)
		default:
			*i.histogram, err = m.Float64Histogram(i.Name, unit, meaning,
				metric.WithExplicitBucketBoundaries(i.buckets...))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
