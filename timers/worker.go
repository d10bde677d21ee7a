package timers

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

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

// A Worker fires timers, and makes timers of what schedules owe. Any number of workers, in any number of
// processes, share the tables; give all of them handlers for the same topics, since a timer goes to
// whichever claims it.
type Worker struct {
	timers    *Timers
	worker    *workqueue.Worker
	scheduler *periodic.Scheduler // nil with NoSchedules
	handlers  *topics.Registry[Handler]
	clock     *clock
}

// NewWorker makes a worker; register its handlers, then call Run.
//
// The pool serves [Delivery.Tx] and the scheduler's transactions. Claims, renewals and settles of the worker and of its
// scheduler have the connections of one [workqueue.Runtime], so that busy handlers cannot starve them.
func NewWorker(pool *pgxpool.Pool, t *Timers, o WorkerOptions) (*Worker, error) {
	if t == nil {
		return nil, workqueue.Invalid("timers", "are nil")
	}
	w := &Worker{timers: t, handlers: topics.New[Handler]("timers", "worker", checkTopic), clock: &clock{pool: pool}}
	domain := workqueue.Domain[columns]{Table: t.table, Fields: (*columns).fields}
	var err error
	if o.WorkerOptions, err = o.WithRuntime(pool); err != nil {
		return nil, err
	}
	if w.worker, err = workqueue.NewWorker(pool, domain, w.deliver, o.WorkerOptions); err != nil {
		return nil, err
	}
	if o.NoSchedules {
		return w, nil
	}
	if w.scheduler, err = periodic.NewScheduler(pool, t.schedules.plan, periodic.Beside(o.WorkerOptions)); err != nil {
		return nil, err
	}
	return w, nil
}

// Handle registers the handler of a topic. Like [net/http.ServeMux] it panics where the program cannot
// have meant it: on a topic that no timer can have, a nil handler, a topic that has a handler already,
// and after Run has begun.
func (w *Worker) Handle(topic string, h Handler) { w.handlers.Handle(topic, h) }

// HandleAll registers the handler of every topic that has none of its own. It panics like [Worker.Handle].
func (w *Worker) HandleAll(h Handler) { w.handlers.HandleAll(h) }

// Run fires timers until ctx is cancelled. Then it claims no more, returns timers that no handler has begun,
// waits for running handlers up to the shutdown timeout, settles them, and returns nil.
//
// A database that goes away is waited for. Run returns an error at once if the worker has no handler, or if a table
// does not fit this version of the library. A Worker runs once.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.handlers.Seal(); err != nil {
		return err
	}
	if w.scheduler == nil {
		return w.worker.Run(ctx)
	}
	return periodic.Together(ctx, w.worker.Run, w.scheduler.Run)
}

// Drain is the worker as a [workqueue.Processor], for platforms without a process that runs all the time, for
// commands, and for tests: each of its runs writes what schedules owe, fires what is due and returns. See
// [workqueue.Drain].
func (w *Worker) Drain() (*workqueue.Drain, error) {
	return w.drain((*workqueue.Worker).Drain)
}

// DrainIn is [Worker.Drain] inside a transaction, as in a test that rolls back. See [workqueue.Worker.DrainIn].
func (w *Worker) DrainIn(tx pgx.Tx) (*workqueue.Drain, error) {
	return w.drain(func(part *workqueue.Worker) (*workqueue.Drain, error) { return part.DrainIn(tx) })
}

// drain has the schedules write timers first, and then fires those that are due.
func (w *Worker) drain(one func(*workqueue.Worker) (*workqueue.Drain, error)) (*workqueue.Drain, error) {
	if err := w.handlers.Seal(); err != nil {
		return nil, err
	}
	return workqueue.DrainWorkers(w.worker.Namespace(), append(w.schedulers(), w.worker), one)
}

// schedulers is the worker of the scheduler, if there is one.
func (w *Worker) schedulers() []*workqueue.Worker {
	if w.scheduler == nil {
		return nil
	}
	return w.scheduler.Workers()
}

// Workers and Tables make a worker a part of a service, see package service.
func (w *Worker) Workers() []*workqueue.Worker {
	return append(w.worker.Workers(), w.schedulers()...)
}

// Tables are those of the timers and of their schedules.
func (w *Worker) Tables() []*workqueue.Table { return w.timers.Tables() }

// SetConcurrency changes how many handlers run at once, also while the worker runs, see [workqueue.Worker.SetConcurrency].
func (w *Worker) SetConcurrency(n int) error { return w.worker.SetConcurrency(n) }

// Wake makes a running worker look for timers and schedules now. It never blocks. Workers are woken by
// notifications; this is for those that poll because they run with NoListen.
func (w *Worker) Wake() {
	w.worker.Wake()
	if w.scheduler != nil {
		w.scheduler.Wake()
	}
}

func (w *Worker) deliver(ctx context.Context, c *workqueue.Claim[columns]) error {
	h, err := w.handlers.Find(c.Body.topic)
	if err != nil {
		return err
	}
	return h(ctx, w.timers.newDelivery(c, w.clock.now(ctx)))
}
