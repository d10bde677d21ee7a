// Package gate holds rows of a domain table back until their key has room for them: one at a time in commit order, at
// most so many at once, at most so many a second.
//
// A row with a [Gate] enters Ready and waiting: it stands outside the claim index, so however many rows wait, they
// cost the claims of others nothing. Whatever may concern a key writes a note in its own transaction: an insert, a
// settle, a cancel, a redrive, a deletion, a retry. Triggers write the notes, so it makes no difference who does it:
// a worker, the SQL functions, the reaper or plain SQL. A fold ([Fold]) applies the notes a moment later, in a short
// transaction of its own, and lets through what the keys have room for; see sql/gate.up.sql for the protocol and
// docs/adr/0024-notes-and-folds.md for the decision.
//
// Workers, drains and the reaper fold by themselves. If you claim by hand with Queue.Claim or the SQL functions, call
// Queue.Fold or <table>_fold() first: a claim takes only rows that a fold has let through.
//
// # Serial gates
//
// Rows of a key run one at a time, in the order in which their transactions commit. For that the writers of a key
// take turns: a transaction that has written a row of a key holds the key until it ends, and the next writer of that
// key waits for it. Keep such transactions short. Settles and folds wait for no writer.
//
// A row that fails an attempt keeps its place, so the rows behind it wait for as long as its backoff does; so do
// those behind a row that is due later. What happens when it has failed for good is its [Policy]. A cancelled row
// obstructs nobody.
//
// If an application holds the next row of a key locked, for instance to cancel it, the key waits for that row and the
// fold looks again every half second. Other keys go on.
//
// # Limits and rates
//
// A fold lets rows of a limited key through by due time, and passes over those that an application holds locked. The
// first row that waits and is due says what the limit and the rate of the key are.
//
// Rows of a rate are let through up to 250 ms ahead of their time, each with a due time of its own, and no row is
// claimed before its due time. The rate is therefore met however seldom somebody folds, if that is at least every 250
// ms. What workers do not claim in time is started later and may then start at once: that is as much as was let through,
// at most what the rate allows in 250 ms, on top of the burst.
//
// # Sweeps
//
// The sweep (Spec.Sweeps, "gate_sweep") only repairs. It writes notes for keys that have waiting rows, 1,000 keys of
// each sort at most every five seconds, and so finds rows that somebody made wait past the triggers, for instance by
// a restore without them or by truncating the notes. It also forgets what is known of keys
// that are not in use.
//
// # Tables
//
// A table with gates has the [Columns] in its Spec, [KeyColumn] as its Gate, [Fold] among its Folds, [SweepSuffix]
// among its Sweeps, and [DDL] in its migration. The migration makes the tables <table>_gate_note, <table>_gate_known
// and <table>_gate_cursor, the sequence <table>_gate_seq, and functions and triggers named <table>_gate_….
//
// A role that writes rows with gates needs SELECT on the columns of gates, USAGE on the sequence, INSERT on
// <table>_gate_note and EXECUTE on <table>_gate_place. A role that settles needs INSERT on <table>_gate_note. A role
// that folds or sweeps needs SELECT, INSERT, UPDATE and DELETE on all three tables, and EXECUTE on the functions
// <table>_gate_…, which are not PUBLIC's. Package migrations prints these grants.
//
// # Limits of transactions
//
// Each serial key that a transaction writes holds a lock in the server's memory until the transaction ends. A
// transaction may write as many keys as take a quarter of what the server has room for, which is
// max_locks_per_transaction × (max_connections + max_prepared_transactions) / 4: 1,600 by default. Beyond that, the
// insert fails with SQLSTATE 54000 (program_limit_exceeded). One row in 512 is checked, so some more keys may pass.
// Write many keys in several transactions, or raise max_locks_per_transaction.
//
// One folder works on a table at a time. A transaction of an application that folds, such as Worker.DrainIn, keeps
// all others out until it ends: keep it short on a table that others work on.
//
// A transaction that stays open holds back vacuum, whatever it has written or locked. What a fold reads for a key does not
// grow with the rows that have ended since: folds take on from each other what they know of a key
// (docs/adr/0031-what-is-known-of-a-key.md).
//
// Under REPEATABLE READ and SERIALIZABLE a fold does nothing, because the transaction cannot see what the folder
// before it let through. A DrainIn in such a transaction therefore gets no rows with gates but those that are through
// already. Inserts and settles work under every isolation level.
package gate
