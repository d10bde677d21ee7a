// Package fault decides what an error of the database means to the core: whether the transaction may run again, whether
// the rows or the server are the cause, whether the whole database is away, and what the user can do about it. It has
// the sentinel errors that package workqueue exports under the same names.
//
// Package workqueue and its internal packages may import it. It imports none of them, sends no statement, and waits for
// nothing: it reads errors, and remembers an outage only to log it once.
package fault
