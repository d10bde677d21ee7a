package outbox

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/topics"
)

// DefaultClaimLimit is the first size of a relay's claims. Messages are small and mostly passed on, so a
// relay takes more at once than workers do by default.
const DefaultClaimLimit = 100

// RelayOptions configure a [Relay]: those of a worker, with [DefaultClaimLimit]. The zero value is usable.
type RelayOptions struct {
	workqueue.WorkerOptions
}

// A Relay delivers messages to handlers. Any number of relays, in any number of processes, share an
// outbox; give all of them handlers for the same topics, since a message goes to whichever claims it.
type Relay struct {
	box      *Outbox
	worker   *workqueue.Worker
	handlers *topics.Registry[Handler]
}

// NewRelay makes a relay; register its handlers, then call Run.
//
// The pool serves [Delivery.Tx]. The relay's claims, renewals and settles have the connections of a
// [workqueue.Runtime], so that busy handlers cannot starve them.
func NewRelay(pool *pgxpool.Pool, o *Outbox, opts RelayOptions) (*Relay, error) {
	if o == nil {
		return nil, workqueue.Invalid("outbox", "is nil")
	}
	if opts.ClaimLimit == 0 {
		opts.ClaimLimit = DefaultClaimLimit
	}
	r := &Relay{box: o, handlers: topics.New[Handler]("outbox", "relay", checkTopic)}
	domain := workqueue.Domain[columns]{Table: o.table, Fields: (*columns).fields}
	var err error
	if r.worker, err = workqueue.NewWorker(pool, domain, r.deliver, opts.WorkerOptions); err != nil {
		return nil, err
	}
	return r, nil
}

// Handle registers the handler of a topic. Like [net/http.ServeMux] it panics where the program cannot
// have meant it: on a topic that no message can have, a nil handler, a topic that has a handler already,
// and after Run has begun.
func (r *Relay) Handle(topic string, h Handler) { r.handlers.Handle(topic, h) }

// HandleAll registers the handler of every topic that has none of its own. It panics like [Relay.Handle].
func (r *Relay) HandleAll(h Handler) { r.handlers.HandleAll(h) }

// Run delivers messages until ctx is cancelled. Then it claims no more, returns messages that no handler
// has begun, waits for running handlers up to the shutdown timeout, settles them, and returns nil.
//
// A database that goes away is waited for. Run returns an error at once if the relay has no handler, or if the table
// does not fit this version of the library. A Relay runs once.
func (r *Relay) Run(ctx context.Context) error {
	if err := r.handlers.Seal(); err != nil {
		return err
	}
	return r.worker.Run(ctx)
}

// Workers and Tables make a relay a part of a service, see package service.
func (r *Relay) Workers() []*workqueue.Worker { return r.worker.Workers() }

// Tables are those of the outbox.
func (r *Relay) Tables() []*workqueue.Table { return r.box.Tables() }

// SetConcurrency changes how many handlers run at once, also while the relay runs, see [workqueue.Worker.SetConcurrency].
func (r *Relay) SetConcurrency(n int) error { return r.worker.SetConcurrency(n) }

// Wake makes a running relay look for messages now. It never blocks. Relays are woken by notifications;
// this is for those that poll because they run with NoListen.
func (r *Relay) Wake() { r.worker.Wake() }

// Drain is the relay as a [workqueue.Processor], for platforms without a process that runs all the time, for
// commands, and for tests: each of its runs delivers what is due and returns. See [workqueue.Drain].
func (r *Relay) Drain() (*workqueue.Drain, error) {
	if err := r.handlers.Seal(); err != nil {
		return nil, err
	}
	return r.worker.Drain()
}

// DrainIn is [Relay.Drain] inside a transaction, as in a test that rolls back. See [workqueue.Worker.DrainIn].
func (r *Relay) DrainIn(tx pgx.Tx) (*workqueue.Drain, error) {
	if err := r.handlers.Seal(); err != nil {
		return nil, err
	}
	return r.worker.DrainIn(tx)
}

// deliver passes a claimed message to its handler.
func (r *Relay) deliver(ctx context.Context, c *workqueue.Claim[columns]) error {
	m := r.box.newDelivery(c)
	h, err := r.handlers.Find(m.Topic)
	if err != nil {
		return err
	}
	return h(ctx, m)
}
