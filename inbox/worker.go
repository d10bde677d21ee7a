package inbox

import (
	"cmp"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/topics"
	"github.com/txwork/txwork/workqueue/validate"
)

// WorkerOptions configure a [Worker]. They are those of a [workqueue.Worker], and the consumer.
type WorkerOptions struct {
	// Consumer is the consumer whose messages the worker processes. It is required.
	Consumer string

	workqueue.WorkerOptions
}

// A Worker passes the messages of one consumer that Receive has stored to the handlers of their topics.
//
// Its methods are those of [topics.Worker], which `go doc workqueue/topics.Worker` shows:
//
//   - Handle registers the handler of a topic, HandleAll the handler of all other topics. Wrap adds middleware to them.
//     Messages of topics with a HandleBatch are processed together.
//   - Run processes messages until its context is cancelled. Wake makes it look for messages now, SetConcurrency
//     changes how many handlers run at once.
//   - Drain returns a [workqueue.Drain], which processes what is due and returns. DrainIn does so in a
//     transaction, for tests.
//   - Check, Workers, Tables and PoolConnections make it a part of a service, see package service.
//
// Any number of workers, in any number of processes, can share an inbox. Any worker of the consumer may claim a
// message, so register handlers for the same topics in all of them.
type Worker struct {
	*topics.Worker[Handler]
	box *Inbox
}

// NewWorker creates a worker. Register its handlers, then call Run.
//
// The pool serves the handlers' transactions, one connection each, so no more handlers run at once than it has
// connections. Claims, renewals and settles use the connections of a [workqueue.Runtime], so busy handlers cannot
// starve them.
func NewWorker(pool *pgxpool.Pool, b *Inbox, o WorkerOptions) (*Worker, error) {
	if b == nil {
		return nil, validate.Errorf("inbox", "is nil")
	}
	lease := cmp.Or(o.Lease, workqueue.DefaultLease)
	err := cmp.Or(input.Name("consumer", o.Consumer, MaxKeyPart), b.covers(lease))
	if err != nil {
		return nil, err
	}
	worker, err := topics.NewWorker(pool, topics.Domain[Handler, Delivery]{
		Domain: workqueue.Domain[Delivery]{Table: b.table, Columns: (*Delivery).columns, Lanes: [][]any{{o.Consumer}}},
		Name:   "inbox",
		Runner: "worker",
		Topic:  (*Delivery).topicOrSource,
		Handle: b.process,
	}, o.WorkerOptions)
	if err != nil {
		return nil, err
	}
	return &Worker{worker, b}, nil
}

// PoolConnections returns how many of the pool's connections the handlers need to run at once: one each, for their
// transaction. A service warns if the pool has fewer.
func (w *Worker) PoolConnections() (n int) {
	for _, one := range w.Workers() {
		n += one.Options().Concurrency
	}
	return n
}

// HandleBatch registers the handler of a topic whose messages are processed together, in one transaction. It panics
// like Handle, and if the options are refused. Wrap does not wrap the handler.
func (w *Worker) HandleBatch(topic string, o workqueue.BatchOptions, h BatchHandler) {
	topics.HandleBatch(w.Worker, topic, o, (*Delivery).size, w.box.processBatch(h))
}

// HandleAllBatch registers the handler of all topics without one of their own, whose messages are processed together,
// those of several topics in one batch. It panics like [Worker.HandleBatch].
func (w *Worker) HandleAllBatch(o workqueue.BatchOptions, h BatchHandler) {
	topics.HandleAllBatch(w.Worker, o, (*Delivery).size, w.box.processBatch(h))
}

func (d *Delivery) size() int { return len(d.Payload) }
