package inbox

import (
	"cmp"

	"github.com/txwork/txwork/workqueue/validate"

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

// A Worker processes the messages of one consumer that Receive has stored: it is a worker by topic, whose methods are
// those of [topics.Worker]. Any number of workers, in any number of processes, share an inbox; give all those of a
// consumer handlers for the same topics, since a message goes to whichever claims it.
type Worker struct {
	*topics.Worker[Handler]
}

// NewWorker makes a worker; register its handlers, then call Run.
//
// The pool serves the handlers' transactions, one connection each, so no more handlers run at once than it
// has connections. The worker's claims, renewals and settles have the connections of a [workqueue.Runtime], so that
// busy handlers cannot starve them.
func NewWorker(pool *pgxpool.Pool, b *Inbox, o WorkerOptions) (*Worker, error) {
	if b == nil {
		return nil, validate.Errorf("inbox", "is nil")
	}
	lease := cmp.Or(o.Lease, workqueue.DefaultLease)
	err := cmp.Or(input.Name("consumer", o.Consumer, MaxKeyPart), checkWindow(b.window, b.table.Spec(), lease))
	if err != nil {
		return nil, err
	}
	worker, err := topics.NewWorker(pool, topics.Domain[Handler, Delivery]{
		Domain: workqueue.Domain[Delivery]{Table: b.table, Fields: (*Delivery).fields, Lanes: [][]any{{o.Consumer}}},
		Name:   "inbox",
		Runner: "worker",
		Topic:  (*Delivery).topicOrSource,
		Handle: b.process,
	}, o.WorkerOptions)
	if err != nil {
		return nil, err
	}
	return &Worker{worker}, nil
}
