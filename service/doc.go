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
// beside the application's pool, however many parts and queues it has.
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
// ends by itself, with or without an error, stops the others: half a service is hard to notice.
//
// # Health
//
// [Service.Handler] answers /readyz with 200 while every worker claims, and with 503 and the reasons while one
// does not: before the start, while the database is away, while stopping. It answers /livez with 503 when Run has ended, or when a
// worker is stuck so that only a restart helps. A database that is away does not make a process unhealthy: restarting it
// would not bring the database back.
//
// Parts cannot be added to or removed from a Service that runs. Queues of jobs are paused and limited at run time by the
// database, see jobs.Client.Queues; a part that is to come and go has a Run of its own and, with the same
// [workqueue.Runtime] ([Service.Runtime]), no connections of its own.
package service
