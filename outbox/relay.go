package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
)

// DefaultClaimLimit is the first size of a relay's claims. Messages are small and mostly passed on, so a
// relay takes more at once than workers do by default.
const DefaultClaimLimit = 100

// RelayOptions configure a [Relay]: those of a worker, with [DefaultClaimLimit]. The zero value is usable.
// The outbox has no lanes, so Lanes stays empty.
type RelayOptions struct {
	workqueue.WorkerOptions
}

// A Relay delivers messages to handlers. Any number of relays, in any number of processes, share an
// outbox; give all of them handlers for the same topics, since a message goes to whichever claims it.
type Relay struct {
	worker *workqueue.Worker
	err    error // what was wrong with NewRelay's arguments

	mu       sync.Mutex
	sealed   bool // Run has begun: the handlers are fixed, and read without the lock
	handlers map[string]Handler
	fallback Handler
}

// NewRelay makes a relay; register its handlers, then call Run. A nil Outbox is the default one, to which
// the package's [Enqueue] writes. What is wrong with the arguments is reported by Run.
//
// The pool serves [Delivery.Tx]. The relay has up to five connections of its own beside it, opened with the
// pool's configuration, so that busy handlers cannot starve it.
func NewRelay(pool *pgxpool.Pool, o *Outbox, opts RelayOptions) *Relay {
	if o == nil {
		o = defaultOutbox()
	}
	if opts.ClaimLimit == 0 {
		opts.ClaimLimit = DefaultClaimLimit
	}
	r := &Relay{handlers: map[string]Handler{}}
	domain := workqueue.Domain[columns]{Table: o.table, Fields: (*columns).fields}
	r.worker, r.err = workqueue.NewWorker(pool, domain, r.deliver, opts.WorkerOptions)
	return r
}

// Handle registers the handler of a topic. Like [net/http.ServeMux] it panics where the program cannot
// have meant it: on a topic that no message can have, a nil handler, a topic that has a handler already,
// and after Run has begun.
func (r *Relay) Handle(topic string, h Handler) {
	r.register(topic, h, func() {
		if err := checkTopic(topic); err != nil {
			panic(err)
		}
		if r.handlers[topic] != nil {
			panic(fmt.Sprintf("outbox: topic %q has a handler already", topic))
		}
		r.handlers[topic] = h
	})
}

// HandleAll registers the handler of every topic that has none of its own. It panics like [Relay.Handle].
func (r *Relay) HandleAll(h Handler) {
	r.register("every other topic", h, func() {
		if r.fallback != nil {
			panic("outbox: there is a handler for every other topic already")
		}
		r.fallback = h
	})
}

func (r *Relay) register(what string, h Handler, add func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h == nil {
		panic(fmt.Sprintf("outbox: the handler of %q is nil", what))
	}
	if r.sealed {
		panic("outbox: the relay is running: register handlers before Run")
	}
	add()
}

// Run delivers messages until ctx is cancelled. Then it claims no more, returns messages that no handler
// has begun, waits for running handlers up to the shutdown timeout, settles them, and returns nil.
//
// A database that goes away is waited for. Run returns an error at once if the relay has no handler, if
// its options are wrong, or if the table does not fit this version of the library. A Relay runs once.
func (r *Relay) Run(ctx context.Context) error {
	if err := r.seal(); err != nil {
		return err
	}
	return r.worker.Run(ctx)
}

// Wake makes a running relay look for messages now. It never blocks. Relays are woken by notifications;
// this is for those that poll because they run with NoListen.
func (r *Relay) Wake() {
	if r.err == nil {
		r.worker.Wake()
	}
}

// seal fixes the handlers.
func (r *Relay) seal() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	if len(r.handlers) == 0 && r.fallback == nil {
		return errors.New("txwork: the relay has no handler: call Handle or HandleAll before Run")
	}
	r.sealed = true
	return nil
}

// deliver passes a claimed message to its handler. A topic without one is a failed attempt and not a
// failure for good: a relay that knows the topic may be on its way, as in a rolling deploy.
func (r *Relay) deliver(ctx context.Context, c *workqueue.Claim[columns]) error {
	m := newDelivery(c)
	h := r.handlers[m.Topic]
	if h == nil {
		h = r.fallback
	}
	if h == nil {
		return fmt.Errorf("no handler is registered for topic %q", m.Topic)
	}
	return h(ctx, m)
}
