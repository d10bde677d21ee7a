package outbox

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/header"
	"github.com/txwork/txwork/internal/outage"
	"github.com/txwork/txwork/outbox/internal/log"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/topics"
	"github.com/txwork/txwork/workqueue/validate"
)

// Defaults of the [RelayOptions] of a log.
const (
	// DefaultPage is how many messages of a lane a relay has in hand at first. While full pages take less than half a
	// second, they grow to 10,000 messages. Those of more than two seconds shrink again. A crash repeats a page at
	// most, of which what has ended is settled every 0.2 seconds. A relay that has a ClaimLimit does not exceed it.
	DefaultPage = 500
	// DefaultHandlerTimeout is how long a handler may take: a lane waits for each of its messages.
	DefaultHandlerTimeout = time.Minute
)

// A logRelay is what the relay of a log has beside the worker that runs its parked messages.
type logRelay struct {
	*log.Relay
	messages *workqueue.Table // for telemetry
}

func newLogRelay(pool *pgxpool.Pool, o *Outbox, opts RelayOptions) (*Relay, error) {
	switch {
	case opts.Subscription == "":
		return nil, validate.Errorf("subscription", "is empty: Name the subscription of the log whose messages the "+
			"relay delivers")
	case opts.TopicConcurrency != 0:
		return nil, onLog("topic concurrency")
	case opts.TxLimits != workqueue.TxLimits{}:
		return nil, onLog("tx limits")
	}
	mostPage := cmp.Or(opts.ClaimLimit, log.MaxPage)
	opts.ClaimLimit = cmp.Or(opts.ClaimLimit, DefaultPage)
	opts.HandlerTimeout = cmp.Or(opts.HandlerTimeout, DefaultHandlerTimeout)
	relay := &logRelay{messages: o.delivered}
	worker, err := topics.NewWorker(pool, topics.Domain[Handler, Delivery]{
		Domain: workqueue.Domain[Delivery]{Table: o.table, Columns: (*Delivery).parkedColumns,
			Lanes: [][]any{{opts.Subscription}}, Leaves: relay.leave},
		Name:   "outbox",
		Runner: "relay",
		Topic:  (*Delivery).topic,
		Handle: o.deliver,
	}, opts.WorkerOptions)
	if err != nil {
		return nil, err
	}
	with := worker.Workers()[0].Options()
	schema := o.table.Spec().Schema
	relay.Relay = log.NewRelay(log.RelayOptions{
		Schema: schema, Subscription: opts.Subscription, Page: with.ClaimLimit, MostPage: mostPage,
		Concurrency: with.Concurrency, Lease: with.Lease, Poll: with.PollInterval, Cooldown: with.ClaimCooldown,
		HandlerTimeout: with.HandlerTimeout, ShutdownTimeout: with.ShutdownTimeout, Backoff: o.table.Spec().Retry,
	})
	return &Relay{worker, o, relay}, nil
}

// parkedColumns are those of a parked message.
func (d *Delivery) parkedColumns(c *workqueue.Columns) {
	d.parked = new(log.Parked)
	d.parked.List(c)
}

func (d *Delivery) topic() string {
	if d.parked != nil {
		return d.parked.Topic
	}
	return d.Topic
}

// unpark makes a delivery of a parked message.
func (d *Delivery) unpark() {
	p := d.parked
	d.ID, d.Topic, d.Key, d.Payload, d.CreatedAt = p.MessageID, p.Topic, p.Key, p.Payload, p.AppendedAt
}

// leave settles a message for which a handler returned [workqueue.Permanent] before it was parked; a redrive removes
// the header. While the destination is unavailable, it puts parked messages back: those of the log probe it.
func (l *logRelay) leave(_ context.Context, c *workqueue.Claim[Delivery]) error {
	if reason, dead := c.Headers[header.Permanent]; dead {
		return workqueue.Permanent(errors.New(reason))
	}
	if c.Body.parked != nil && l.IsAway() {
		return workqueue.LeaveFor(outage.LongestRest, errAway)
	}
	return nil
}

var errAway = errors.New("the destination is unavailable, and its subscription rests")

