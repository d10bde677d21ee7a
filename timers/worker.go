package timers

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue/validate"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
	"github.com/txwork/txwork/workqueue/topics"
)

// WorkerOptions configure a [Worker]: those of a worker of the core. The zero value is usable.
type WorkerOptions struct {
	workqueue.WorkerOptions

	// NoSchedules leaves the schedules to other workers: this one fires timers only.
	NoSchedules bool
}

// A Worker fires timers, and makes timers of what schedules owe: it is a worker by topic, whose methods are those of
// [topics.Worker]; its Drain first writes what schedules owe. Any number of workers, in any number of processes, share
// the tables; give all of them handlers for the same topics, since a timer goes to whichever claims it.
type Worker struct {
	*topics.Worker[Handler]
}

// NewWorker makes a worker; register its handlers, then call Run.
//
// The pool serves [Delivery.Tx] and the scheduler's transactions. Claims, renewals and settles of the worker and of its
// scheduler have the connections of one [workqueue.Runtime], so that busy handlers cannot starve them.
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
	worker, err := topics.NewWorker(pool, topics.Domain[Handler, Delivery]{
		Domain: workqueue.Domain[Delivery]{Table: t.table, Fields: (*Delivery).fields},
		Name:   "timers",
		Runner: "worker",
		Topic:  func(d *Delivery) string { return d.Topic },
		Handle: t.delivering(&clock{pool: pool}),
		Tables: t.Tables(),
		Before: scheduler,
	}, o.WorkerOptions)
	if err != nil {
		return nil, err
	}
	return &Worker{worker}, nil
}

// scheduler is the workers of the schedules: one, or none with NoSchedules.
func (t *Timers) scheduler(pool *pgxpool.Pool, o WorkerOptions) ([]*workqueue.Worker, error) {
	if o.NoSchedules {
		return nil, nil
	}
	s, err := periodic.NewScheduler(pool, t.schedules.plan, periodic.SchedulerOptionsOf(o.WorkerOptions))
	if err != nil {
		return nil, err
	}
	return s.Workers(), nil
}
