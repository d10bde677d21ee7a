// Package doctor finds out what is wrong with the queues of a schema, and with the server as far as it concerns them.
//
// [Examine] runs every check once. A check is a value of type check in the list of its family: reapers and leases,
// vacuum, the schema, backlogs, dead letters, order, joins, schedules, wakes, locks, the server. What it finds is a
// [Finding], with evidence, with what it means for the users of the system, and with the command or the SQL that mends
// it. A healthy system has none.
//
// # What it costs
//
// Every statement is bounded by time and by rows and reads an index or statistics; nothing counts a table. It runs in a
// transaction that only reads, waits for a lock no longer than a moment, and holds none that anybody but DDL waits for.
// What takes longer than that is given up and named in [Report.Skipped], as is what the role may not read: no check
// needs a superuser.
package doctor
