package outbox

import (
	"cmp"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/topics"
	"github.com/txwork/txwork/workqueue/validate"
)

// DefaultClaimLimit is how many messages the first claim of a relay asks for at most. Messages are small and most
// handlers only pass them on, so a relay claims more at once than other workers do by default.
const DefaultClaimLimit = 100

// RelayOptions configure a [Relay]. They are those of a worker, except that ClaimLimit defaults to [DefaultClaimLimit].
// The zero value is usable for rows.
//
// On a log, Subscription is required, and some of the others mean something else:
//
//   - ClaimLimit is how many messages of a lane the relay has in hand at most, a page. By default, pages begin with
//     [DefaultPage] and adapt.
//   - HandlerTimeout defaults to [DefaultHandlerTimeout]: a handler that hangs would hold up its lane. If it has not
//     returned a quarter of that later, and at least a second, its message is parked.
//   - Concurrency counts handlers of pages. As many more may run for parked messages.
//   - ClaimCooldown is the least time between two looks for new messages, 10 ms by default.
//   - TopicConcurrency and TxLimits are refused.
type RelayOptions struct {
	workqueue.WorkerOptions

	// Subscription is that of a [Log] whose messages the relay delivers. Any number of relays share it, and each has up
	// to all of its lanes. It has to be empty for [Rows], and may be for [MoveToLog], whose rows are then delivered.
	Subscription string
}

// A Relay delivers messages to the handlers of their topics.
//
// Its methods are those of [topics.Worker], which `go doc workqueue/topics.Worker` shows:
//
//   - Handle registers the handler of a topic, HandleAll the handler of all other topics. Wrap adds middleware to them.
//     Messages of topics with a HandleBatch are delivered together.
//   - Run delivers messages until its context is cancelled. Wake makes it look for messages now, SetConcurrency changes
//     how many handlers run at once.
//   - Drain returns a [workqueue.Drain], which processes what is due and returns. DrainIn does so in a
//     transaction, for tests.
//   - Check, Workers and Tables make it a part of a service, see package service.
//
// Any number of relays, in any number of processes, can share an outbox. Any of them may claim a message, so register
// handlers for the same topics in all of them.
//
// The relay of a [Log] delivers the messages of a subscription, page by page. Messages of a page are handled at once,
// those of a key one after the other. One that fails is parked, together with what is behind it in its key, and the
// relay runs parked messages as rows: they are retried, and become dead letters, as those of [Rows].
type Relay struct {
	*topics.Worker[Handler]
	box *Outbox
	log *logRelay // nil: messages are rows
}

// NewRelay creates a relay. Register its handlers, then call Run. The relay of a log needs the Subscription.
//
// The pool serves [Delivery.Tx], which a log does not have. Claims, renewals and settles use the connections of a
// [workqueue.Runtime], so busy handlers cannot starve them.
func NewRelay(pool *pgxpool.Pool, o *Outbox, opts RelayOptions) (*Relay, error) {
	if o == nil {
		return nil, validate.Errorf("outbox", "is nil")
	}
	if o.rows != nil && opts.Subscription == "" {
		o = o.rows
	}
	if o.log != nil {
		return newLogRelay(pool, o, opts)
	}
	if opts.Subscription != "" {
		return nil, validate.Errorf("subscription", "is %q, but only a log has subscriptions: Leave it out, or use "+
			"Storage Log", opts.Subscription)
	}
	opts.ClaimLimit = cmp.Or(opts.ClaimLimit, DefaultClaimLimit)
	worker, err := topics.NewWorker(pool, topics.Domain[Handler, Delivery]{
		Domain: workqueue.Domain[Delivery]{Table: o.table, Columns: (*Delivery).columns},
		Name:   "outbox",
		Runner: "relay",
		Topic:  func(d *Delivery) string { return d.Topic },
		Handle: o.deliver,
	}, opts.WorkerOptions)
	if err != nil {
		return nil, err
	}
	return &Relay{worker, o, nil}, nil
}

// HandleBatch registers the handler of a topic whose messages are delivered together. It panics like Handle, and if the
// options are refused.
//
// With an order by key a batch has the messages of a key in their order. If one of them is not acknowledged, those of
// its key behind it are delivered again, whatever their results say, see [workqueue.BatchHandler]. Wrap does not wrap
// the handler. On a log a batch is made of a page, and does not wait for more: Linger says nothing there.
func (r *Relay) HandleBatch(topic string, o workqueue.BatchOptions, h BatchHandler) {
	topics.HandleBatch(r.Worker, topic, o, (*Delivery).size, topics.Together(r.box.deliver, h))
}

// HandleAllBatch registers the handler of all topics without one of their own, whose messages are delivered together,
// those of several topics in one batch. It panics like [Relay.HandleBatch].
func (r *Relay) HandleAllBatch(o workqueue.BatchOptions, h BatchHandler) {
	topics.HandleAllBatch(r.Worker, o, (*Delivery).size, topics.Together(r.box.deliver, h))
}

func (d *Delivery) size() int { return len(d.Payload) }
