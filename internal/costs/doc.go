// Package costs tests what a job costs, as exact numbers, as far as they do not depend on the machine: pages that a
// claim reads, bytes of write-ahead log, heap-only updates, statements and commits, allocations. Its tests run the
// public packages on a private PostgreSQL and compare PostgreSQL's and Go's own counters with the budgets in
// budgets_test.go. No test fails because something took long.
//
// Nothing happens on that server that a test has not asked for: autovacuum is off, no checkpoint falls into a
// measurement, and full pages are not written to the log (full_page_writes = off), since their number depends on when
// the last checkpoint was. Figures of the log are therefore those between two checkpoints.
package costs
