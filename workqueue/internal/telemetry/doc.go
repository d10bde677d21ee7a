// Package telemetry tells what becomes of rows: one [Event] for each operation, with the outcome of each row. Spans,
// metrics, log lines and what users subscribe to are made of that event, each in one place: [Call.End].
//
// Only package workqueue may import it. It imports the errors of package fault and the list of metrics. It sends no
// statement and decides nothing: what it is told has happened. A provider, a log handler or a subscriber that panics
// does no harm to what tells it.
package telemetry
