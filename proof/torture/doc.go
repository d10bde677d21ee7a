//go:build unix

// Package torture runs txwork under faults and proves from independent records that it kept its word.
//
// # A run
//
// [Run] starts a private PostgreSQL and, on all four domains at once, producers that commit, roll back and
// dawdle, worker processes, reapers, schedulers and deliverers of duplicates. One after another, faults strike
// them: see [Faults]. Every choice comes from one seed. When the time is over the faults stop, everything has to
// drain, and the records are checked.
//
// # Holders
//
// Some faults hold something instead of ending it: an application leaves a transaction open, a session freezes in the
// middle of one, the database refuses a row. Producers pause then, and witnesses that want nothing of the holder go on
// writing rows, one after another. Each is timed with and without the holder. None may take much longer beside it, and
// once the holder has let go, no row may be left that was due.
//
// # Announcers
//
// Others strike those who announce on behalf of producers, in the middle of each of their steps. Writers work in bursts
// for them, in which announcers wake up, and rest until they sleep.
//
// # The oracle
//
// Nothing that the library says about itself is evidence. A trigger that only the run installs appends every
// change of every row to an audit table, in the transaction that makes the change, so the table has what has
// committed and nothing else. Handlers append a line to a file before they begin and after they end. Producers
// append what they are about to commit, and what became of it: committed, rolled back, or unknown where the
// answer was lost. The files are written with one write a line: a process that is killed keeps what it wrote,
// and the faults kill processes, not the machine.
//
// # The checker
//
// [Check] reads the histories and evaluates the invariants I1 to I11 of docs/state-machine.md. What is unknown
// is a maybe: it may be there, and if it is, it has to be right. Each violation carries the row's whole history. It
// also checks that no row waits to be found, as far as nothing has held it up: a violation of the name wake.
package torture