// handlersOf are the handlers of a relay for the messages of its log.
type handlersOf struct {
	*workqueue.External[Delivery]
	subscription string
}

// Take implements [log.Handlers].
func (h handlersOf) Take(place int, m *log.Read) *workqueue.ExternalRow {
	return h.External.Take(place, rowOf(m), Delivery{Topic: m.Topic, Key: m.Key, Payload: m.Payload}, h.labels(m))
}

// Fetch implements [log.Handlers].
func (h handlersOf) Fetch(ctx context.Context, limit int, fetch func(context.Context) ([]log.Read, error)) error {
	return h.External.Fetch(ctx, limit, func(ctx context.Context) (workqueue.ExternalRows, error) {
		messages, err := fetch(ctx)
		return workqueue.ExternalRows{Len: len(messages), Row: func(i int) workqueue.ExternalSettled {
			return h.told(&messages[i], workqueue.ExternalEnd{})
		}}, err
	})
}

// Settle implements [log.Handlers].
func (h handlersOf) Settle(ctx context.Context, passed []log.Passed,
	settle func(context.Context) (held bool, err error)) error {
	return h.External.Settle(ctx, workqueue.ExternalRows{Len: len(passed), Row: func(i int) workqueue.ExternalSettled {
		return h.told(passed[i].Read, passed[i].End)
	}}, settle)
}

// told is a message as telemetry is told of it.
func (h handlersOf) told(m *log.Read, end workqueue.ExternalEnd) workqueue.ExternalSettled {
	return workqueue.ExternalSettled{Row: rowOf(m), Labels: h.labels(m), ExternalEnd: end}
}

func rowOf(m *log.Read) workqueue.Row {
	return workqueue.Row{ID: m.ID, DueAt: m.CreatedAt, CreatedAt: m.CreatedAt, Attempt: 1,
		MaxAttempts: log.MaxAttempts, Headers: m.Headers}
}

func (h handlersOf) labels(m *log.Read) [2]string { return [2]string{h.subscription, m.Topic} }

// Run delivers messages until ctx is cancelled, see [topics.Worker]. The relay of a log then hands out no more
// messages, except those before others that it has handed out. While its subscription does not exist, because it was
// not made yet or was removed, the relay waits for it: its log and [workqueue.Worker.Ready] say so.
func (r *Relay) Run(ctx context.Context) error {
	if r.log == nil {
		return r.Worker.Run(ctx)
	}
	if err := r.Seal(); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	parked := make(chan error, 1)
	go func() {
		defer stop()
		parked <- r.Worker.Run(ctx)
	}()
	err := r.log.run(ctx, r.Workers()[0])
	stop()
	return errors.Join(<-parked, err)
}

func (l *logRelay) run(ctx context.Context, w *workqueue.Worker) error {
	x := workqueue.NewExternal[Delivery](ctx, w, l.messages)
	end, err := x.Open(ctx)
	if err != nil {
		return err
	}
	defer end()
	if ctx.Err() != nil { // its table was refused
		return nil
	}
	return l.Relay.Run(ctx, handlersOf{x, l.Subscription})
}

// Wake makes a running relay look for messages now. It never blocks.
func (r *Relay) Wake() {
	r.Worker.Wake()
	if r.log != nil {
		r.log.Wake()
	}
}

// SetConcurrency changes how many handlers run at once, see [workqueue.Worker.SetConcurrency].
func (r *Relay) SetConcurrency(n int) error {
	err := r.Worker.SetConcurrency(n)
	if err == nil && r.log != nil {
		r.log.Resize(n)
	}
	return err
}

// Drain is the relay as a [workqueue.Drain], see [topics.Worker]. A log refuses it.
func (r *Relay) Drain() (*workqueue.Drain, error) {
	if err := r.box.refuses("drain of a relay", "Call Run"); err != nil {
		return nil, err
	}
	return r.Worker.Drain()
}

// DrainIn is [Relay.Drain] inside a transaction. A log refuses it.
func (r *Relay) DrainIn(tx pgx.Tx) (*workqueue.Drain, error) {
	if err := r.box.refuses("drain of a relay in a transaction", "Call Run"); err != nil {
		return nil, err
	}
	return r.Worker.DrainIn(tx)
}
