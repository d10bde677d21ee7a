package outbox

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue/validate"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/topics"
)

// DefaultClaimLimit is how many messages the first claim of a relay asks for at most. Messages are small and most
// handlers only pass them on, so a relay claims more at once than other workers do by default.
const DefaultClaimLimit = 100

// RelayOptions configure a [Relay]. They are those of a worker, except that ClaimLimit defaults to [DefaultClaimLimit].
// The zero value is usable.
type RelayOptions struct {
	workqueue.WorkerOptions
}

// A Relay delivers messages to the handlers of their topics. Its methods are those of [topics.Worker]. Any number of
// relays, in any number of processes, can share an outbox. Any of them may claim a message, so register handlers for
// the same topics in all of them.
type Relay struct {
	*topics.Worker[Handler]
}

// NewRelay creates a relay. Register its handlers, then call Run.
//
// The pool serves [Delivery.Tx]. Claims, renewals and settles use the connections of a [workqueue.Runtime], so busy
// handlers cannot starve them.
func NewRelay(pool *pgxpool.Pool, o *Outbox, opts RelayOptions) (*Relay, error) {
	if o == nil {
		return nil, validate.Errorf("outbox", "is nil")
	}
	if opts.ClaimLimit == 0 {
		opts.ClaimLimit = DefaultClaimLimit
	}
	worker, err := topics.NewWorker(pool, topics.Domain[Handler, Delivery]{
		Domain: workqueue.Domain[Delivery]{Table: o.table, Fields: (*Delivery).fields},
		Name:   "outbox",
		Runner: "relay",
		Topic:  func(d *Delivery) string { return d.Topic },
		Handle: o.deliver,
	}, opts.WorkerOptions)
	if err != nil {
		return nil, err
	}
	return &Relay{worker}, nil
}
