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
// # What it adds
//
// The parts share one [workqueue.Runtime], so the process has four connections, one that listens and up to three spare ones
// beside the application's pool, however many parts and queues it has, and one for each table while it notifies on behalf of
// busy producers. The reaper uses the same.
//
// The reaper runs beside them, over all tables of the parts, those of their schedules included, unless
// [Options.MaintainedElsewhere] says that something else does its work, such as `txwork reap` from cron. It warns about tables of
// txwork in the same schemas that no part names.
//
// Run checks first what cannot work: a table that is missing or of another version, rights that the role lacks. New refuses two
// parts that serve the same queue, since one with more Concurrency is what is meant.
//
// # Order
//
// When the context of Run ends, no part claims any more; rows that no handler has begun are returned; running handlers have
// the ShutdownTimeout of their part; what they have done is settled; and the reaper stops when all parts have. A part that
// ends by itself, with or without an error and without having been removed, stops the others: half a service is hard to notice.
//
// # Health
//
// [Service.Handler] answers /readyz with 200 while every worker claims, one that is being added or removed apart, and with 503 and the reasons while one
// does not: before the start, while the database is away, while stopping. It answers /livez with 503 when Run has ended, or when a
// worker is stuck so that only a restart helps. A database that is away does not make a process unhealthy: restarting it
// would not bring the database back.
//
// # Changes while it runs
//
//   - [Service.Add] starts another part, such as a jobs.Worker of one more queue. [Service.Remove] stops one in the order above,
//     without the others. Both concern this process only; rows of a queue that nobody serves wait.
//   - SetConcurrency of a part (jobs.Worker, outbox.Relay, inbox.Worker, timers.Worker, alarms.Dispatcher or [workqueue.Worker])
//     changes how many of its handlers run in this process.
//   - A queue of jobs is paused, limited and resumed in the database, by jobs.Client or `txwork jobs`: in all processes, and
//     beyond their restarts.
//
// A jobs.Worker that is added to serve one more queue leaves the schedules to the one that has them (NoSchedules).
package service
