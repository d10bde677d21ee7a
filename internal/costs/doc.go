// Package costs holds what a job costs, to a number, as far as that does not depend on the machine: pages that a
// claim reads, bytes of write-ahead log, heap-only updates, statements and commits, allocations. Its tests run the
// public packages on a private PostgreSQL and compare PostgreSQL's and Go's own counters with the budgets in
// budgets_test.go. None of them fails because something has taken long.
//
// On that server nothing happens that a test has not asked for: autovacuum is off, no checkpoint falls into a
// measurement, and full pages are not written to the log (full_page_writes = off), since how many there are depends
// on when the last checkpoint was. Figures of the log are therefore those between two checkpoints.
package costs
