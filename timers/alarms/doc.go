// Package alarms wakes agents: once at a given time, or repeatedly by a cron expression.
//
// An agent that pauses a task leaves a message and a payload. When its alarm is due, a [Waker] delivers both unchanged.
// `txwork alarms serve` is the complete service, see docs/alarms.md. This package is the same service as a library.
//
// Alarms are built on package [timers]: each active alarm has a timer, which is written and settled in the same
// transactions. This page says what alarms add to timers.
//
// # Creating, reading and cancelling
//
// A [Store] has these operations, in transactions of its own or in an application's transaction:
//
//	a, err := alarms.Open(alarms.Options{})
//	alarm, deduped, err := a.On(pool).CreateAlarm(ctx, alarms.New{…})
//	alarm, deduped, err := a.In(workqueue.Pgx(tx)).CreateAlarm(ctx, alarms.New{…})
//
// Every alarm has an owner, and an owner sees only its own alarms: for others the error is [workqueue.ErrNotFound]. An
// owner has at most one alarm with the same idempotency key, however often it is created, also concurrently.
//
// # Firing
//
// A [Dispatcher] is a worker of the timers. It calls the Waker outside any transaction. Then it changes the alarm and
// settles its timer in one transaction, under the owner token of its claim:
//
//	delivered    once: fired · cron: active, moved to its next time; fired if there is none
//	failed       active, repeated by the [Ladder], with failure_count and last_error
//	for the last
//	time         once: failed · cron: active, moved to its next time, the error kept; failed if there is none
//	permanent    failed at once, also cron: a receiver that answers 410, or a Waker's [workqueue.Permanent]
//	cancelled    cancelled, whatever the result of the delivery
//	redriven     active again, if an operator redrives the timer of an alarm that has failed
//
// A series is planned from the nominal time of the firing, and times that have passed meanwhile are skipped. The
// nominal time is that of the timer: retries move next_fire_at, and never the nominal time. A [Wake] carries it, so
// receivers can distinguish two occurrences, and recognize two deliveries of one occurrence.
//
// Delivery is at least once. Deliveries run concurrently, each under a lease that is renewed for as long as it runs. If
// a process crashes during a delivery, the wake may never have reached the receiver: it is delivered again, and does
// not count as a failure. The reaper (package reaper, over [timers.Timers.Table]) takes its timer back, up to
// [MaxLostClaims] times for one firing. After that, [Dispatcher.Repair] ends the alarm.
//
// # Alarms beside other timers
//
// Every worker of a schema claims its timers, whatever their topic. [Dispatcher.Deliver] is for a worker that serves
// alarms beside other timers. Otherwise give alarms a schema of their own.
//
// # Serving
//
// [Server] is the REST API, and [OpenAPI] its description. It refuses all requests that its [Authenticator] does not
// recognize. [HTTPWaker] posts wakes, signed according to Standard Webhooks, and only to public addresses unless you
// allow others. [Signer] verifies the signatures.
//
// # Concurrency
//
// Everything in this package is safe for concurrent use, except a Store of [Alarms.In], which is as safe as its
// transaction. Any number of dispatchers and servers share the tables.
package alarms
