// Package jobs enqueues typed jobs in an application's own transaction and runs them afterwards.
//
// This page says what jobs add to package [workqueue], which has the states of a row, leases, owner tokens
// and the transitions between them.
//
// # Kinds
//
// A job is a value of the application's, its [Args], whose Kind names what is to be done with it. A [Registry]
// has the kinds: their settings, which a job gets when it is enqueued, and their handlers.
//
//	type Resize struct{ Image string }
//
//	func (Resize) Kind() string { return "image.resize" }
//
//	kinds := jobs.NewRegistry()
//	jobs.Register(kinds, func(ctx context.Context, job *jobs.Job[Resize]) error {
//		return resize(ctx, job.Args.Image)
//	}, jobs.KindOptions[Resize]{Queue: "images", Timeout: time.Minute})
//
// A program that only enqueues uses [Declare], so that its jobs get the kind's queue, retries and so on.
// [KindOptions].Retry is stored with the job: it holds for a reported failure and for a crash alike, whoever
// settles or reaps it.
//
// # Enqueueing
//
// [Client.Enqueue] takes an open transaction of pgx, database/sql or sqlx, and whatever wraps one of those:
// the job runs if and only if it commits. [Client.EnqueueMany] writes any number of jobs in few statements.
//
//	client, err := jobs.Open(jobs.Options{Registry: kinds})
//	job, err := client.Enqueue(ctx, workqueue.Pgx(tx), Resize{"cat.png"}, jobs.InsertOptions{Delay: time.Hour})
//
// [InsertOptions] go before the kind's settings, and those before the defaults. Jobs are validated before anything
// is written, see [workqueue.ItemError].
//
// # Codecs
//
// [Options].Codec encodes args, outputs and the results of steps: [DefaultCodec] unless it is another. One that
// encrypts, such as that of package [github.com/txwork/txwork/workqueue/codec/aesgcm], binds them to the job's id,
// tenant, kind and field: the Field of its [codec.Envelope] is the quoted kind and args, output or step:<name>. The jobs of a
// schedule share their args, which are bound to its name, KeyID("schedule", name), instead of the id. What is
// compared for [ByArgs] is what was encrypted, where the codec has a method Open(codec.Envelope, []byte)
// ([]byte, error), and otherwise what is stored.
//
// # Unique jobs
//
// [Unique] keeps a job from being enqueued while another one holds its key: that of its kind, of its args, or
// one that you name. The table's unique index decides, so it holds across transactions and processes. A key is
// taken while its holder is ready or in progress, and in those ended states that you name. What becomes of the
// second job is a [Conflict]: it is dropped, it replaces the first where that has not started, or it is an error.
//
// # Running
//
// A [Worker] serves queues, each with handlers of its own, so that slow jobs of one queue do not hold up those
// of another. Any number of workers in any number of processes share a queue; run the reaper (package reaper) over
// [Client.Tables] in at least one, or the jobs and schedules of a worker that crashed stay claimed. What a handler returns settles its job, see
// [Register].
//
// Within a queue urgent jobs go first: each claim goes through the levels [High], [Normal] and [Low] until it is
// full. Every eighth begins with one of the less urgent levels, each in its turn, so that a load of urgent jobs that
// never ends leaves the others one claim in eight. Between jobs of one level there is no order but that of their due times, and they run
// concurrently.
//
// A job of a kind without a handler is a failed attempt with [ErrUnknownKind], and in the end a dead letter; or,
// with [LeaveUnknown], is left to workers that know it. Args that do not decode are a failed attempt, too, with a
// [DecodeError]: neither is ever lost.
//
// Delivery is at least once: a handler runs again for a job that it has done when its result was lost. What it
// writes through [Delivery.Tx] has its effect exactly once, and so has a [StepTx].
//
// # Long jobs
//
// [Delivery.SetProgress] and [Delivery.Output] record what people and programs want to know, and [Step] records
// the result of a part, so that a later attempt need not repeat it. All records are guarded by the job's lease:
// whoever has lost it writes nothing. The lease is renewed for as long as the handler runs; [KindOptions].Timeout
// bounds that.
//
// # Limits
//
// How many jobs run at once, and how often they are started, is bounded at three places:
//
//   - in a process, by [QueueOptions].Concurrency and, while it runs, [Worker.SetConcurrency]
//   - of a queue over all processes, by [Client.SetLimits]; [Client.Pause] stops a queue altogether. Exact: a running
//     job counts from its claim until it is settled, reaped or deleted, in the same transaction
//   - of a key, such as a customer's, by [KindOptions].Gate or [InsertOptions].Gate: one at a time in commit order,
//     so many at once, or so many a second
//
// Jobs that a pause or a gate holds back cost the claims of others nothing.
//
// # Periodic jobs
//
// [Schedules] are rows, from which schedulers enqueue jobs when they are due. There is no leader; an occurrence,
// which is a schedule at a nominal time, is enqueued once. See package schedule for rules, zones and what becomes of
// occurrences that are late or overlap.
//
// # Failure
//
// An error or a panic of a handler is a failed attempt. It is recorded as the job's last error and in its
// [Client.History], and the job is due again after its backoff, until its attempts are used up; then it has failed:
// the dead letter, which is kept and can be read ([Client.List]) and replayed ([Client.Redrive]). Attempts are
// counted when a job is claimed, so one that kills its process ends, too. [Quadratic] is a ready-made backoff of
// attempts² seconds.
//
// # Tables
//
// [DDL] makes the table jobs and, beside it, jobs_queue (rules of queues), jobs_bucket and jobs_slot (what is left
// of them), jobs_attempt (attempts that did not succeed), jobs_step and jobs_schedule. The SQL functions of
// package workqueue work on jobs as on any table. Claims keep to the rules of queues: jobs_claim and jobs_claim_rows
// return what pause, limit and rate let pass, which may be nothing; commit them soon, because claims of one limited
// queue follow each other. They need READ COMMITTED, PostgreSQL's default.
//
// A claim of a limited queue is one statement, so no process can freeze in the middle of one. One that meets another's
// uncommitted claim of the queue waits for it, half a second at most, and then takes nothing and is made again. Where
// somebody holds the row of a rated queue in jobs_bucket locked, its jobs are claimed when that ends; a limit of running
// jobs needs no row of it, and no other queue waits.
//
// # Concurrency
//
// A [Client], a [Registry] and [Schedules] are safe for concurrent use. Handlers run concurrently, and so do the
// methods of one job. A [Worker] runs once.
package jobs
