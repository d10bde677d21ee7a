// Package service runs all parts of a process on one database: relays, inbox consumers, timers, alarms, job workers,
// schedulers, workers on tables of your own, and the reaper.
//
//	s, err := service.New(pool, service.Options{}, relay, consumer, worker)
//	if err != nil {
//		return err
//	}
//	go http.ListenAndServe(":8081", s.Handler())
//	return s.Run(ctx)
//
// # What it does
//
// The parts and the reaper share one [workqueue.Runtime]. In addition to the application's pool, a process therefore
// has four connections, one that listens, and up to three spare ones, however many parts and queues it runs. It has one
// more for each table while it notifies on behalf of busy producers.
//
// The reaper maintains all tables of the parts, and those of their schedules. Each table is maintained by one process
// at a time: processes elect a leader for each of their tables, so they may have different parts, and share some. To
// maintain a table that no part serves, such as that of an inbox that is only used with inboxhttp.Process, name it in
// [Options].Tables. If something else does the maintenance, such as `txwork reap` from cron, set
// [Options.MaintainedElsewhere].
//
// Soon after its start, the reaper warns about other tables of txwork in the same schemas, if they have had a row and
// nothing has maintained them in the last 24 hours.
//
// Run returns an error at once if the parts cannot work: a table is missing or has another version, or the role lacks a
// right. New refuses two parts that serve the same queue; use one part with a higher Concurrency.
//
// [HTTP] makes a part of any handler on a listener of its own, such as the dashboard of package webui.
//
// # Shutdown
//
// When the context of Run ends,
//
//  1. all parts stop claiming, and rows that no handler has begun are returned;
//  2. running handlers get the ShutdownTimeout of their part to finish, and their results are settled;
//  3. the reaper stops when all parts have stopped.
//
// Run then returns nil, or the errors of parts whose handlers did not stop in time.
//
// An HTTP server beside the service has to be stopped, too: one context stops both, and main waits for both, first for
// the service and then for the server. Close the pool last, because the server's handlers enqueue. The section "Stop
// with SIGTERM" of docs/operations.md shows the code, and so does the example of [Service.Run].
//
// If a part ends by itself, with or without an error, the service stops the others too, because half a service is hard
// to notice. This does not apply to a part that you remove.
//
// # Health
//
// [Service.Handler] answers two probes:
//
//   - /readyz answers 200 while every worker claims. It answers 503 with the reasons while one does not: before the
//     start, while the database is unavailable, and during the shutdown. A part that is being added or removed does not
//     count.
//   - /livez answers 503 if only a restart helps: Run has ended, or a worker is stuck. It answers 200 while the
//     database is unavailable, because a restart would not bring it back.
//
// # Changes at run time
//
//   - [Service.Add] starts another part, such as a jobs.Worker for one more queue. [Service.Remove] stops one part,
//     with the shutdown above, and leaves the others running. Both affect this process only. Rows of a queue without a
//     worker remain in their table.
//   - SetConcurrency of a part (jobs.Worker, outbox.Relay, inbox.Worker, timers.Worker, alarms.Dispatcher or
//     [workqueue.Worker]) changes how many of its handlers run in this process.
//   - To pause, limit or resume a queue of jobs, use jobs.Client or `txwork jobs`. The rule is stored in the database,
//     so it applies to all processes and survives their restarts.
//
// If you add a jobs.Worker for one more queue, set its NoSchedules: the first jobs.Worker runs the schedules.
package service
