// Package periodic keeps cron schedules as rows and makes rows of their occurrences, for every domain that
// wants some: timers and jobs are two.
//
// A [Plan] is a table of schedules (see [Spec] and [DDL]) and what its domain does with an occurrence. What
// an expression means, which occurrences are fired late and which overlap is package schedule's; what this
// package adds is that the decision is durable, and made once.
//
// # How an occurrence comes about
//
// A schedule is itself a row of the core, due when its next occurrence is. A [Scheduler] is a worker on that
// table and nothing more. It claims a schedule that is due and, in the one transaction that settles the claim,
// asks [schedule.Rule.Due] by the database's clock what is owed, locks the row, has the domain write the
// occurrences ([Options].Insert), notes the next nominal time, and puts the row back until then.
//
// One transaction writes at most 250 occurrences, and fewer if their templates have more than 8 MiB together: the next
// claim, at once, decides about the rest, by the policies and the time of then. A piece that fails is halved.
//
// So there is no leader, and an occurrence is written exactly once for its nominal time, however many
// schedulers there are and wherever one of them dies:
//
//   - before the commit nothing has happened, and the claim's lease brings the schedule back;
//   - a scheduler that has lost its lease cannot commit, since the settle in its transaction is fenced by
//     the claim's token;
//   - should it be decided twice all the same, by a restored backup or a clock put back, the key of an
//     occurrence says its schedule and nominal time, and the domain's table holds a key once.
//
// Nominal times do not drift: they follow from the expression and the nominal time before, not from when
// somebody looked. Occurrences are never written before their time, unless [Options].Lead says so, and usually
// some milliseconds after. A schedule whose occurrences cannot be written is tried again with a backoff of up
// to a minute, for ever; Info.LastError says why. One that is never due again is Done.
//
// # What is late
//
// [schedule.Rule].Misfire decides about occurrences that are later than its Grace: because no scheduler ran, or
// because one crashed and its lease had to end first ([DefaultLease] and the reaper's interval).
//
// A database clock that was ahead and is set back leaves next times behind that it had planned: such a schedule rests
// until they come. Pause and resume it to plan from now.
//
// # What overlaps
//
// Where the policy is not to allow it, an occurrence is live while [Options].Live counts it. Skip drops what
// comes meanwhile. Buffer keeps the first of it, and looks every second whether it may be written. What comes
// at once, such as several misfires, is judged one by one, oldest first.
//
// # Changing schedules
//
// Every method but Get and List takes the application's transaction and holds the schedule's row until that ends; its
// occurrences wait meanwhile. Names are at most [MaxName] bytes.
//
// A method waits for whoever holds the row, for at most [MaxWait] or the transaction's own lock_timeout; then the
// error is a [HeldError], which tells who that is. A scheduler that is frozen in the middle of a decision holds it for
// no longer than its lease, or [DefaultLease] if that is shorter: the server ends its session, see
// [workqueue.TxLimits]. The reaper's next round takes its claim back. A scheduler waits [DefaultLockWait] for an
// application, and then does something else.
//
//   - Put: a new expression or zone plans anew from now; anything else leaves the next time alone.
//   - Pause: no occurrence. Resume: goes on from now; nothing is caught up.
//   - Trigger: one occurrence now, outside the plan, asking no policy, under a key of its own.
//   - Backfill: what a past range should have had, at most [MaxBackfill], leaving out what is there.
//   - Delete: occurrences that are written already stay the domain's.
//
// # Concurrency
//
// A Plan is safe for concurrent use, a [Scheduler] runs once. Any number of schedulers may share a table; they
// need the same Insert, since a schedule is decided by whichever claims it.
package periodic
