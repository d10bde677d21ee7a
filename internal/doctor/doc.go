// Package doctor finds out what is wrong with the queues of a schema, and with the server as far as it concerns them.
//
// [Examine] runs every check once. A check is a value of type check in the list of its family: reapers and leases,
// vacuum, the schema, backlogs, dead letters, alarms, order, joins, schedules, logs, wakes, locks, the server. Each
// problem is reported as a [Finding], with evidence, with what it means for the users of the system, and with the
// command or the SQL that fixes it. A healthy system has no findings.
//
// # What it costs
//
// Every statement is bounded by time and by rows and reads an index or statistics; none counts a whole table. It runs
// in a read-only transaction that waits for a lock only briefly and holds no lock that conflicts with anything but DDL.
// A statement that takes longer is given up and named in [Report.Skipped], as is anything that the role may not read:
// no check needs a superuser.
package doctor
