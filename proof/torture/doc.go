//go:build unix

// Package torture runs txwork under faults, and proves from independent records that it kept its guarantees.
//
// # A run
//
// [Run] starts a private PostgreSQL and, on all four domains at once, producers that commit, roll back and dawdle,
// worker processes, reapers, schedulers and deliverers of duplicates. Faults strike them one after another, see
// [Faults]. Every choice comes from one seed. When the time is over and every fault has struck, or half as much time
// again is over, the faults stop, everything has to drain, and the records are checked.
//
// # Two crews
//
// Some of the workers, and every second producer, use nothing but the SQL functions of docs/sql.md, as a program in
// another language does: see the package sqlcrew. Faults strike them like the others, they keep the same records, and
// the checks hold over both. The report says what each crew did, and a run in which one did nothing fails. Folding,
// sweeping, announcing and scheduling are Go's; workers by SQL fold, too.
//
// # A log
//
// Beside the rows there is an outbox that is a log, with subscriptions whose handlers behave well, refuse messages or
// hang. One is read by SQL only, and one is made in the middle, replayed and cut. [CheckLog] reconciles each message
// with each subscription.
//
// # Holders
//
// Some faults hold something instead of ending it: an application leaves a transaction open, a session freezes in the
// middle of one, the database refuses a row. Producers pause then, and witnesses that do not need what the holder has
// keep writing rows, one after another. Each is timed with and without the holder. None may take much longer beside it,
// and once the holder has let go, no due row may be left.
//
// # Announcers
//
// Others strike the sessions that announce on behalf of producers, in the middle of each of their steps. For these
// faults, writers work in bursts, during which announcers wake up, and rest until they sleep.
//
// # The oracle
//
// Nothing that the library says about itself is evidence. A trigger that only the run installs appends every change of
// every row to an audit table, in the transaction that makes the change, so the table contains exactly what has
// committed. Handlers append a line to a file before they begin and after they end. Producers append what they are
// about to commit, and the result: committed, rolled back, or unknown if the answer was lost. Each line is a single
// write, so a process that is killed keeps what it wrote: the faults kill processes, not the machine.
//
// # The checker
//
// [Check] reads the histories and evaluates the invariants I1 to I11 of docs/state-machine.md. A row with an unknown
// result may exist or not, and if it does, it has to be right. Each violation contains the row's whole history. It also
// checks that no row waits too long to be found while nothing holds it up: such a violation is called wake.
package torture
