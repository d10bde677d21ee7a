// Package timers calls a handler at a time that was set in an application's own transaction: once, under a key that the
// application chooses, or repeatedly, by a cron schedule.
//
// A timer is a row. It exists if and only if the transaction that set it commits, it survives every restart, and it
// fires on whichever worker claims it. This page says what timers add to package [workqueue], which documents the
// states of a row, leases, owner tokens and the transitions between states.
//
// # Setting and cancelling
//
// [Timers.Set] takes an open transaction of pgx, database/sql or sqlx, or of a library that wraps one of them:
//
//	t, err := timers.Open(timers.Options{}) // once, at startup
//	timer := timers.Timer{Key: "order/7/expires", Topic: "order.expired", Delay: time.Hour}
//	_, err = t.Set(ctx, workqueue.Pgx(tx), timer)
//	_, err = t.Cancel(ctx, workqueue.SQL(tx), "order/7/expires")
//
// The key belongs to the application. Setting a key again replaces its timer, so you can move a timer or debounce a
// burst of changes without reading it first. What Set does depends on the timer that it finds:
//
//	none               it creates the timer
//	waiting, retrying  it replaces the timer, which has all its attempts again
//	fired, failed,
//	cancelled          it starts the timer again, in the same row
//	firing             it leaves the running handler and its data alone; when the delivery finishes,
//	                   the most recent Set takes effect and the timer is Ready with all its attempts
//
// A timer that is set while it fires is never lost. The row stores the new setting beside the current one, and the
// database applies it in the statement that settles the delivery: an ack, a failure, a snooze, the settle of a worker
// in SQL, or the reaper's. A handler may set its own timer, also in [Delivery.Tx]. If a firing fails after the timer
// was set again, its error becomes the timer's last error and no dead letter remains.
//
// [Timers.Cancel] ends a timer that waits. If the timer is firing, Cancel cancels the context of its handler and
// discards what was set during that firing. The last call decides: a Set after a Cancel sets the timer. [Timers.Get]
// and [Timers.List] read timers in the same transaction.
//
// Set and Cancel lock the rows of their timers until the transaction ends. If such a timer finishes firing meanwhile,
// its settle waits for the transaction, together with other settles of the same worker. Claims do not wait. Keep such
// transactions short.
//
// # Firing
//
// A [Worker] passes each timer that is due to the handler of its topic, or to the handler of all other topics.
//
//	w, err := timers.NewWorker(pool, t, timers.WorkerOptions{})
//	w.Handle("order.expired", func(ctx context.Context, d *timers.Delivery) error {
//		return expire(ctx, d.Key)
//	})
//	err = w.Run(ctx) // until ctx is cancelled
//
// Only the database's clock decides when a timer is due, and a timer never fires early by that clock. Delays and past
// times are relative to that clock, too. [Delivery].Late says how long after its nominal time an attempt started.
// Workers are notified of a commit through LISTEN, and sleep until the next timer is due, so a timer is usually late by
// milliseconds. Workers cannot see a timer before the transaction that set it commits.
//
// No transaction is open while a handler runs, unless the handler opens one. Handlers run concurrently, by default
// [workqueue.DefaultConcurrency] of them in one worker, and must be safe for that. Timers that are due at the same time
// fire in no particular order. Run the reaper (package reaper) over [Timers.Tables]; without it, the timers and
// schedules of a crashed worker stay claimed.
//
// # Payloads
//
// A payload is bytes, or a [Timer].Value that [Options].Codec encodes. The default codec is JSON. A codec that encrypts
// binds the payload to the timer's key (see [codec.KeyID]) and tenant. All occurrences of a schedule share one payload,
// which is bound to the name of the schedule instead: KeyID("schedule", name). [codec.Handler] turns a function of the
// decoded value into a handler. A payload that cannot be decoded is a failed attempt with a [codec.DecodeError]. After
// the last attempt it is a dead letter that keeps its bytes.
//
// # Exactly once
//
// Firing is at least once, like every delivery of the core. What a handler writes through [Delivery.Tx] takes effect
// exactly once. For calls to other systems, send [Delivery].ID together with Generation as the idempotency key: the
// pair is the same for every attempt of a firing, and changes when the timer is set again.
//
// # Failure
//
// An error or a panic is a failed attempt. The timer is due again after the backoff, until its attempts are used up.
// Then it is Failed: a dead letter, which is kept and can be redriven or set again. Retries change the due time, and
// never [Delivery].ScheduledAt, the nominal time. A topic without a handler is a failed attempt, because another worker
// may have the handler.
//
// # Schedules
//
// [Timers.Schedules] stores cron schedules as rows. Their occurrences are timers with the topic and payload of the
// schedule, its name as Schedule, and the nominal time as ScheduledAt:
//
//	err := t.Schedules().Put(ctx, tx, timers.Schedule{
//		Name: "nightly-report", Expr: "30 2 * * *", Zone: "Europe/Berlin", Topic: "report",
//		Rule: schedule.Rule{Misfire: schedule.MisfireOnce, Overlap: schedule.OverlapSkip},
//	})
//
// A program puts its schedules every time it starts. A schedule that has not changed keeps its next time. Package
// schedule defines what expressions mean, also when the clock moves forward or back. Package
// [github.com/txwork/txwork/workqueue/periodic] describes how occurrences are written: exactly once for each nominal
// time, by any number of workers and without a leader. It also describes pausing, triggering and backfilling. Every
// Worker also processes schedules, unless its WorkerOptions set NoSchedules.
//
// An occurrence has the key schedule/<name>/<nominal time in UTC>, under which you can read and cancel it. For the
// overlap policy it counts as running from its nominal time until it has fired or failed, including its jitter and its
// retries. An occurrence is known for as long as its row exists: after a purge, a backfill writes it again. A schedule
// that fires every second leaves 604,800 rows in a week. If that is too many, shorten [Options].Retention.
package timers
