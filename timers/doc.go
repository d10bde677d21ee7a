// Package timers fires at a time that was set in an application's own transaction: once by a key of the
// application's, or again and again by a cron schedule.
//
// A timer is a row. It exists if and only if the transaction that set it commits, survives every restart,
// and fires on whichever worker claims it. This page says what timers add to package [workqueue], which has
// the states of a row, leases, owner tokens and the transitions between them.
//
// # Setting and cancelling
//
// [Timers.Set] takes an open transaction of pgx, database/sql or sqlx, and whatever wraps one of those:
//
//	t, err := timers.Open(timers.Options{}) // once, at the start
//	_, err = t.Set(ctx, workqueue.Pgx(tx), timers.Timer{Key: "order/7/expires", Topic: "order.expired", Delay: time.Hour})
//	_, err = t.Cancel(ctx, workqueue.SQL(tx), "order/7/expires")
//
// The key is the application's: setting it again replaces what was set, so a timer is moved, or a burst
// debounced, without looking first. What a Set finds decides what it does:
//
//	no timer           it is created
//	waiting, retrying  it is moved, and has all its attempts again
//	fired, failed,
//	cancelled          it begins again, in the same row
//	firing             the firing goes on with what it was given; when it ends, however it ends,
//	                   the timer is as it was set last, Ready and with all its attempts
//
// What is set during a firing is never lost: it is kept beside the firing in the row, and the database itself
// puts it in force in the settle, whether that is an ack, a failure, a snooze, a SQL worker's or the
// reaper's. A handler may set its own timer, also in [Delivery.Tx]. A firing that fails while another is set
// leaves its error as the timer's last error, and no dead letter.
//
// [Timers.Cancel] ends a timer that waits and asks a firing one to stop; what was set during that firing is dropped.
// The last word holds: a Set after a Cancel sets. [Timers.Get] and [Timers.List] read timers in the same
// transaction.
//
// Set and Cancel lock the timers' rows until the transaction ends. The settle of a firing that ends meanwhile
// waits for that, and other settles of the same worker with it; a claim does not wait. Keep such transactions
// short.
//
// # Firing
//
// A [Worker] hands each timer that is due to the handler of its topic, or to the handler of all other topics.
//
//	w, err := timers.NewWorker(pool, t, timers.WorkerOptions{})
//	w.Handle("order.expired", func(ctx context.Context, d *timers.Delivery) error {
//		return expire(ctx, d.Key)
//	})
//	err = w.Run(ctx) // until ctx is cancelled
//
// A timer is never early by the database's clock, the only one that decides. Delays and past times are that
// clock's too; [Delivery].Late tells how much later a firing is than it was to be. Workers hear of a commit at
// once, through LISTEN, and sleep until the next timer is due, so a timer is usually late by milliseconds. What
// is set in a long transaction is known to nobody before it commits.
//
// No transaction is open while a handler runs, unless it opens one. Handlers run concurrently, by default
// [workqueue.DefaultConcurrency] of them in one worker, and must be safe for that. Two timers that are due at
// once fire in no particular order. Run the reaper (package reaper) over [Timers.Tables], or the
// timers and schedules of a worker that crashed stay claimed.
//
// # Payloads
//
// A payload is bytes, or a [Timer].Value, which [Options].Codec encodes: JSON unless it is another. A codec that
// encrypts binds it to the timer's key, see [codec.KeyID], and tenant; the occurrences of a schedule share their
// payload, so that is bound to the schedule's name, KeyID("schedule", name). [codec.Handler] makes a handler of a
// function that takes the decoded value. What does not decode is a failed attempt with a [codec.DecodeError], and in
// the end a dead letter, which is kept with its bytes.
//
// # Exactly once, or not
//
// Firing is at least once, as every delivery of the core. What a handler writes through [Delivery.Tx] has its
// effect exactly once. Calls to other systems should carry [Delivery].ID together with Generation as their
// idempotency key: the same on every attempt of a firing, another for what is set after it.
//
// # Failure
//
// An error or a panic is a failed attempt; the timer is due again after the backoff, until its attempts are
// used up, and is then Failed: the dead letter, which is kept and can be redriven or set again. Retries move
// the due time and never [Delivery].ScheduledAt, the nominal time. A topic without a handler is a failed attempt,
// since another worker may know it.
//
// # Schedules
//
// [Timers.Schedules] keeps cron schedules as rows. Their occurrences are timers with the schedule's topic and
// payload, with the nominal time as ScheduledAt and the schedule's name as Schedule:
//
//	err := t.Schedules().Put(ctx, tx, timers.Schedule{
//		Name: "nightly-report", Expr: "30 2 * * *", Zone: "Europe/Berlin", Topic: "report",
//		Rule: schedule.Rule{Misfire: schedule.MisfireOnce, Overlap: schedule.OverlapSkip},
//	})
//
// A program puts its schedules whenever it starts: what has not changed is left alone. Package schedule says
// what expressions mean, also where the clock is put forward or back; package
// [github.com/txwork/txwork/workqueue/periodic] says how occurrences come about: each exactly once for its
// nominal time, with any number of workers and without a leader, and what pausing, triggering and
// backfilling do. Every Worker looks after the schedules too, unless WorkerOptions say NoSchedules.
//
// An occurrence has the key schedule/<name>/<nominal time in UTC>, and can be read and cancelled by it. It
// counts as running for the overlap policy from its nominal time until it has fired or failed: its
// jitter and its retries included. An occurrence is known for as long as its row is kept; a backfill of what
// was purged writes it again. A schedule of every second leaves 604,800 rows in a week: shorten
// [Options].Retention where that is too many.
package timers
