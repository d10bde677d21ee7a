// Package periodic stores cron schedules as rows and writes a row for each of their occurrences. Every domain can use
// it; timers and jobs do.
//
// A [Plan] is a table of schedules (see [Spec] and [DDL]), together with what its domain does with an occurrence.
// Package schedule defines what an expression means, which late occurrences fire, and what happens when occurrences
// overlap. This package makes each of these decisions durable, and makes it once.
//
// # How an occurrence is written
//
// A schedule is a row of the core that is due at its next occurrence. A [Scheduler] is a worker on that table, and
// nothing more. It claims a schedule that is due. Then, in the one transaction that also settles the claim, it computes
// the occurrences that are due by the database's clock ([schedule.Rule.Due]), locks the row, has the domain write the
// occurrences ([Options].Insert), stores the next nominal time, and puts the row back until then.
//
// One transaction writes at most 250 occurrences, and fewer if their templates have more than 8 MiB together. The next
// claim follows at once, and decides about the rest by the policies and the time at that moment. If a transaction
// fails, the next one writes half as many.
//
// No leader is needed, and an occurrence is written exactly once for its nominal time, however many schedulers there
// are and wherever one of them dies:
//
//   - Before the commit nothing has happened, and the claim's lease brings the schedule back.
//   - A scheduler that has lost its lease cannot commit, because the settle in its transaction is guarded by the
//     claim's token.
//   - If an occurrence is decided twice all the same, after a restore or because a clock was set back, the domain's
//     table rejects the second one: the key of an occurrence consists of its schedule and its nominal time, and is
//     unique.
//
// If an occurrence is written again because the database was restored to an earlier moment, it also has the same
// [Occurrence].ID, which handlers use as an idempotency key.
//
// Nominal times do not drift: each follows from the expression and the nominal time before it, not from the time at
// which a scheduler runs. Occurrences are never written before their time, unless [Options].Lead says so, and usually
// some milliseconds after. A schedule whose occurrences cannot be written is retried for ever, with a backoff of up to
// a minute; Info.LastError has the reason. A schedule that is never due again is Done.
//
// # Late occurrences
//
// [schedule.Rule].Misfire decides about occurrences that are late by more than its Grace, because no scheduler ran, or
// because one crashed and its lease had to expire first ([DefaultLease] and the reaper's interval).
//
// If the database's clock was ahead and is set back, schedules have next times that lie in the future. Such a schedule
// rests until then. Pause and resume it to plan from now.
//
// # Overlapping occurrences
//
// If the policy does not allow overlap, an occurrence is running for as long as [Options].Live counts it. Skip drops
// occurrences that become due meanwhile. Buffer keeps the first of them, and checks every second whether it may be
// written. Occurrences that become due together, such as several misfires, are judged one by one, oldest first.
//
// # Changing schedules
//
// Every method except Get and List runs in the application's transaction and locks the schedule's row until that ends.
// Occurrences of the schedule wait meanwhile. Names are at most [MaxName] bytes.
//
// A method waits for the transaction that holds the row, for at most [MaxWait] or the transaction's own lock_timeout.
// After that the error is a [LockedError], which names the session. A scheduler that freezes in the middle of a
// decision holds the row for at most its lease, or [DefaultLease] if that is shorter: then the server ends its session,
// see [workqueue.TxLimits]. The reaper's next round takes its claim back. A scheduler waits [DefaultLockWait] for an
// application, and then continues with other schedules.
//
//   - Put: concerns what is due after it; what is due already is written first, by its own definition. A new expression
//     or zone is planned anew from now, where intervals keep their phase; any other change keeps the next time. A
//     definition with a lower version than that of the stored one changes nothing.
//   - Pause: no occurrence is written, also none that is due. Resume: the schedule continues from now.
//   - Trigger: writes one occurrence now, in addition to the plan, regardless of the policies, under a key of its own.
//   - Backfill: writes the occurrences of a range in the past, at most [MaxBackfill], except those that exist.
//   - Delete: deletes the schedule; occurrences that were already written stay in the domain's table.
//
// # Concurrency
//
// A Plan is safe for concurrent use, and a [Scheduler] runs once. Any number of schedulers may share a table. They need
// the same Insert, because any of them may claim a schedule.
package periodic
