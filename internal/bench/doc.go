// Package bench measures what this library does on a machine and a server: it is what `txwork bench` runs.
//
// Every workload goes through the public packages, with no-op handlers and the default options, in a schema of
// its own, which is dropped at the end. Whether work was done is counted in the database; what it cost comes from
// PostgreSQL's own counters, read when every session of the workload has ended, since a session reports what it
// did when it ends. Those counters are the whole server's or database's: on one that others use at the same time
// their work is counted, too.
package bench
