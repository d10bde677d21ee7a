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
// fan-in. Both release rows in a fold: see Building a domain.
//
// # What you may rely on
//
//   - Rows exist if and only if the transaction that inserted them commits.
//   - Delivery is at least once. A handler that writes through [Claim.Tx] has its effect exactly once.
//     HTTP calls and mails cannot: make them idempotent by the row's id.
//   - Attempts are counted when a row is claimed, so a row that kills its process does not loop for ever. With a
//     maximum of 1, a row whose worker died is a dead letter.
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
// of statements and obey one contract. Workers in SQL call the function fold before they claim, see [Fold].
//
// A worker serves one or several lanes of a table, the most urgent first. A [Spec].Admission bounds every
// claim by rules of the domain, the table's own folds ([Spec].Folds) release rows that wait, and its sweeps
// ([Spec].Sweeps) repair. A [Drain] is a worker's handler without its loop: for platforms that call back, for commands,
// and in a transaction of a test. Workers, drains and the reaper fold by themselves. If you call [Queue.Claim] by hand
// on a table with folds, call [Queue.Fold] first.
//
// # One process
//
// What a process costs depends on what it does, not on how many queues it serves. Its workers share a [Runtime]: a few
// connections beside the application's pool, one that listens, and for each table its sweeps and folds. A worker that is given
// none has one of its own. Of all processes that serve a table, one sweeps it. Renewals go before everything, a queue with many handlers starves no other, and a table that somebody
// holds locked leaves the others their turn. Package service runs all parts of a process over one runtime.
//
// # Building a domain
//
// A domain adds columns, lanes and DDL of its own to a Spec, and never a transition. What has to happen when a
// row is settled is a row trigger on completed_at: it fires for exactly the rows that a guarded statement
// changed, in its transaction, by every way in. Claims never set that column.
//
// Such a trigger changes its own row at most, and writes nothing that others write too: the settle would wait for them,
// and they for it. What concerns other rows, such as the next row of a key, it appends as a note to a table of the
// domain. A function of the domain applies notes later, one folder at a time, in short transactions of their own; list
// it in [Spec].Folds, and see [Fold] for its contract. The trigger PERFORMs [Spec.AnnounceNote] if [Spec.MustAnnounceNote], so that
// workers fold at once.
//
// # Notifications
//
// A trigger notifies the channel schema.table when rows are inserted, from whatever program, and workers listen there.
// Transactions that notify commit one after the other, on the whole server. So above some tens a second one of the
// processes that listen becomes the table's announcer: producers are silent, and it notifies for them, every few
// milliseconds and on a connection of its own, until the rate is low again. Nothing is to be configured, and other
// listeners notice no difference. If an announcer dies or freezes, rows that were inserted silently may wait for the next
// poll.
//
// The log says at DEBUG when an announcer is awake and asleep, and the counter txwork.announcements how often it notifies;
// `txwork stats --announcers` shows both for all processes. The session that is awake:
//
//	SELECT l.pid FROM pg_locks AS l, hashtextextended('txwork.outbox announcer', 0) AS k (lock)
//	WHERE l.locktype = 'advisory' AND l.mode = 'ExclusiveLock' AND l.granted
//	  AND l.classid = (k.lock >> 32 & 4294967295)::oid AND l.objid = (k.lock & 4294967295)::oid;
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
// # Frozen processes
//
// Claims, renewals, settles and reaps are one round trip each: once sent, they commit whatever becomes of their process.
// What can still stand still is bounded at the server, by settings of the transaction itself, so that they work through
// a pooler. After [HeldAtMost] the server ends a session and gives up its locks when the client does not read the reply
// (tcp_user_timeout, which has no effect on Unix-domain sockets), and when a handler's process freezes between the settle of
// [Claim.Tx] and its commit (idle_in_transaction_session_timeout). From PostgreSQL 17 on, transaction_timeout ends a
// transaction of which the client has sent a part only, a second after its caller stops waiting, and not before
// HeldAtMost. The session of a listener ends after three of its heartbeats, 90 s, and that of the process which sweeps after 15 s (idle_session_timeout,
// from PostgreSQL 14 on). What a handler does in Claim.Tx before the settle is bounded by your own settings, or by
// [WorkerOptions].TxLimits.
//
// Transactions that write begin READ COMMITTED, READ WRITE, whatever the role's or the database's defaults are.
//
// # Recovery
//
// Somebody has to do the maintenance from time to time: [Queue.ReapExpired], sweeps, folds, retention. Package reaper
// does, and so may pg_cron with the table's SQL procedure maintain, which knows the retention of the migration.
package workqueue
