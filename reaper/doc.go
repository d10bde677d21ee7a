// Package reaper runs the maintenance of txwork's tables. It requeues rows whose lease has expired, deletes rows past
// their retention, and reports the health of the tables.
//
// # Running it
//
// [Run] belongs in a process that keeps running: it serves all tables every [Options.Interval], until its context ends.
// Package service calls it for you. [RunOnce] runs one round and returns; use it from cron or a Kubernetes CronJob.
//
// Pass every table of your domains. Each domain has a method Tables, such as outbox.Outbox.Tables and
// jobs.Client.Tables:
//
//	err := reaper.Run(ctx, pool, slices.Concat(box.Tables(), client.Tables()), reaper.Options{})
//
// Any number of processes may call Run, with the same tables or with different ones. They elect a leader for each
// table, which alone serves it; [Leaders] tells which. A process may lead some of its tables and not others.
//
// # A round
//
// In a round the reaper
//
//   - requeues all rows whose lease has expired, with the table's backoff; a row without attempts left becomes Failed.
//     Rows with valid leases do not slow this down;
//   - deletes Done and cancelled rows older than Spec.Retention, and dead letters older than Spec.FailedRetention if
//     that is set, up to [Options.PurgeLimit] of each.
//
// It works in short transactions of [Options.BatchSize] rows. Tables take turns after every batch, so a table with a
// backlog can delay the others but not keep them from being served. If a limit cut the round short, [Report.More] is
// set, and Run starts the next round at once, with expired leases first.
//
// Once it has led for the duration of [Options.Lease], Run logs a warning about tables of txwork in the same schemas
// that it was not given, that have had a row, and that nothing has maintained in the last 24 hours; see
// [Report.Unserved]. It looks again, every ten intervals, only while there are such tables without a row yet; `txwork
// doctor` reports tables without maintenance at any time.
//
// # Without a Go process
//
// The procedure <table>_maintain of each table does the same for that table, for example from pg_cron:
//
//	CALL txwork.outbox_maintain()
//
// `txwork reap` does one round for all tables, for example from cron. Both use the retention of the migration, and not
// that of a program's Options. Neither takes part in the elections, and both may run beside a reaper. Both note when
// they ran, so that [Leaders], the gauges and `txwork doctor` know that the table is maintained.
//
// # Health
//
// [Health] and [Leaders] only read.
//
// # Gauges
//
// Run reports gauges of the tables that it leads through OpenTelemetry: depth, age, expired leases and the others that
// [Gauges] lists. They are therefore reported once per deployment, however many processes there are. Give every
// process that runs a reaper the same exporter. To report gauges without a reaper, call [RegisterGauges].
//
// The tables are read when an SDK collects metrics, and at no other time. A collection uses bounded statements and
// takes less than [DefaultObservationTimeout]. While the database is unavailable, txwork.observation.up is 0 and the
// other gauges are missing; the application's own metrics are exported as usual.
package reaper
