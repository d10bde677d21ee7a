package outbox

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
)

// A Delivery is a message in the hands of its handler. Its fields are the handler's to keep or change. A
// handler's test may make one by itself, without [Delivery.Tx].
type Delivery struct {
	ID          uuid.UUID
	Topic       string
	Key         string // empty for none
	Payload     []byte // never nil
	Headers     map[string]string
	DedupKey    string // empty for none
	Attempt     int    // 1 is the first
	MaxAttempts int
	CreatedAt   time.Time // when the message was enqueued
	DueAt       time.Time // when this attempt became due

	claim         *workqueue.Claim[Delivery]
	key, dedupKey *string
	codec         codec.Codec
	envelope      codec.Envelope
}

// A Handler delivers one message. Its result settles it: nil is delivered, [workqueue.Permanent],
// [workqueue.Snooze], [workqueue.RetryAfter] and [workqueue.Cancelled] say what else, and any other error,
// or a panic, is a failed attempt. It is called again for a message that it has handled before when the
// settle was lost, see [Delivery.Tx].
//
// The context is cancelled when the lease is lost, when the message is cancelled, when the handler's time
// is up, and late in a shutdown; [context.Cause] tells which. It carries the delivery's span.
type Handler = func(ctx context.Context, m *Delivery) error

// Tx runs fn in a transaction and settles the message in it: what fn writes commits if and only if the
// settle does, so its effect happens exactly once. The result of fn is the outcome, as with a [Handler]:
// nil is delivered, and an outcome that says so itself, such as [workqueue.Snooze] or
// [workqueue.RetryAfter], commits together with the writes. Any other error rolls the writes back and is
// returned; return it from the handler.
//
// Call it once. After it has returned nil the message is settled, whatever the handler returns. If the
// lease was lost nothing is written, and the error is [workqueue.ErrLeaseLost].
func (d *Delivery) Tx(ctx context.Context, fn func(tx pgx.Tx) error) error {
	if d.claim == nil {
		return errors.New("txwork: this Delivery comes from no relay: it has nothing to settle")
	}
	return d.claim.Tx(ctx, fn)
}

// fields receive the domain columns of a claimed row. The concurrency key is not read.
func (d *Delivery) fields() []any {
	return []any{&d.Topic, &d.key, &d.Payload, &d.dedupKey, nil}
}

// deliver passes a claimed message to its handler.
func (o *Outbox) deliver(ctx context.Context, c *workqueue.Claim[Delivery], h Handler) error {
	d := &c.Body
	d.ID, d.Key, d.DedupKey, d.Headers = c.ID, value(d.key), value(d.dedupKey), c.Headers
	d.Attempt, d.MaxAttempts, d.CreatedAt, d.DueAt = c.Attempt, c.MaxAttempts, c.CreatedAt, c.DueAt
	d.claim, d.codec, d.envelope = c, o.codec, o.envelope(c.ID, c.Headers)
	return h(ctx, d)
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
