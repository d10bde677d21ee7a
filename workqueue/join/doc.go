// Package join is fan-in over the rows of a domain table: when the last of a set of rows has settled, another
// row, which has waited for that, is released.
//
//	step ──settles──┐
//	step ──settles──┼──▶ join ──completes──▶ on-complete row is released
//	step ──settles──┘      └────fails──────▶ on-fail row is released
//
// Steps and continuations are ordinary rows of one table, an outbox's messages or jobs, and are worked on
// like any other. A continuation may be a step of further joins, so joins make directed acyclic graphs.
// Nothing polls: a join is counted by the transaction that settles its step.
//
// # Starting
//
// [Joins.Start] takes rows that were inserted before, in the same transaction: all of it exists if and only
// if that commits. Continuations are inserted with NewRow.Waiting, so that nobody claims them before the
// join has ended.
//
// Steps are best inserted with [Column] true, in the same transaction. Start sets it on rows that were
// inserted without, which is one more write of each. Steps of earlier transactions work, too, and are
// counted at once if they have ended; but whoever settles one of them waits until the starting transaction
// has ended. A join without steps completes at once.
//
// [Joins.Add] adds steps to a pending join, such as those that a step fans out to. Where it adds them in
// its own [workqueue.Claim.Tx], the join cannot end in between.
//
// # Counting
//
// Triggers of the table count a step in the transaction that ends it, and only if that changes the row: a
// guarded settle, in Go or by the table's SQL functions, the reaper, a cancel. A claim that is stale, an ack
// that is repeated or rolled back count nothing.
//
//   - Done, or deleted by the ack of a table with DeleteDone: succeeded.
//   - Failed, by whatever: fail, attempts used up, reaped, cancelled: failed.
//   - Deleted while Ready, or while in progress in a table that keeps Done rows: failed, since nobody did the
//     work. In a table with DeleteDone a row in progress that somebody deletes by hand cannot be told from
//     an ack, and counts as succeeded. Deleting a row that has ended changes nothing.
//
// A step counts once in a join. What settles after the join has ended is late: it is counted as such and
// changes nothing else.
//
// A redrive takes back the last failure of a step: while the join is pending it is as if the step had not
// settled, and its next result counts; after the end the join keeps what it had counted, and the step's
// next result is late, once.
//
// # Ending
//
// The [Policy] decides when a join completes or fails; a deadline fails it; [Joins.Cancel] cancels it. It
// ends once, guarded by its status, and its continuations follow in the same transaction:
//
//	           on-complete row   on-fail row
//	completed  released          not needed
//	failed     cancelled         released
//	cancelled  cancelled         not needed
//
// Released: claimable, when it was due, but not before now. Cancelled: Failed with cancelled_at set, as by a
// cancel. Not needed: as if it had run and found nothing to do, that is Done with cancelled_at set, or deleted
// in a table with DeleteDone. It is no dead letter, because one that somebody redrives would compensate
// what has succeeded. In both cases last_error says which join it was and why. A continuation that was ended
// counts in the joins whose step it is, a cancelled one as failed, one that is not needed as succeeded; so a
// failure propagates through a graph in the transaction in which it happens.
//
// A row continues one join. It may be both continuations of it, and is then released either way. Its handler
// finds its join, and the steps, with [Joins.ContinuedBy]. Redriving a cancelled continuation runs it:
// somebody has decided so.
//
// # The sweep
//
// The function <table>_join_sweep, which a domain lists among Spec.Sweeps, fails joins whose deadline has
// passed, by the database's clock, and forgets ended ones after the table's Retention, as [Joins.Purge] does
// at any time. It also compares pending joins with their steps' rows, a minute after their start and then
// less and less often, at least every quarter of an hour: one that was stranded, by a restore without triggers,
// a TRUNCATE or a bug, ends then.
//
// # Concurrency
//
// [Joins] is safe for concurrent use. Every settle locks the joins of its steps until it commits, so settles
// of one join's steps take turns; of two that settle the last two steps, the second sees the first.
// Locks are taken in the order step, joins by id, continuation. Deadlocks remain possible between
// transactions that settle several times, and between graphs; the core runs its own transactions again, an
// application's own transaction has to be run again by the application. Under REPEATABLE READ and
// SERIALIZABLE a concurrent settle of the same join fails with a serialization failure, and nothing is lost.
//
// # Domains
//
// A domain adds [Column] to its columns and [Sweep] to its sweeps, and appends [DDL] to that of its table: the
// tables <table>_join and <table>_join_member, functions and triggers named <table>_join_…. A row that is no
// step costs the triggers' WHEN test. A role that settles needs SELECT, INSERT, UPDATE and DELETE on both
// tables and EXECUTE on the functions, which are not PUBLIC's.
package join
