// Package demo shows txwork's outbox under fire: money moves between accounts, every transfer writes a
// message in its own transaction, and three worker processes carry the messages into a ledger while one
// of them is frozen past its lease and another is killed.
//
// # The application
//
// A transfer is one transaction: two accounts change, in the order of their ids, and a message goes into
// the outbox. A third of the transfers each go through pgx, database/sql and sqlx. One in ten is rolled
// back on purpose, after its message was written.
//
// A worker applies a message by inserting one row into the ledger, in the transaction that also settles
// the message. The ledger has no unique constraint: if a message were applied twice, both rows would
// stand there and be counted.
//
// # The faults
//
// A fault must hit a worker that is at work, and it must not be left to luck. So before a fault every
// worker is told to hold: its next handler stops in the middle of its transaction, with its row of the
// ledger written and its message not yet settled, and says so. The first worker that does is the victim;
// the others go on at once. Producers pause meanwhile, so that there are messages to hold.
//
//   - Frozen: a worker gets SIGSTOP, and SIGCONT once others have delivered what it was holding. Its
//     handlers go on as if nothing had happened, their settles come with stale claims and are refused,
//     and the rows that they wrote into the ledger vanish with their transactions.
//   - Killed: a worker gets SIGKILL. Its leases end, the reaper takes its claims, others deliver them.
//
// # The reckoning
//
// At the end one SQL statement compares what was committed with what the ledger says, see
// sql/reconcile.sql. Nothing that a process of the demo remembers goes into it.
//
// # What is left behind
//
// Nothing. A private PostgreSQL removes itself, see package localpg. On a server of the user's everything
// is in a schema of its own, which is dropped at the end; a demo that was killed leaves it to the next one.
// Workers end when the pipe from their parent does, on Linux also while they are frozen.
package demo
