// Package reaper is the maintenance of the domain tables: it takes rows whose lease has ended from their
// owners, deletes rows that are past their retention, and tells how healthy the tables are.
//
// # What it does
//
// [Run] is for a process that lives: every [Options.Interval] it serves all tables, until its context
// ends. [RunOnce] is for cron or a Kubernetes CronJob: one round, then it returns. A round
//
//   - makes InProgress rows whose lease has ended Ready again with the table's backoff, or Failed where
//     their attempts are used up: as many as there are, however many rows with good leases stand beside;
//   - deletes Done and cancelled rows older than Spec.Retention, and dead letters older than
//     Spec.FailedRetention where that is set: up to [Options.PurgeLimit] of each.
//
// It works in short transactions of [Options.BatchSize] rows. The tables take turns after every batch,
// so a table with a backlog delays the others but does not hide them. When a bound cut a round short
// [Report.More] is set, and Run goes on at once, beginning with the expired leases again.
//
// Give it every table of your domains: each has a method Tables, such as outbox.Outbox.Tables and jobs.Client.Tables.
//
//	err := reaper.Run(ctx, pool, slices.Concat(box.Tables(), client.Tables()), reaper.Options{})
//
// Without a process in Go, the procedure <table>_maintain of every table does the same for that table, without an
// election: CALL txwork.outbox_maintain() from pg_cron, or txwork reap from cron. Those have the retention of the
// migration, not that of a program's Options.
//
// In the first round of a term it warns about tables of txwork in the same schemas that it was not given, see
// [Report.Unserved].
//
// [Health] and [Leader] only read.
//
// # Gauges
//
// While it leads, Run reports gauges of its tables through OpenTelemetry: depth, ages, expired leases and what else [Gauges]
// lists. So they are observed once per deployment, however many processes there are; give each that runs a reaper the same
// exporter. Nothing is read until an SDK collects them. A collection reads the tables in bounded statements, for less than
// [DefaultObservationTimeout]. While the database is away, txwork.observation.up is 0 and the others are missing; the
// application's own metrics are exported as ever. [RegisterGauges] reports the gauges without a reaper.
package reaper
