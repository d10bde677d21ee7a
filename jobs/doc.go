// Package jobs enqueues typed jobs in an application's own transaction and runs them afterwards.
//
// This page says what jobs add to package [workqueue], which documents the states of a row, leases, owner tokens and
// the transitions between states.
//
// # Kinds
//
// A job is a value of an application's type, its [Args], whose Kind names the work to be done. A [Registry] holds the
// kinds: their settings, which are applied when a job is enqueued, and their handlers.
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
// A program that enqueues jobs of a kind without handling them uses [Declare], so that the jobs get the queue, retries
// and other settings of their kind. A [Client] with a Registry refuses to enqueue kinds that it does not hold; one
// without a Registry accepts every kind. [KindOptions].Retry is stored with the job. It applies to reported failures
// and to crashes alike, whichever process settles or reaps the job.
//
// # Enqueueing
//
// [Client.Enqueue] takes an open transaction of pgx, database/sql or sqlx, or of a library that wraps one of them. The
// job runs if and only if that transaction commits. [Client.EnqueueMany] writes any number of jobs in few statements.
//
//	client, err := jobs.Open(jobs.Options{Registry: kinds})
//	job, err := client.Enqueue(ctx, workqueue.Pgx(tx), jobs.Insert{Args: Resize{"cat.png"}, Delay: time.Hour})
//
// The settings of an [Insert] override those of its kind, which override the defaults. All jobs are validated before
// any is written, see [workqueue.ItemError].
//
// # Codecs
//
// [Options].Codec encodes args, outputs and the results of steps. The default is [DefaultCodec]. A codec that encrypts,
// such as that of package [github.com/txwork/txwork/workqueue/codec/aesgcm], binds them to the job's id, tenant, kind
// and field: the Field of its [codec.Envelope] is the quoted kind and args, output or step:<name>. The jobs of a
// schedule share their args, which are bound to the schedule's name, KeyID("schedule", name), instead of an id.
//
// A [Unique] without a key compares encoded args. If the codec has a method Open(codec.Envelope, []byte) ([]byte,
// error), it compares the plaintext, and otherwise what is stored.
//
// # Unique jobs
//
// [Unique] prevents a job from being enqueued while another job holds its key. Within a kind, the key is the args, a
// text or fields that you choose, or what [KindOptions].UniqueKey or UniqueFields derives from the args, such as the id
// of an order. Texts and fields are the same key in SQL, in any language; encoded args are Go's own. A unique index of
// the table decides, so it holds across transactions and processes. A key is taken while its job is ready or in
// progress, and in those ended states that you name. A [Conflict] decides what happens to the second job: it is
// dropped, it replaces the first if that has not started, or it is an error. With [UntilStart] a key is taken only
// until its job starts, so that a change which arrives later leads to another run; with [UntilStartInTurn] that run
// comes after this one. In [Delivery.Tx] a job may enqueue its successor under its own key.
//
// A kind's settings hold for every job of it, whether it is enqueued, written by a schedule, part of a batch or
// workflow, redriven, or takes the place of another. Only batches and workflows refuse unique jobs. SQL that inserts
// jobs writes the settings itself, because it does not see the Registry; triggers and indexes then enforce them.
//
// # Running
//
// A [Worker] serves queues. Each queue has handlers of its own, so slow jobs of one queue do not delay those of
// another. Any number of workers in any number of processes share a queue. Run the reaper (package reaper) over
// [Client.Tables] in at least one of them; without it, the jobs and schedules of a crashed worker stay claimed. The
// result of a handler settles its job, see [Register].
//
// Within a queue, urgent jobs run first: each claim takes jobs of the levels [High], [Normal] and [Low], in this order,
// until it is full. Every eighth claim begins with one of the less urgent levels, in turn, so a permanent load of
// urgent jobs leaves one claim in eight to the others. Jobs of one level have no order but that of their due times, and
// they run concurrently. A job that had to wait for its key takes the place that its own due time gives it in this
// order, as soon as its key lets it through.
//
// A job whose kind has no handler is a failed attempt with [ErrUnknownKind], and a dead letter after the last attempt.
// With [LeaveUnknown] it is left to workers that have the handler. Args that cannot be decoded are a failed attempt
// with a [DecodeError]. Neither job is ever lost.
//
// Delivery is at least once: a handler runs again for a job that it has done if its result was lost. What it writes
// through [Delivery.Tx] takes effect exactly once, and so does a [StepTx].
//
// # Long jobs
//
// [Delivery.SetProgress] and [Delivery.Output] record what people and programs want to know about a job. [Step] records
// the result of a part, so that a later attempt does not repeat it. All records are guarded by the job's lease: a
// worker whose lease has expired can no longer write. The lease is renewed for as long as the handler runs.
// [KindOptions].Timeout bounds that time.
//
// # Limits
//
// You can limit how many jobs run at the same time, and how often jobs are started, in three places:
//
//   - in a process, by [QueueOptions].Concurrency, and at run time by [Worker.SetConcurrency]
//   - in a queue over all processes, by [Client.SetLimits]; [Client.Pause] stops a queue altogether. The limit is
//     exact: a running job counts from its claim until it is settled, reaped or deleted, in the same transaction
//   - for a key, such as a customer's, by [KindOptions].ByKey or [Insert].ByKey: [keyed.Ordered] runs jobs one
//     at a time in commit order, [keyed.Limited] at most n at the same time, or n a second
//
// Jobs that wait for a pause or for their key do not make other claims more expensive.
//
// # Periodic jobs
//
// [Schedules] are rows, from which schedulers enqueue jobs when they are due. There is no leader. An occurrence, which
// is a schedule at a nominal time, is enqueued once. Its settings are those of the program that put the schedule, see
// [Schedules]. Package schedule defines rules and zones, and what happens to
// occurrences that are late or overlap.
//
// # Failure
//
// An error or a panic of a handler is a failed attempt. It is stored as the job's last error and in its
// [Client.History], and the job is due again after its backoff, until its attempts are used up. Then it has failed: a
// dead letter, which is kept and can be read ([Client.List]) and redriven ([Client.Redrive]). Attempts are counted when
// a job is claimed, so a job that crashes its process is not retried for ever. [Quadratic] is a ready-made backoff of
// attempts² seconds.
//
// # Tables
//
// [DDL] creates the table jobs and, beside it, jobs_queue (rules of queues), jobs_start and jobs_slot (what counts
// against rates and limits), jobs_attempt (attempts that did not succeed), jobs_step and jobs_schedule. The SQL
// functions of package workqueue work on jobs as on any table. Claims obey the rules of queues: jobs_fetch returns
// what pause, limit and rate allow, which may be nothing, and says in its column held what keeps jobs back. They need
// READ COMMITTED, PostgreSQL's default. An uncommitted claim holds back only what it has taken of a limit or a rate.
//
// A claim of a limited queue is one statement, so no process can freeze in the middle of it. It waits for nobody. If
// others hold what is left of a limit or a rate and have not committed, it returns nothing, and is repeated soon.
//
// # Concurrency
//
// A [Client], a [Registry] and [Schedules] are safe for concurrent use. Handlers run concurrently, and the methods of
// one job may be called concurrently. A [Worker] runs once.
package jobs
