// Package metrics lists the metrics that tables and workers report through OpenTelemetry, for programs that make
// documentation, views or dashboards of them. reaper.Gauges lists those of the reaper; docs/metrics.md has both.
package metrics

import "slices"

// A Metric describes one metric.
type Metric struct {
	Name       string
	Instrument string   // counter, up-down counter, histogram or gauge
	Unit       string   // in UCUM's notation
	Attributes []string // keys that its points can have
	Meaning    string
	Buckets    []float64 // boundaries of a histogram, in its unit
}

// RowLabels stands among the Attributes of a [Metric] for those of a table's Spec.Labels, each with txwork. before its
// name: txwork.topic of an outbox, txwork.kind and txwork.queue of jobs.
const RowLabels = "txwork.<label>"

// Boundaries of histograms, in seconds.
var (
	// durationBuckets are those that the conventions recommend for messaging durations.
	durationBuckets = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
	// workBuckets go on to an hour: handlers may take that long, and rows may wait that long for one.
	workBuckets = append(slices.Clip(durationBuckets), 15, 30, 60, 120, 300, 600, 1200, 1800, 3600)
	// delayBuckets distinguish milliseconds, too, which is how soon an idle worker starts.
	delayBuckets = append([]float64{0.001, 0.0025}, workBuckets...)
)

// Workers lists the metrics of a table and its workers, in the order of docs/metrics.md.
func Workers() []Metric {
	table := []string{"messaging.system", "messaging.destination.name"}
	operation := with(table, "messaging.operation.name")
	typed := with(operation, "messaging.operation.type")
	row := with(typed, RowLabels)
	announcements := counter("txwork.announcements", table,
		"Notifications sent on behalf of producers that were silent")
	announcements.Unit = "{announcement}"
	return []Metric{
		histogram(durationBuckets, "messaging.client.operation.duration", with(typed, "error.type"),
			"Duration of an enqueue, a claim or a settle of one or many rows, with the wait for a connection"),
		histogram(durationBuckets, "txwork.operation.duration", with(operation, "error.type"),
			"Duration of any other operation on the table"),
		histogram(delayBuckets, "txwork.start.delay", row,
			"From when a row could be claimed, because it was due and waited for nothing else, to the start of its "+
				"handler, by the database's clock"),
		histogram(workBuckets, "messaging.process.duration", with(row, "error.type"),
			"Duration of a handler, or of an inbox's Process that ran one or failed"),
		counter("messaging.client.sent.messages", row, "Rows written by an enqueue"),
		counter("messaging.client.consumed.messages", row, "Rows claimed"),
		counter("txwork.arrivals", with(row, "txwork.answer"),
			"Messages that were processed, or were to be processed, as they arrived, by answer: processed, duplicate, "+
				"in_progress, hash_mismatch or error"),
		counter("txwork.settled", with(row, "txwork.outcome"), "Rows settled, by outcome"),
		counter("txwork.retried", with(row, "txwork.reason"),
			"Rows that will be attempted again after an attempt that failed, by reason: error, or lease_expired"),
		counter("txwork.dead_letters", with(row, "txwork.reason"),
			"Rows that became dead letters, by reason: permanent, exhausted (the attempts are used up) or "+
				"lease_expired (in the last attempt)"),
		counter("txwork.redriven", operation, "Dead letters and cancelled rows that were made ready again"),
		counter("txwork.cancelled", operation,
			"Rows that were cancelled from outside: ended, or while in progress marked to end"),
		counter("txwork.purged", with(operation, "txwork.state"),
			"Rows deleted after their retention, by state: done (with the cancelled) or dead_letter"),
		counter("txwork.lease.expired", operation, "Rows taken from their owner because the lease had expired"),
		counter("txwork.lease.lost", typed, "Settles and renewals refused because the lease was lost"),
		announcements,
		upDown("txwork.worker.in_flight", "{message}",
			"Rows that workers of the process have claimed and not settled yet"),
		upDown("txwork.worker.running", "{handler}", "Handlers of the process that run"),
		upDown("txwork.worker.concurrency", "{handler}", "Handlers of the process that may run at once"),
	}
}

func with(attributes []string, more ...string) []string {
	return append(slices.Clip(attributes), more...)
}

func counter(name string, attributes []string, meaning string) Metric {
	return Metric{Name: name, Instrument: "counter", Unit: "{message}", Attributes: slices.Clone(attributes),
		Meaning: meaning}
}

func histogram(buckets []float64, name string, attributes []string, meaning string) Metric {
	return Metric{Name: name, Instrument: "histogram", Unit: "s", Attributes: slices.Clone(attributes),
		Meaning: meaning, Buckets: slices.Clone(buckets)}
}

// upDown is a metric of workers. Its attributes include the lanes of the domains, queue and consumer; a table of your
// own reports a lane of its own.
func upDown(name, unit, meaning string) Metric {
	return Metric{Name: name, Instrument: "up-down counter", Unit: unit, Attributes: []string{"messaging.system",
		"messaging.destination.name", "txwork.queue", "txwork.consumer"}, Meaning: meaning}
}
