package jobs

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
)

// A Delivery is a claimed job in the hands of its handler, before its args are decoded. Middleware sees it;
// handlers see it as part of a [Job].
type Delivery struct {
	ID          uuid.UUID
	Kind        string
	Queue       string
	Priority    Priority
	Attempt     int // 1 is the first
	MaxAttempts int
	CreatedAt   time.Time // when the job was enqueued
	DueAt       time.Time // when this attempt became due
	Headers     map[string]string
	Schedule    string // the schedule that wrote the job; empty for none

	claim  *workqueue.Claim[Delivery]
	worker *Worker
	owner  owner // of the stored bytes; a copy, because handlers may change the fields above
	args   []byte
	trail  *bool // set if the job has recorded steps

	mu     sync.Mutex
	steps  map[string][]byte // the recorded steps; nil: not read yet
	inTx   bool
	output []byte // to be written at the end of the job's transaction
}

// A Job is a claimed job with its args.
type Job[T Args] struct {
	*Delivery
	Args T
}

// A Handler works on one job. Its result settles the job, see [Register].
type Handler func(ctx context.Context, d *Delivery) error

// A Middleware wraps handlers. It sees the result before the job is settled, and may replace it.
type Middleware func(next Handler) Handler

// Tx runs fn in a transaction and settles the job in it. What fn writes commits if and only if the settle does, so its
// effect happens exactly once. The result of fn is the outcome, as with a handler: nil means done, and an explicit
// outcome, such as [workqueue.Snooze], commits together with the writes. Any other error rolls the writes back and is
// returned; return it from the handler.
//
// The job's own unique key is free for jobs that fn enqueues, see [Unique]. From such an insert on, the job's row is
// locked until Tx ends: do not call SetProgress then.
//
// Call it once. After it has returned nil the job is settled, whatever the handler returns. If the lease was lost,
// nothing is written, and the error is [workqueue.ErrLeaseLost].
func (d *Delivery) Tx(ctx context.Context, fn func(tx pgx.Tx) error) error {
	if d.claim == nil {
		return errNoWorker
	}
	return d.claim.Tx(ctx, func(tx pgx.Tx) error { return d.withOutput(ctx, tx, fn) })
}

// errNoWorker is returned for deliveries that were not claimed by a worker, such as one that a handler's test has
// made.
var errNoWorker = errors.New("txwork: this job comes from no worker: it has no row")

// RunsWithin says how long this attempt may take before its job is reported as one that does not return, see
// [workqueue.Claim.RunsWithin].
func (d *Delivery) RunsWithin(limit time.Duration) {
	if d.claim != nil {
		d.claim.RunsWithin(limit)
	}
}

// deliver passes a claimed job to its handler.
func (w *Worker) deliver(ctx context.Context, c *workqueue.Claim[Delivery]) error {
	d := &c.Body
	d.ID, d.Headers = c.ID, c.Headers
	d.Attempt, d.MaxAttempts, d.CreatedAt, d.DueAt = c.Attempt, c.MaxAttempts, c.CreatedAt, c.DueAt
	d.claim, d.worker = c, w
	d.owner = owner{d.ID, d.Kind, d.Schedule, maps.Clone(d.Headers)}
	return w.handle(ctx, d)
}

// Decode decodes the job's args with the client's codec into the value that the pointer points to, as handlers get them
// in [Job].Args. It is meant for middleware. The error is a [*DecodeError].
func (d *Delivery) Decode(ctx context.Context, into any) error {
	if d.claim == nil {
		return errNoWorker
	}
	err := d.worker.client.decode(ctx, d.owner, argsField, d.args, into)
	if err != nil {
		return &DecodeError{Kind: d.owner.kind, Err: err}
	}
	return nil
}

// typed decodes the args for a handler. Args that do not decode are a failed attempt and not a permanent failure: in a
// rolling deploy, a worker whose type fits may claim the job later. Otherwise it becomes a dead letter with this
// error.
func typed[T Args](handler func(context.Context, *Job[T]) error) Handler {
	return func(ctx context.Context, d *Delivery) error {
		job := &Job[T]{Delivery: d}
		if d.claim != nil {
			if err := d.Decode(ctx, &job.Args); err != nil {
				return err
			}
		}
		return handler(ctx, job)
	}
}
