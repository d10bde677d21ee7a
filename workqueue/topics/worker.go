package topics

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
)

// A Domain is what a [Worker] has to know of the rows of a domain, whose handlers are of type H, a function type.
type Domain[H, T any] struct {
	workqueue.Domain[T]

	// Name and Runner are words for messages, such as outbox and relay.
	Name, Runner string

	// Topic returns the topic of a claimed row.
	Topic func(*T) string

	// Handle calls the handler that was registered for the topic of a row. What it returns settles the row, see
	// [workqueue.Handler].
	Handle func(ctx context.Context, c *workqueue.Claim[T], h H) error

	// Tables are all those that a service maintains for the domain. Default: Table.
	Tables []*workqueue.Table

	// Before are workers that run beside this one, and in a [workqueue.Drain] before it, such as a scheduler's.
	Before []*workqueue.Worker
}

// A Worker hands the rows of a domain to handlers of type H, by topic. Any number of workers, in any number of
// processes, share a table; give all of them handlers for the same topics, since a row goes to whichever claims it. A
// row whose topic has no handler here is a failed attempt.
//
// Register handlers first, then call Run. A Worker is a part of a service, see package service.
type Worker[H any] struct {
	handlers *Registry[H]
	worker   *workqueue.Worker
	all      workqueue.Workers
	tables   []*workqueue.Table
	batches  func() error // lets the worker know of the batches that were registered
}

// NewWorker makes a worker; register its handlers, then call Run.
func NewWorker[H, T any](pool *pgxpool.Pool, d Domain[H, T], o workqueue.WorkerOptions) (*Worker[H], error) {
	handlers := newRegistry[H](d.Name, d.Runner)
	worker, err := workqueue.NewWorker(pool, d.Domain, func(ctx context.Context, c *workqueue.Claim[T]) error {
		h, err := handlers.Find(d.Topic(&c.Body))
		if err != nil {
			return err
		}
		return d.Handle(ctx, c, h)
	}, o)
	if err != nil {
		return nil, err
	}
	handlers.serves = d.Table.Name()
	if len(d.Lanes) > 0 {
		handlers.serves += fmt.Sprintf(" %v", d.Lanes[0])
	}
	w := &Worker[H]{handlers: handlers, worker: worker, tables: d.Tables,
		batches: sync.OnceValue(func() error { return useBatches(worker, handlers, d.Topic) })}
	w.all = append(append(w.all, d.Before...), worker)
	if len(w.tables) == 0 {
		w.tables = worker.Tables()
	}
	return w, nil
}

// Handle registers the handler of a topic. Like [net/http.ServeMux] it panics on what cannot be meant: a topic that
// [Check] refuses, a nil handler, a topic that has a handler already, and after Run has begun.
func (w *Worker[H]) Handle(topic string, h H) { w.handlers.Handle(topic, h) }

// HandleAll registers the handler of every topic that has none of its own. It panics like [Worker.Handle].
func (w *Worker[H]) HandleAll(h H) { w.handlers.HandleAll(h) }

// Wrap replaces every handler, those that are registered already and those that follow, by what wrap returns for it. It
// is for middleware, such as a log of failures, and for tests that inject faults into an application's own worker. With
// several calls the last one is outermost. It panics if wrap returns nil, and after Run has begun. Handlers of batches
// are not wrapped.
func (w *Worker[H]) Wrap(wrap func(H) H) { w.handlers.wrap(wrap) }

// Check reports why the worker cannot run: it has no handler. A service asks before it starts.
func (w *Worker[H]) Check() error { return w.handlers.check() }

// Seal fixes the handlers, as Run does. It is for domains.
func (w *Worker[H]) Seal() error {
	if err := w.handlers.seal(); err != nil {
		return err
	}
	return w.batches()
}

// Run works until ctx is cancelled. Then it claims no more, returns rows that no handler has begun, waits for running
// handlers up to the shutdown timeout, settles them, and returns nil.
//
// A database that goes away is waited for. Run returns an error at once if the worker has no handler, or if a table
// does not fit this version of the library. A Worker runs once.
func (w *Worker[H]) Run(ctx context.Context) error {
	if err := w.Seal(); err != nil {
		return err
	}
	return w.all.Run(ctx)
}

// Drain is the worker as a [workqueue.Drain], for platforms without a process that runs all the time, for
// commands, and for tests: each of its runs handles what is due and returns.
func (w *Worker[H]) Drain() (*workqueue.Drain, error) {
	if err := w.Seal(); err != nil {
		return nil, err
	}
	return w.all.Drain()
}

// DrainIn is [Worker.Drain] inside a transaction, as in a test that rolls back: the handlers' transactions are
// savepoints of it. See [workqueue.Worker.DrainIn].
func (w *Worker[H]) DrainIn(tx pgx.Tx) (*workqueue.Drain, error) {
	if err := w.Seal(); err != nil {
		return nil, err
	}
	return w.all.DrainIn(tx)
}

// Wake makes a running worker look for rows now. It never blocks. Workers are woken by notifications; this is for those
// that poll because they run with NoListen.
func (w *Worker[H]) Wake() { w.all.Wake() }

// SetConcurrency changes how many handlers run at once, also while the worker runs, see
// [workqueue.Worker.SetConcurrency].
func (w *Worker[H]) SetConcurrency(n int) error { return w.worker.SetConcurrency(n) }

// Workers are the workers of which this one consists. They and Tables make it a part of a service, see package service.
func (w *Worker[H]) Workers() []*workqueue.Worker { return slices.Clone(w.all) }

// Tables are the tables that a service maintains for the worker.
func (w *Worker[H]) Tables() []*workqueue.Table { return w.tables }
