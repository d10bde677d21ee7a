// Package alarms wakes agents: at a moment, or whenever a cron rule says so.
//
// An agent that pauses leaves a message and a payload for later. When its alarm is due, a [Waker] delivers them
// unchanged. `txwork alarms serve` is the whole service, see docs/alarms.md; this package is the same as a library.
//
// Alarms are one consumer of package [timers]: each active alarm has a timer, written and settled in the same
// transactions. This page says what alarms add to it.
//
// # Creating, reading and cancelling
//
// A [Store] has the operations, in transactions of their own or inside an application's:
//
//	a, err := alarms.Open(alarms.Options{})
//	alarm, deduped, err := a.On(pool).CreateAlarm(ctx, alarms.New{…})
//	alarm, deduped, err := a.In(workqueue.Pgx(tx)).CreateAlarm(ctx, alarms.New{…})
//
// Every alarm has an owner, and an owner sees its own only: others are [workqueue.ErrNotFound]. Of an owner's alarms with one
// idempotency key there is one, however often and by how many it is created at once.
//
// # Firing
//
// A [Dispatcher] is a worker of the timers. It calls the Waker outside any transaction, and then changes the alarm and
// settles its timer in one, under the owner token of its claim:
//
//	delivered    once: fired · cron: active, moved to its next time; fired where there is none
//	failed       active, repeated by the [Ladder], with failure_count and last_error
//	for the last
//	time         once: failed · cron: active, moved to its next time, the error kept; failed where there is none
//	permanent    failed at once, also cron: a receiver that answers 410, or a Waker's [workqueue.Permanent]
//	cancelled    cancelled, whatever the delivery comes to
//
// A series is planned from the nominal time of the firing, and times that have passed meanwhile are left out. The
// nominal time is the timer's: retries move next_fire_at, and never it. A [Wake] carries it, so that two
// occurrences can be told apart, and two deliveries of one cannot.
//
// Delivery is at least once. Deliveries run side by side, each under a lease that is renewed for as long as it runs.
// A delivery that dies with its process may never have reached the receiver: it is repeated and counts as no failure.
// The reaper (package reaper, over [timers.Timers.Table]) takes its timer back, [MaxLostClaims] times for one firing;
// then [Dispatcher.Repair] ends the alarm.
//
// # Timers of others
//
// The timers of a schema are claimed by every worker of it, whatever their topic. See [Dispatcher.Deliver] for a
// worker that serves alarms beside other timers; otherwise give alarms a schema of their own.
//
// # Serving
//
// [Server] is the REST API, [OpenAPI] its document. It lets nobody in whom its [Authenticator] does not know.
// [HTTPWaker] posts wakes, signed by Standard Webhooks, to public addresses unless told otherwise; [Signer] verifies
// them.
//
// # Concurrency
//
// Everything here is safe for concurrent use, except a Store of [Alarms.In], which is as safe as its transaction. Any
// number of dispatchers and servers share the tables.
package alarms
