// Package gate holds rows of a domain table back until their key has room for them: one at a time in commit
// order, at most so many at once, at most so many a second.
//
// A row with a [Gate] that may not run yet is Ready and waiting: it stands outside the claim index, so
// however many wait, they cost the claims of others nothing. Settling a row lets the next one of its key
// through, in the settle's own transaction and by whatever way it was settled: by a worker, the SQL
// functions, the reaper or a cancel. All of it is triggers on the table; see sql/gate.up.sql for the protocol.
//
// # Serial gates
//
// Rows of a key run one at a time, in the order in which their transactions commit. For that the writers of a
// key take turns: a transaction that has written a row of a key holds the key until it ends, and the next writer of
// that key waits for it. Keep such transactions short. Settles wait for no writer.
//
// A row that fails an attempt keeps its place, so the rows behind it wait for as long as its backoff does; so
// do those behind a row that is due later. What happens when it has failed for good is its [Policy]. A cancelled
// row obstructs nobody.
//
// A table keeps the order by itself: a unique index admits one live row of a serial key, whatever goes wrong.
//
// # Sweeps
//
// What no settle lets through, a sweep does (Spec.Sweeps, "gate_sweep"): rows of gates that are not serial when
// they come or are due again, and the row whose writer committed while the last one of its key was being settled.
// And the row that an application held locked when its turn came, for instance to cancel it: settles wait for
// no row. Workers sweep when a notification arrives, at a bounded share of their time, and at least once a second.
//
// # Tables
//
// A table with gates has the [Columns] in its Spec, [KeyColumn] as its Gate, [SweepSuffix] among its Sweeps, and [DDL] in its migration.
//
// A role that writes rows with serial or limited keys needs SELECT on the table and USAGE on the sequence
// <table>_gate_seq; one that settles or sweeps needs SELECT, INSERT, UPDATE and DELETE on <table>_gate_cursor and
// <table>_gate_rate, and EXECUTE on the functions <table>_gate_…, which are not PUBLIC's.
//
// # Limits
//
// Every serial key that a transaction writes, and every key that a settle or a sweep lets a row of through, holds a
// lock in the server's memory until the transaction ends. There is room for max_locks_per_transaction × max_connections of
// them, 6,400 by default, and some more: write many thousands of keys in several transactions.
//
// Under REPEATABLE READ and SERIALIZABLE a row always waits for a sweep, and a settle lets no row of a limited key
// through, since it cannot see how many are.
package gate
