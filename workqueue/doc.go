// Package workqueue is the core of txwork: a transactional work queue over the rows of a PostgreSQL table.
//
// The packages outbox, inbox, timers and jobs use this core on tables of their own. You can use it on a table of yours:
// describe the table with a [Spec], and let `txwork table new` print its migration.
//
// This page is the contract that all of them keep. What you need first is in the sections States, Guarantees and
// Concurrency. The later sections are for operators and for authors of domains.
//
// # States
//
//	Ready ──claim──▶ InProgress ──ack──▶ Done
//	  ▲                  │ │
//	  │◀─abandon, snooze─┘ ├─fail──────────▶ Failed
//	  │◀─reap (lease over)─┤                   │
//	  │                    └─no attempts left─▶│
//	  └────────────────redrive─────────────────┘
//
// A claim takes rows that are due. It counts one attempt, sets a lease on each row, and stores a new owner token in it.
// The worker renews the lease while the handler runs.
//
// A row is settled by one of four transitions:
//
//   - ack: the work is done;
//   - abandon: the attempt failed, and the row is retried after a backoff, or becomes Failed if it has no attempts
//     left;
//   - snooze: the row becomes Ready again later, and the attempt does not count;
//   - fail: the row becomes Failed at once. A Failed row is a dead letter until you redrive it.
//
// Each settle and each renewal is one statement that checks the row's id and owner token. With a stale token it changes
// nothing and reports [ErrLeaseLost]. An expired lease is reaped: the row becomes Ready again, or Failed if it has no
// attempts left.
//
// A row can be inserted waiting ([NewRow].Waiting). It is Ready, but no claim sees it until it is released. Package
// keyed makes rows wait for their turn in a key, a limit or a rate; package join makes them wait for the end of other
// rows.
//
// # Guarantees
//
//   - A row exists if and only if the transaction that inserted it commits.
//   - Delivery is at least once. What a handler writes through [Claim.Tx] takes effect exactly once. An HTTP call or an
//     email cannot: make it idempotent with the row's id.
//   - Attempts are counted when a row is claimed, so a row that kills its process is not retried for ever. A lease that
//     is lost together with others of its process gives the attempt back, see [Queue.ReapExpired], and its row runs
//     beside few others for a while. With a maximum of 1, a row whose worker died becomes a dead letter.
//   - A settle whose reply is lost is repeated. The row still has its token, so one that was committed counts once and
//     changes nothing more. If that was the commit of [Claim.Tx], its writes and its outcome stand. A row that
//     [Spec].DeleteDone has deleted is not found again: it is done, and the repeat reports it as gone.
//   - A handler that panics has failed the attempt, and its row keeps the stack as the error. The worker goes on. A
//     panic in a goroutine that the handler has started ends the process, as in every Go program.
//   - No row runs before its due time. Only the database's clock decides that.
//   - Once an expired lease has been reaped, the worker that held it can no longer change the row, whatever it still
//     sends.
//   - There is no order among rows that run in different handlers, unless they have an ordered key.
//
// # Concurrency
//
// A [Table] is safe for concurrent use, and so is a [Queue] made by [Table.On]. A Queue made by [Table.In] is as safe
// as its transaction. Any number of workers in any number of processes can share a table. The Run method of a [Worker]
// may be called once.
//
// # Writing rows
//
// [Table.Insert] takes your open transaction, wrapped by [Pgx] or [SQL]. A pool in its place does not compile. If you
// have no transaction, use [InTx].
//
// # Working
//
// A [Worker] claims rows, calls your [Handler], renews leases and settles rows in batches. The handler's result decides
// how its row is settled: nil acks it, and an error is a failed attempt. [Permanent], [Snooze], [RetryAfter] and
// [Cancelled] choose another outcome, and [Unavailable] says that not the row has failed but what it is for. The
// package example shows a table, an insert and a worker. A [BatchHandler] gets several rows in one call, and has a
// result for each.
//
// A table can have lanes, such as the queues of jobs. A worker serves one or more of them, the most urgent first.
//
// A [Drain] runs a worker's handler without the worker's loop: on platforms that call your program, in commands, and in
// a test's transaction.
//
// [Queue] has each transition as a method. Each table also has claim, ack, abandon, fail, extend, reap_expired and
// redrive as SQL functions, for psql, Python or C#. Methods and functions are rendered from the same statements and
// keep the same contract.
//
// # Maintenance
//
// Some process must run the maintenance: reaping expired leases ([Queue.ReapExpired]), sweeps, folds, and deleting rows
// past their retention. Package reaper runs all of it. If you use pg_cron instead, call the table's SQL procedure
// maintain. It uses the retention of the migration, and not that of your program.
//
// Folds release rows that wait; see Building a domain. Workers, drains and the reaper run folds by themselves. If you
// call [Queue.Claim] on a table that has folds, call [Queue.Fold] first. Workers in SQL call the function fold before
// they claim.
//
// # Connections
//
// The workers of a process share a [Runtime]: a few connections in addition to your pool, one of which listens for
// notifications. The number does not grow with the number of queues. A worker that is given no runtime opens its own.
// Package service runs all parts of a process over one runtime.
//
// Renewals take a connection before all other work, a queue with many handlers starves no other, and a table that is
// locked leaves the others their turn. Of all the processes that serve a table, one runs its sweeps.
//
// # Notifications
//
// A trigger notifies the channel schema.table when rows are inserted, by whatever program, and workers listen there.
// PostgreSQL commits transactions that notify one after the other, across the whole server. To keep producers fast,
// above some tens of such transactions a second one of the listening processes becomes the table's announcer. Producers
// then stop notifying, and the announcer notifies for them every few milliseconds, on a connection of its own, until
// the rate falls. You configure nothing, and other listeners notice no difference. If an announcer dies or freezes,
// rows that were inserted without a notification wait until the next poll at most.
//
// The log says at DEBUG when an announcer starts and stops announcing. The counter txwork.announcements shows how often
// it notifies, and `txwork stats --announcers` shows both for all processes. To find the session that announces:
//
//	SELECT l.pid FROM pg_locks AS l, hashtextextended('txwork.outbox announcer', 0) AS k (lock)
//	WHERE l.locktype = 'advisory' AND l.mode = 'ExclusiveLock' AND l.granted
//	  AND l.classid = (k.lock >> 32 & 4294967295)::oid AND l.objid = (k.lock & 4294967295)::oid;
//
// # Stalled processes
//
// Each claim, renewal, settle and reap is sent to the server in one piece. Once sent, it commits even if the process
// that sent it dies or freezes.
//
// In these cases the server ends the session of a process that stalls, and releases its locks:
//
//   - The client does not read the reply for 10 s (tcp_user_timeout, which has no effect on Unix-domain
//     sockets).
//   - A handler's process freezes for 10 s between the settle in [Claim.Tx] and its commit
//     (idle_in_transaction_session_timeout).
//   - The client has sent only part of a transaction. From PostgreSQL 17 on, the server waits until one second after
//     the caller stops waiting, and at least for 10 s (transaction_timeout).
//   - A listener has been silent for 90 s, which is three heartbeats, or the process that sweeps for 15 s
//     (idle_session_timeout).
//
// The first three limits are settings of the transaction itself, so they also work through a pooler.
//
// What a handler does in Claim.Tx before the settle is limited by your own settings, or by [WorkerOptions].TxLimits.
//
// Transactions of txwork that write are READ COMMITTED and READ WRITE, whatever the defaults of the role or database
// are.
//
// # Logs
//
// A failed attempt is logged at INFO, and a dead letter at WARN. To log less, set the Logger of [Telemetry] to one
// whose handler drops these levels.
//
// # Building a domain
//
// A domain adds columns, lanes and DDL to a Spec. It never adds a transition. An Admission ([Spec].Admission) limits
// each claim by rules of the domain, such as the pause of a queue. Sweeps ([Spec].Sweeps) repair rows.
//
// To react to a settle, write a row trigger on completed_at. It fires for exactly the rows that a settle changed, in
// the settle's transaction, whichever program sent it. Claims never set that column.
//
// Such a trigger may change its own row. It must not write to a row that other transactions also write, because settles
// would then wait for each other. To change other rows, such as the next row of a key, the trigger appends a note to a
// table of the domain. A function of the domain, the fold, applies the notes later, in short transactions of its own
// and in one session at a time. List the function in [Spec].Folds; its contract is [Fold].
//
// Workers should fold as soon as there is a note: the trigger ends with the statement [Spec.AnnounceNote]. Statements
// of a domain that make rows claimable, and folds that release rows, call [Spec.Announce].
package workqueue
