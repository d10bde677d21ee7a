package workqueue

import (
	"errors"

	"go.opentelemetry.io/otel/metric"

	"github.com/txwork/txwork/workqueue/metrics"
)

func (t *telemetry) histograms() map[string]*metric.Float64Histogram {
	return map[string]*metric.Float64Histogram{
		"messaging.client.operation.duration": &t.duration,
		"txwork.operation.duration":           &t.maintenance,
		"txwork.start.delay":                  &t.delay,
		"messaging.process.duration":          &t.process,
	}
}

func (t *telemetry) counters() map[string]*metric.Int64Counter {
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

func (t *telemetry) observables() map[string]*metric.Int64ObservableUpDownCounter {
	return map[string]*metric.Int64ObservableUpDownCounter{
		"txwork.worker.in_flight":   &t.inFlight,
		"txwork.worker.running":     &t.running,
		"txwork.worker.concurrency": &t.concurrency,
	}
}

// create makes an instrument of each of the list's metrics.
func (t *telemetry) create(meter metric.Meter) error {
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
