// Package logs measures an outbox that is a log, for several subscriptions, beside an outbox of rows, PgQ and pgmq.
//
// A message of rows has one destination, so rows are measured with one. PgQ needs a server that has its extension, pgmq
// the file that BENCH_PGMQ_SQL names: what is not there is left out, and nothing is installed.
package logs
