package inbox

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/topics"
)

// WorkerOptions configure a [Worker]: those of a [workqueue.Worker], and the consumer.
type WorkerOptions struct {
	// Consumer is whose messages the worker processes. It has to be set.
	Consumer string

	workqueue.WorkerOptions
}

// A Worker processes the messages of one consumer that Receive has stored. Any number of workers, in any
// number of processes, share an inbox; give all those of a consumer handlers for the same topics, since a
// message goes to whichever claims it.
type Worker struct {
	box      *Inbox
	worker   *workqueue.Worker
	handlers *topics.Registry[Handler]
}

// NewWorker makes a worker; register its handlers, then call Run.
//
// The pool serves the handlers' transactions, one connection each, so no more handlers run at once than it
// has connections. The worker's claims, renewals and settles have the connections of a [workqueue.Runtime], so that busy
// handlers cannot starve them.
func NewWorker(pool *pgxpool.Pool, b *Inbox, o WorkerOptions) (*Worker, error) {
	if b == nil {
		return nil, workqueue.Invalid("inbox", "is nil")
	}
	lease := cmp.Or(o.Lease, workqueue.DefaultLease)
	err := cmp.Or(input.Name("consumer", o.Consumer, MaxKeyPart), checkWindow(b.window, b.table.Spec(), lease))
	if err != nil {
		return nil, err
	}
	w := &Worker{box: b, handlers: topics.New[Handler]("inbox", "worker", checkTopic)}
	domain := workqueue.Domain[columns]{Table: b.table, Fields: (*columns).fields, Lanes: [][]any{{o.Consumer}}}
	if w.worker, err = workqueue.NewWorker(pool, domain, w.process, o.WorkerOptions); err != nil {
		return nil, err
	}
	return w, nil
}

// Handle registers the handler of a topic. Like [net/http.ServeMux] it panics where the program cannot
// have meant it: on a topic that no message can have, a nil handler, a topic that has a handler already,
// and after Run has begun.
func (w *Worker) Handle(topic string, h Handler) { w.handlers.Handle(topic, h) }

// HandleAll registers the handler of every topic that has none of its own. It panics like [Worker.Handle].
func (w *Worker) HandleAll(h Handler) { w.handlers.HandleAll(h) }

// Run processes messages until ctx is cancelled. Then it claims no more, returns messages that no handler
// has begun, waits for running handlers up to the shutdown timeout, settles them, and returns nil.
//
// A database that goes away is waited for. Run returns an error at once if the worker has no handler, or if the table
// does not fit this version of the library. A Worker runs once.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.handlers.Seal(); err != nil {
		return err
	}
	return w.worker.Run(ctx)
}

// Drain is the worker as a [workqueue.Processor], for platforms without a process that runs all the time, for
// commands, and for tests: each of its runs processes what is due and returns. See [workqueue.Drain].
func (w *Worker) Drain() (*workqueue.Drain, error) {
	if err := w.handlers.Seal(); err != nil {
		return nil, err
	}
	return w.worker.Drain()
}

// DrainIn is [Worker.Drain] inside a transaction, as in a test that rolls back: the handlers' transactions are
// savepoints of it. See [workqueue.Worker.DrainIn].
func (w *Worker) DrainIn(tx pgx.Tx) (*workqueue.Drain, error) {
	if err := w.handlers.Seal(); err != nil {
		return nil, err
	}
	return w.worker.DrainIn(tx)
}

// Workers and Tables make a worker a part of a service, see package service.
func (w *Worker) Workers() []*workqueue.Worker { return w.worker.Workers() }

// Tables are those of the inbox.
func (w *Worker) Tables() []*workqueue.Table { return w.box.Tables() }

// SetConcurrency changes how many handlers run at once, also while the worker runs, see [workqueue.Worker.SetConcurrency].
func (w *Worker) SetConcurrency(n int) error { return w.worker.SetConcurrency(n) }

// Wake makes a running worker look for messages now. It never blocks. Workers are woken by notifications;
// this is for those that poll because they run with NoListen.
func (w *Worker) Wake() { w.worker.Wake() }

// process passes a claimed message to the handler of its topic, in the transaction that settles it.
func (w *Worker) process(ctx context.Context, c *workqueue.Claim[columns]) error {
	m := w.box.newDelivery(c)
	h, err := w.handlers.Find(m.Topic)
	if err != nil {
		return err
	}
	return c.Tx(ctx, func(tx pgx.Tx) error { return h(ctx, tx, m) })
}
