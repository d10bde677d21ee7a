// Package keyed makes rows of a domain table wait for others with the same key. There are two rules, and a row has at
// most one of them: [Ordered] runs the rows of a key one at a time, in the order in which they were committed;
// [Limited] bounds how many rows of a key run at the same time, how many start in a second, or both. They share one set
// of columns, triggers and functions.
//
// A row with a key is inserted Ready and waiting. Waiting rows are outside the claim index, so they do not make
// other claims more expensive, however many there are. Everything that may concern a key writes a note in its own
// transaction: an insert, a settle, a cancel, a redrive, a deletion, a retry. Triggers write these notes, so it makes
// no difference whether the change comes from a worker, the SQL functions, the reaper or plain SQL. A fold ([Fold])
// applies the notes a moment later, in a short transaction of its own, and releases the rows for which the keys have
// room. The protocol is in sql/keyed.up.sql, and the decision in docs/adr/0024-notes-and-folds.md.
//
// Workers, drains and the reaper fold by themselves. If you claim with Queue.Claim or the SQL functions, call
// Queue.Fold or the procedure <table>_fold first: a claim takes only rows that a fold has released.
//
// # Ordered keys
//
// Rows of a key run one at a time, in the order in which their transactions commit. For this, the writers of a key take
// turns: a transaction that has written a row of a key holds the key until it ends, and the next writer of that key
// waits. Keep such transactions short. Settles and folds never wait for writers.
//
// A batch handler ([workqueue.BatchHandler]) gets several rows of a key in one call, in their order: the worker that
// has claimed the first takes those behind it, which then have the same token. They are settled as a prefix, and what
// is behind a row that is not done goes back (docs/adr/0082-runs-of-an-ordered-key.md). All other ways to claim get one
// row.
//
// A row whose attempt failed keeps its place, so the rows behind it wait until its backoff is over. The same holds for
// rows behind one that is due later. [Policy] decides what happens behind a dead letter. A cancelled row does not block
// its key.
//
// If an application holds a lock on the next row of a key, for instance to cancel it, the key waits for that row, and
// folds try again every half second. Other keys continue.
//
// # Limited keys
//
// A fold releases rows of a limited key by due time, and skips those that an application has locked. If the table has
// priorities (Spec.PriorityColumn), more urgent rows go first; one time in eight, by chance, a fold begins with a less
// urgent level of the key, so that none of them starves. The first waiting row that is due, of the most urgent level,
// determines the limit and the rate of the key.
//
// Rows of a rate are released up to 250 ms ahead of time, each with a due time of its own, and no row is claimed before
// its due time. The rate is therefore reached if folds run at least every 250 ms. Rows that workers do not claim in
// time start late, and may then start all at once. Their number is limited to those that were released: what the rate
// allows in 250 ms, in addition to the burst.
//
// # Changing the key
//
// A Ready row whose key is changed, by a Replace of jobs or by SQL, leaves the old key, which may let another row
// through, and enters the new one at its end. A row in progress keeps the place that it has.
//
// # Sweeps
//
// The sweep (Spec.Sweeps, "key_sweep") repairs. It writes notes for keys that have waiting rows, at most 1,000 keys of
// each sort every five seconds. In this way it finds rows that wait although the triggers did not run, for instance
// after a restore without triggers, or after the notes were truncated. It also deletes the stored state of keys that
// are not in use.
//
// # Tables
//
// A table with keyed rows lists the [Columns] after its own, and has [KeyColumn] as its KeyColumn, [Fold] among its
// Folds, [SweepSuffix] among its Sweeps, and [DDL] in its migration; docs/domains.md has an example. The schema has to
// exist. The migration creates the tables <table>_key_note, <table>_key_state and <table>_key_cursor, the sequence
// <table>_key_seq, and functions and triggers named <table>_key_….
//
// Triggers write notes with the rights of the tables' owner, so a role that writes or settles keyed rows needs none on
// these tables. A role that folds or sweeps needs SELECT, INSERT, UPDATE and DELETE on all three tables, and EXECUTE on
// the functions <table>_key_…, which are not granted to PUBLIC. Package migrations prints these grants. If the table
// has row-level security, its owner calls <table>_key_policies() once.
//
// # Limits of transactions
//
// Each ordered key that a transaction writes holds a lock in the server's memory until the transaction ends. The keys
// of one transaction may take a quarter of the server's lock table, which is max_locks_per_transaction ×
// (max_connections + max_prepared_transactions) / 4: 1,600 by default. Beyond that, the insert fails with SQLSTATE
// 54000 (program_limit_exceeded). One row in 512 is checked, so slightly more keys may pass. Write many keys in several
// transactions, or raise max_locks_per_transaction.
//
// One session at a time folds a table. If an application folds in a transaction of its own, for example with
// Worker.DrainIn, other folds of the table wait until it ends. Keep such a transaction short on a table that others
// use.
//
// A transaction that stays open holds back vacuum, whether or not it has written or locked anything. The cost of a fold
// does not grow with the rows that have ended since, because each fold stores what the next one needs to know of a key
// (docs/adr/0031-what-is-known-of-a-key.md).
//
// Under REPEATABLE READ and SERIALIZABLE a fold does nothing, because the transaction cannot see which rows the
// previous fold released. DrainIn in such a transaction therefore gets only keyed rows that were already released.
// Inserts and settles work under every isolation level.
package keyed
