// Package workqueue is the core of txwork: a transactional work queue over rows of a PostgreSQL table.
//
// Packages outbox, inbox, timers and jobs are this core on tables of their own, and so is any table that you
// describe with a [Spec].
//
// # States
//
//	Ready ──claim──▶ InProgress ──ack──▶ Done
//	  ▲                  │ │
//	  │◀─abandon, snooze─┘ ├─fail──────▶ Failed
//	  │◀─reap (lease over)─┤               │
//	  │                    └─attempts over─▶│
//	  └──────────────redrive───────────────┘
//
// A claim takes due rows for the length of a lease, counts an attempt and gives each row the claim's
// owner token. Every settle (ack, abandon, snooze, fail) and every renewal is guarded by id and token in
// one statement: with a stale token it changes nothing and reports [ErrLeaseLost]. A lease that ends is
// reaped: the row is Ready again, or Failed when its attempts are used up.
//
// A row may be inserted waiting ([NewRow].Waiting): Ready, but held back outside the claim index until
// something releases it. Package gate does so by key, for order and limits, package join at the end of a
// fan-in.
//
// # What you may rely on
//
//   - Rows exist if and only if the transaction that inserted them commits.
//   - Delivery is at least once. A handler that writes through [Claim.Tx] has its effect exactly once.
//     HTTP calls and mails cannot: make them idempotent by the row's id.
//   - Attempts are counted when a row is claimed, so a row that kills its process does not loop for ever.
//   - Nothing runs before its due time by the database's clock, the only one that decides.
//   - There is no order between rows that are claimed by different handlers, unless a gate makes one.
//
// # Writing
//
// [Table.Insert] takes an open transaction, wrapped by [Pgx] or [SQL]. Handing it a pool does not
// compile. [InTx] is for callers that have no transaction of their own.
//
// # Working
//
// A [Worker] claims, calls a [Handler], renews leases and settles in batches. The handler's result is a
// value: nil acks, an error is a failed attempt, and [Permanent], [Snooze], [RetryAfter] and [Cancelled]
// say more. [Queue] has the same transitions one by one, and every table carries claim, ack, abandon, fail,
// extend, reap_expired and redrive as SQL functions for psql, Python or C#: both are rendered from one set
// of statements and obey one contract.
//
// A worker serves one or several lanes of a table, the most urgent first. An [Admission] bounds its claims by
// rules of the domain, and the table's own sweeps ([Spec].Sweeps) do what no settle can. A [Drain] is a worker's
// handler without its loop: for platforms that call back, for commands, and in a transaction of a test.
//
// # Building a domain
//
// A domain adds columns, lanes and DDL of its own to a Spec, and never a transition. What has to happen when a
// row is settled is a row trigger on completed_at: it fires for exactly the rows that a guarded statement
// changed, in its transaction, by every way in. Claims never set that column.
//
// # Logs
//
// A failed attempt is one line at INFO, a dead letter one at WARN. Where that is too much, give the [Telemetry] a
// Logger whose handler drops what is below its level.
//
// # Concurrency
//
// A [Table] and a [Queue] made by [Table.On] are safe for concurrent use; a Queue made by [Table.In] is
// as safe as its transaction. Any number of workers in any number of processes may share a table. A
// [Worker] runs once.
//
// # Recovery
//
// Somebody has to call [Queue.ReapExpired] from time to time: package reaper does, and so may pg_cron
// through the table's SQL function.
package workqueue
