package outbox

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue/validate"

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

// A Relay delivers messages to handlers: it is a worker by topic, whose methods are those of [topics.Worker]. Any
// number of relays, in any number of processes, share an outbox; give all of them handlers for the same topics, since a
// message goes to whichever claims it.
type Relay struct {
	*topics.Worker[Handler]
}

// NewRelay makes a relay; register its handlers, then call Run.
//
// The pool serves [Delivery.Tx]. The relay's claims, renewals and settles have the connections of a
// [workqueue.Runtime], so that busy handlers cannot starve them.
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
