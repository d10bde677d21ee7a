// Package survey reads what the tables of a schema hold, and what the server says of them: for the doctor, who looks
// for what is wrong, for the gauges, which show it as figures, and for txwork top, which shows it to people.
//
// Every statement is bounded by time and by rows, and reads an index, the catalog or statistics; nothing counts a
// table. It runs in a transaction that only reads, waits for a lock no longer than a moment, and holds none that
// anybody but DDL waits for. Numbers of rows are therefore "at least", from the bound on.
package survey
