package timers

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
	"github.com/txwork/txwork/workqueue/topics"
	"github.com/txwork/txwork/workqueue/validate"
)

// WorkerOptions configure a [Worker]. They are those of a worker of the core, and NoSchedules. The zero value is
// usable.
type WorkerOptions struct {
	workqueue.WorkerOptions

	// NoSchedules leaves the schedules to other workers: this one only fires timers.
	NoSchedules bool
}

// A Worker passes timers that are due to the handlers of their topics, and writes the due occurrences of schedules as
// timers.
//
// Its methods are those of [topics.Worker], which `go doc workqueue/topics.Worker` shows:
//
//   - Handle registers the handler of a topic, HandleAll the handler of all other topics. Wrap adds middleware to them.
//     Timers of topics with a HandleBatch are handled together.
//   - Run fires timers until its context is cancelled. Wake makes it look for timers now, SetConcurrency changes how
//     many handlers run at once.
//   - Drain returns a [workqueue.Drain], which processes what is due and returns; due occurrences are written first.
//     DrainIn does so in a transaction, for tests.
//   - Check, Workers and Tables make it a part of a service, see package service.
//
// Any number of workers, in any number of processes, can share the tables. Any of them may claim a timer, so register
// handlers for the same topics in all of them.
type Worker struct {
	*topics.Worker[Handler]
	deliver func(context.Context, *workqueue.Claim[Delivery], Handler) error
}

// NewWorker creates a worker. Register its handlers, then call Run.
//
// The pool serves [Delivery.Tx] and the scheduler's transactions. Claims, renewals and settles of the worker and of its
// scheduler use the connections of one [workqueue.Runtime], so busy handlers cannot starve them.
func NewWorker(pool *pgxpool.Pool, t *Timers, o WorkerOptions) (*Worker, error) {
	if t == nil {
		return nil, validate.Errorf("timers", "are nil")
	}
	var err error
	if o.WorkerOptions, err = o.WithRuntime(pool); err != nil {
		return nil, err
	}
	scheduler, err := t.scheduler(pool, o)
	if err != nil {
		return nil, err
	}
	deliver := t.delivering(&clock{pool: pool})
	worker, err := topics.NewWorker(pool, topics.Domain[Handler, Delivery]{
		Domain: workqueue.Domain[Delivery]{Table: t.table, Columns: (*Delivery).columns},
		Name:   "timers",
		Runner: "worker",
		Topic:  func(d *Delivery) string { return d.Topic },
		Handle: deliver,
		Tables: t.Tables(),
		Before: scheduler,
	}, o.WorkerOptions)
	if err != nil {
		return nil, err
	}
	return &Worker{worker, deliver}, nil
}

// scheduler returns the workers of the schedules: one, or none with NoSchedules.
func (t *Timers) scheduler(pool *pgxpool.Pool, o WorkerOptions) ([]*workqueue.Worker, error) {
	if o.NoSchedules {
		return nil, nil
	}
	s, err := periodic.NewScheduler(pool, t.schedules.Plan, periodic.SchedulerOptionsOf(o.WorkerOptions))
	if err != nil {
		return nil, err
	}
	return s.Workers(), nil
}

// HandleBatch registers the handler of a topic whose timers are handled together. It panics like Handle, and if the
// options are refused. Wrap does not wrap the handler.
func (w *Worker) HandleBatch(topic string, o workqueue.BatchOptions, h BatchHandler) {
	topics.HandleBatch(w.Worker, topic, o, (*Delivery).size, topics.Together(w.deliver, h))
}

// HandleAllBatch registers the handler of all topics without one of their own, whose timers are handled together, those
// of several topics in one batch. It panics like [Worker.HandleBatch].
func (w *Worker) HandleAllBatch(o workqueue.BatchOptions, h BatchHandler) {
	topics.HandleAllBatch(w.Worker, o, (*Delivery).size, topics.Together(w.deliver, h))
}

func (d *Delivery) size() int { return len(d.Payload) }
