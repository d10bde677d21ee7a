// Package survey reads what the tables of a schema contain, and what the server reports about them. The doctor looks in
// it for problems, the gauges show it as figures, and txwork top shows it to people.
//
// Every statement is bounded by time and by rows, and reads an index, the catalog or statistics; none counts a whole
// table. It runs in a read-only transaction that waits for a lock only briefly and holds no lock that conflicts with
// anything but DDL. Whoever reads many has them share one, see [Reader.Together]. Numbers of rows are therefore "at
// least" once they reach the bound.
package survey
