package outbox

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/outbox/internal/log"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
)

// A Delivery is a message that is passed to its handler. The handler may keep and change its fields. The test of a
// handler can construct one, but [Delivery.Tx] then returns an error.
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

	parked   *log.Parked // nil: it is a row of the outbox, or has not been parked
	noTx     bool        // it is a message of a log
	claim    *workqueue.Claim[Delivery]
	codec    codec.Codec
	envelope codec.Envelope
}

// A Handler delivers one message, and its result settles the message: nil means delivered. [workqueue.Permanent],
// [workqueue.Snooze], [workqueue.RetryAfter] and [workqueue.Cancelled] express other outcomes. Any other error, or a
// panic, is a failed attempt. If the settle is lost, the handler is called again for a message that it has already
// handled, see [Delivery.Tx].
//
// The context is cancelled when the lease is lost, when the message is cancelled, when the handler's timeout expires,
// and when the ShutdownTimeout expires after Run was told to stop. [context.Cause] tells which. The context carries the
// delivery's span.
type Handler = func(ctx context.Context, m *Delivery) error

// A BatchHandler delivers several messages in one call. Each result settles the message with the same index as that of
// a [Handler] does. No results, and no error, mean that all of them are delivered.
//
// An error is about the call and not about one of its messages, as are a panic and a timeout. The batch is halved: the
// handler is called with each half, until each message was in a call that succeeded, or has failed alone, which is a
// failed attempt. So a message that cannot be delivered costs others no attempt, but the handler gets messages again
// that it may have delivered, within the same attempt. An outcome that uses up no attempt, such as [workqueue.Snooze],
// holds for all. See [workqueue.BatchHandler] also for what happens while every call fails, and for the context.
//
// The handler may keep the messages and change their fields, but not the bytes of payloads or the headers.
type BatchHandler = func(ctx context.Context, batch []*Delivery) ([]error, error)

// Tx runs fn in a transaction and settles the message in it: what fn writes commits if and only if the settle does, so
// its effect happens exactly once. The result of fn is the outcome, as with a [Handler]: nil means delivered, and an
// explicit outcome, such as [workqueue.Snooze] or [workqueue.RetryAfter], commits together with the writes. Any other
// error rolls the writes back and is returned; return it from the handler.
//
// Call it once. After it has returned nil the message is settled, whatever the handler returns. If the
// lease was lost nothing is written, and the error is [workqueue.ErrLeaseLost].
//
// A message of a [Log] is not settled by itself: there, Tx returns an error.
func (d *Delivery) Tx(ctx context.Context, fn func(tx pgx.Tx) error) error {
	if d.noTx {
		return onLogDo("tx of a delivery", "Have the handler ignore a message that it has handled, by its ID")
	}
	if d.claim == nil {
		return errors.New("txwork: this Delivery was not claimed by a relay, so there is nothing to settle")
	}
	return d.claim.Tx(ctx, fn)
}

// deliver passes a claimed message to its handler.
func (o *Outbox) deliver(ctx context.Context, c *workqueue.Claim[Delivery], h Handler) error {
	d := &c.Body
	d.ID, d.Headers = c.ID, c.Headers
	d.Attempt, d.MaxAttempts, d.CreatedAt, d.DueAt = c.Attempt, c.MaxAttempts, c.CreatedAt, c.DueAt
	if d.noTx = o.log != nil; d.parked != nil {
		d.unpark()
	}
	d.claim, d.codec, d.envelope = c, o.codec, codec.NewEnvelope(o.messages.Name(), d.ID, c.Headers)
	return h(ctx, d)
}
