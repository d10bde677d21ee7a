// Package join is fan-in over the rows of a domain table: a row that waits, the continuation, is released when the last
// of a set of rows, the steps, has settled.
//
//	step ──settles──┐
//	step ──settles──┼──▶ join ──completes──▶ on-complete row is released
//	step ──settles──┘      └────fails──────▶ on-fail row is released
//
// Steps and continuations are ordinary rows of one table, such as messages of an outbox or jobs, and workers process
// them like any others. A continuation may be a step of further joins, so joins can form directed acyclic graphs.
//
// # Starting
//
// [Joins.Start] takes rows that were inserted before in the same transaction. Rows and join exist if and only if that
// transaction commits. Insert continuations with NewRow.Waiting, so that they are not claimed before the join has
// ended.
//
// Insert steps with [Column] true, in the same transaction, if you can. Start sets the column on rows that were
// inserted without it, which costs one more write of each. Steps of earlier transactions work, too, even if they have
// ended; but a settle of such a step waits until the starting transaction has ended. A join without steps completes
// with the next fold.
//
// [Joins.Add] adds steps to a pending join, such as those to which a step fans out. If a step adds them in its own
// [workqueue.Claim.Tx], the join cannot end in between.
//
// # Counting
//
// Triggers of the table note that a step has ended, in the transaction that ends it, and only if that transaction
// changes the row: a guarded settle in Go or by the table's SQL functions, the reaper, or a cancel. A stale claim, and
// an ack that is repeated or rolled back, write no note. Writing a note locks no row and never waits.
//
// A fold (the function <table>_join_fold, see [Fold]) counts the notes and ends the joins that are complete, in short
// transactions of its own. Workers fold right after their settles, and when another process announces notes, so a join
// ends some milliseconds after its last step. One fold processes some hundred steps and ends, and the next fold
// continues, also if a failure ends ten thousand rows behind it. Other work gets its turn between folds. docs/joins.md
// has figures.
//
//   - Done, or deleted by the ack of a table with DeleteDone: the step has succeeded.
//   - Failed, for any reason (a permanent error, attempts used up, reaped, cancelled): the step has failed.
//   - Deleted while Ready, or while in progress in a table that keeps Done rows: the step has failed, because its work
//     was not done. In a table with DeleteDone, a row that is deleted by hand while in progress cannot be distinguished
//     from an ack, and counts as succeeded. Deleting a row that has ended changes nothing.
//
// A step counts once in a join. A step that settles after the join has ended is late: it is counted as late, and
// changes nothing else.
//
// A redrive takes back the last failure of a step. While the join is pending, the step then counts as not yet settled,
// and its next result is counted. After the join has ended, it keeps its counts, and the next result of the step is
// late, once. A fold counts a step in the state in which it finds it: a failure that was redriven before the fold does
// not count.
//
// # Ending
//
// The [Policy] decides when a join completes or fails. A deadline, by the database's clock, fails it. [Joins.Cancel]
// cancels it. A join ends once, guarded by its status, and its continuations change in the same transaction:
//
//	           on-complete row   on-fail row
//	completed  released          not needed
//	failed     cancelled         released
//	cancelled  cancelled         not needed
//
// A released row becomes claimable at its due time, at the earliest now. A cancelled row is Failed with cancelled_at
// set, as after a cancel. A row that is not needed ends as if it had run and found nothing to do: Done with
// cancelled_at set, or deleted in a table with DeleteDone. It is not a dead letter, because redriving it would
// compensate for something that has succeeded. In both cases last_error names the join and the reason.
//
// A continuation that ends in this way counts in the joins of which it is a step: a cancelled one as failed, one that
// is not needed as succeeded. A failure thus propagates through a graph, fold by fold.
//
// A row continues one join. It may be both continuations of that join, and is then released either way. Its handler
// reads its join and the steps with [Joins.ContinuedBy]. Redriving a cancelled continuation runs it, because redriving
// is an explicit decision.
//
// # The sweep
//
// The function <table>_join_sweep, which a domain lists among Spec.Sweeps, deletes ended joins after the table's
// Retention, as [Joins.Purge] does at any time. Both keep a join while one of its continuations may still run: that
// includes a dead letter or a cancelled row, which you may redrive. The rows of its steps are not kept: they are purged
// by their own age, and [Joins.Members] has their outcomes.
//
// The sweep also lets folds compare pending joins with the rows of their steps: a minute after the start, and then less
// and less often, at least every quarter of an hour. This ends a join that was stranded by a restore without triggers,
// a TRUNCATE or a bug. A join whose memberships are gone fails.
//
// A waiting row that belongs neither to a join nor to a key has lost its join. The sweep fails it a quarter of an hour
// after it was written: it is then a dead letter, and a redrive runs it. Therefore, do not use NewRow.Waiting for other
// purposes in such a table.
//
// # Concurrency
//
// [Joins] is safe for concurrent use. A settle does not read joins, so settles wait neither for each other nor for
// transactions that start, extend or cancel a join. Folds take turns by an advisory lock of the table, and do not wait
// for locks on rows: if an application has locked a join, a continuation or a membership, folds skip it and try again
// every half a second until the application's transaction has ended. Everything else continues. If a continuation
// cannot be changed, for example because a trigger of yours raises an error, it is postponed for a minute, with a
// warning in the server's log.
//
// Transactions of applications do wait for each other: [Joins.Start], [Joins.Add] and [Joins.Cancel] lock steps in the
// order of their ids and then the join, until the transaction ends. Settles of the steps that they have locked wait as
// well. Rows that were inserted in the same transaction are not affected, because no other transaction sees them.
//
// # Domains
//
// A domain adds [Column] to its columns, [Fold] to its folds and [Sweep] to its sweeps, and appends [DDL] to the DDL of
// its table. This creates the tables <table>_join, <table>_join_member, <table>_join_note and <table>_join_cursor, and
// functions and triggers named <table>_join_…. List Fold before that of package keyed, which then releases what a join
// has passed on. A row that is not a step costs only the WHEN test of the triggers, which write notes with the rights
// of the tables' owner. A role that folds needs SELECT, INSERT, UPDATE and DELETE on all four tables and EXECUTE on the
// functions, which are not granted to PUBLIC. If the table has row-level security, its owner calls
// <table>_join_policies() once.
package join
