// Package bench measures what this library does on a machine and a server. `txwork bench` runs it.
//
// Every workload goes through the public packages, with no-op handlers and the default options, in its own schema,
// which is dropped at the end. Whether work was done is counted in the database. Its costs come from PostgreSQL's own
// counters, which are read after every session of the workload has ended, since a session reports what it did when it
// ends. The counters are those of the whole server or database: if others use it at the same time, their work is
// counted too.
package bench
