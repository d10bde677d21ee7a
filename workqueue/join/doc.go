// Package join is fan-in over the rows of a domain table: when the last of a set of rows has settled, another
// row, which has waited for that, is released.
//
//	step ──settles──┐
//	step ──settles──┼──▶ join ──completes──▶ on-complete row is released
//	step ──settles──┘      └────fails──────▶ on-fail row is released
//
// Steps and continuations are ordinary rows of one table, an outbox's messages or jobs, and are worked on
// like any other. A continuation may be a step of further joins, so joins make directed acyclic graphs.
//
// # Starting
//
// [Joins.Start] takes rows that were inserted before, in the same transaction: all of it exists if and only
// if that commits. Continuations are inserted with NewRow.Waiting, so that nobody claims them before the
// join has ended.
//
// Steps are best inserted with [Column] true, in the same transaction. Start sets it on rows that were
// inserted without, which is one more write of each. Steps of earlier transactions work, too, also those that
// have ended; but whoever settles one of them waits until the starting transaction has ended. A join without
// steps completes with the next fold.
//
// [Joins.Add] adds steps to a pending join, such as those that a step fans out to. Where it adds them in
// its own [workqueue.Claim.Tx], the join cannot end in between.
//
// # Counting
//
// Triggers of the table note that a step has ended, in the transaction that ends it and only if that changes
// the row: a guarded settle, in Go or by the table's SQL functions, the reaper, a cancel. A claim that is stale,
// an ack that is repeated or rolled back note nothing. To write a note locks nothing and waits for nobody.
//
// A fold (the function <table>_join_fold, see [Fold]) counts what has been noted and ends the joins that are over, in
// short transactions of its own. Workers call it right after their settles, and when somebody else announces notes, so
// a join ends some milliseconds after its last step. A fold deals with some hundred steps and ends at a time, and the
// next one goes on, also where a failure ends ten thousand rows behind it: others get their turn between the folds. See
// docs/joins.md for figures.
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
// next result is late, once. A fold counts a step as it finds it: a failure that was redriven before is none.
//
// # Ending
//
// The [Policy] decides when a join completes or fails; a deadline fails it, by the database's clock;
// [Joins.Cancel] cancels it. It ends once, guarded by its status, and its continuations follow in the same
// transaction:
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
// failure propagates through a graph, fold by fold.
//
// A row continues one join. It may be both continuations of it, and is then released either way. Its handler
// finds its join, and the steps, with [Joins.ContinuedBy]. Redriving a cancelled continuation runs it:
// somebody has decided so.
//
// # The sweep
//
// The function <table>_join_sweep, which a domain lists among Spec.Sweeps, forgets ended joins after the table's
// Retention, as [Joins.Purge] does at any time. It also has folds compare pending joins with their steps' rows, a
// minute after their start and then less and less often, at least every quarter of an hour: one that was stranded,
// by a restore without triggers, a TRUNCATE or a bug, ends then. One whose memberships are gone fails.
//
// A row that waits although no join has it as a continuation, and no gate as its own, has lost its join. A quarter of an
// hour after it was written the sweep fails it: it is a dead letter, and a redrive runs it. So hold no other rows of such
// a table back with NewRow.Waiting.
//
// # Concurrency
//
// [Joins] is safe for concurrent use. A settle looks at no join, so settles wait neither for each other nor for who
// starts, extends or cancels one. Folds take turns by an advisory lock of the table, and wait for nobody either: a join, a
// continuation or a membership that an application holds locked is looked at again every half a second until the
// application's transaction has ended, and everything else goes on. Only what a continuation refuses to become, such as
// by a trigger of yours, is put off for a minute, with a warning in the server's log.
//
// An application's own transactions do wait for each other: [Joins.Start], [Joins.Add] and [Joins.Cancel] lock steps by
// their ids and then the join, until they end. Settles of the steps that they have locked wait as well; rows that were
// inserted in the same transaction are nobody's concern.
//
// # Domains
//
// A domain adds [Column] to its columns, [Fold] to its folds and [Sweep] to its sweeps, and appends [DDL] to that of its
// table: the tables <table>_join, <table>_join_member, <table>_join_note and <table>_join_cursor, functions and triggers
// named <table>_join_…. Fold goes before that of package gate, which then lets through what a join has released. A row that is
// no step costs the triggers' WHEN test. A role that settles needs INSERT on the notes; one that folds SELECT, INSERT,
// UPDATE and DELETE on all four tables and EXECUTE on the functions, which are not PUBLIC's.
package join
