package workqueue

import (
	"errors"
	"slices"

	"go.opentelemetry.io/otel/metric"
)

// A Metric describes one that txwork reports through OpenTelemetry, for documentation, views and dashboards.
type Metric struct {
	Name       string
	Instrument string   // counter, histogram or gauge
	Unit       string   // in UCUM's notation
	Attributes []string // keys that its points can have
	Meaning    string
}

// RowLabels stands among the Attributes of a [Metric] for those of a table's Spec.Labels, each with txwork. before its name:
// txwork.topic of an outbox, txwork.kind and txwork.queue of jobs.
const RowLabels = "txwork.<label>"

// Metrics lists what a [Table] and its workers report. Package reaper has the gauges.
func Metrics() []Metric {
	var list []Metric
	for _, i := range new(telemetry).instruments() {
		list = append(list, i.Metric)
	}
	return list
}

// durationBuckets are those the conventions recommend for messaging durations, in seconds.
var durationBuckets = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}

// An instrument is a metric, and where it is kept: one of the two.
type instrument struct {
	Metric
	histogram *metric.Float64Histogram
	counter   *metric.Int64Counter
}

// instruments are in the order of the documentation.
func (t *telemetry) instruments() []instrument {
	table := []string{"messaging.system", "messaging.destination.name"}
	operation := append(slices.Clip(table), "messaging.operation.name")
	typed := append(slices.Clip(operation), "messaging.operation.type")
	row := append(slices.Clip(typed), RowLabels)
	histogram := func(into *metric.Float64Histogram, name string, attributes []string, meaning string) instrument {
		return instrument{Metric{name, "histogram", "s", attributes, meaning}, into, nil}
	}
	counter := func(into *metric.Int64Counter, name string, attributes []string, meaning string) instrument {
		return instrument{Metric{name, "counter", "{message}", attributes, meaning}, nil, into}
	}
	announcements := counter(&t.announces, "txwork.announcements", table, "Notifications sent on behalf of producers that were silent")
	announcements.Unit = "{announcement}"
	return []instrument{
		histogram(&t.duration, "messaging.client.operation.duration", append(slices.Clip(typed), "error.type"), "Duration of an enqueue, a claim or a settle"),
		histogram(&t.maintenance, "txwork.operation.duration", append(slices.Clip(operation), "error.type"), "Duration of any other operation on the table"),
		histogram(&t.process, "messaging.process.duration", append(slices.Clip(row), "error.type"), "Duration of a handler"),
		counter(&t.sent, "messaging.client.sent.messages", row, "Rows written by an enqueue"),
		counter(&t.consumed, "messaging.client.consumed.messages", row, "Rows claimed"),
		counter(&t.settled, "txwork.settled", append(slices.Clip(row), "txwork.outcome"), "Rows settled, by outcome"),
		counter(&t.dead, "txwork.dead_letters", append(slices.Clip(row), "txwork.reason"), "Rows that became dead letters, by reason"),
		counter(&t.expired, "txwork.lease.expired", operation, "Rows taken from their owner because the lease had expired"),
		counter(&t.lost, "txwork.lease.lost", typed, "Settles and renewals refused because the lease was lost"),
		announcements,
	}
}

func (t *telemetry) create(m metric.Meter) error {
	var errs []error
	for _, i := range t.instruments() {
		var err error
		if i.counter != nil {
			*i.counter, err = m.Int64Counter(i.Name, metric.WithUnit(i.Unit), metric.WithDescription(i.Meaning))
		} else {
			*i.histogram, err = m.Float64Histogram(i.Name, metric.WithUnit(i.Unit), metric.WithDescription(i.Meaning),
				metric.WithExplicitBucketBoundaries(durationBuckets...))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
