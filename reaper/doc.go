// Package reaper is the maintenance of the domain tables: it takes rows whose lease has ended from their
// owners, deletes rows that are past their retention, and tells how healthy the tables are.
//
// # What it does
//
// [Run] is for a process that lives: every [Options.Interval] it serves all tables, until its context
// ends. [RunOnce] is for cron or a Kubernetes CronJob: one round, then it returns. A round
//
//   - makes InProgress rows whose lease has ended Ready again with the table's backoff, or Failed where
//     their attempts are used up: as many as there are, however many rows with good leases stand beside;
//   - deletes Done and cancelled rows older than Spec.Retention, and dead letters older than
//     Spec.FailedRetention where that is set: up to [Options.PurgeLimit] of each.
//
// It works in short transactions of [Options.BatchSize] rows. The tables take turns after every batch,
// so a table with a backlog delays the others but does not hide them. When a bound cut a round short
// [Report.More] is set, and Run goes on at once, beginning with the expired leases again.
//
// Give it every table of your domains: each has a method Tables, such as outbox.Outbox.Tables and jobs.Client.Tables.
//
//	err := reaper.Run(ctx, pool, slices.Concat(box.Tables(), client.Tables()), reaper.Options{})
//
// Without a process in Go, the procedure <table>_maintain of every table does the same for that table, without an
// election: CALL txwork.outbox_maintain() from pg_cron, or txwork reap from cron. Those have the retention of the
// migration, not that of a program's Options.
//
// In the first round of a term it warns about tables of txwork in the same schemas that it was not given, see
// [Report.Unserved].
//
// [Health] and [Leader] only read.
//
// # Concurrency
//
// Any number of processes may run any number of reapers on the same tables. Reaping is safe anywhere
// and any number of times; the election is there so that it is not done n times over.
//
// The election is a row of the leader table, keyed by [Options.Name]: a holder, the end of its lease by
// the database's clock, and a term that the database raises with every new holder. Every batch runs in a
// READ COMMITTED transaction which first locks that row FOR SHARE and checks holder and term. Whoever
// takes the leadership has to update the row, which that lock forbids: so a batch is either committed
// before the term ends, or it changes nothing and reports [ErrNotLeader]. It does not matter how long the
// old leader was frozen, or what its clock says.
//
// A follower looks once an Interval, and as soon as the leader's lease ends. A leader that stops gives
// the lease back, so the next round comes no later than its own would have. No reaper holds a connection
// between rounds.
//
// # Failure
//
// Run does not give up. A round that fails is logged and tried again after a second, then with growing
// pauses up to Interval; so it outlives a restart of the database, a failover (the connection to a server
// that turned read-only is closed) and tables that are yet to be migrated. An error that concerns one
// table only, such as a lock that was not to be had within 5 s or a wrong schema version, does not keep
// the others from being served: it stands in the table's [TableReport].
//
// A leader that dies is replaced when its lease ends, or at once if the database's clock was set back behind the time
// at which the lease was granted. One that is frozen in the middle of a batch has its
// transaction ended by the server after the length of the lease.
//
// # Privileges
//
// The role needs SELECT, UPDATE and DELETE on the domain tables and SELECT, INSERT and UPDATE on the
// leader table, which the migrations create. Health shows other roles' sessions to members of
// pg_read_all_stats only; for anybody else it counts what it could not see.
package reaper
