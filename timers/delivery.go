package timers

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
)

// A Delivery is a firing timer that is passed to its handler. The handler may keep and change its fields. The test of a
// handler can construct one, but [Delivery.Tx] then returns an error.
type Delivery struct {
	ID          uuid.UUID // with Generation, the idempotency key of a firing: the same on every attempt of it
	Key         string
	Topic       string
	ScheduledAt time.Time // nominal: retries never change it
	Payload     []byte    // never nil
	Headers     map[string]string
	Schedule    string // the schedule of which it is an occurrence; empty for none
	Generation  int    // how often the timer had been set when this attempt began; after 2147483647 it is 1 again
	Attempt     int    // 1 is the first
	MaxAttempts int
	CreatedAt   time.Time     // when the timer was first set
	DueAt       time.Time     // when this attempt became due
	Late        time.Duration // how long after ScheduledAt this attempt begins, by the database's clock

	claim    *workqueue.Claim[Delivery]
	codec    codec.Codec
	envelope codec.Envelope
}

// A Handler handles one firing, and its result settles the firing: nil means that the timer has fired.
// [workqueue.Permanent], [workqueue.Snooze], [workqueue.RetryAfter] and [workqueue.Cancelled] express other outcomes.
// Any other error, or a panic, is a failed attempt. If the settle is lost, the handler is called again for a firing
// that it has already handled, see [Delivery.Tx].
//
// The context is cancelled when the lease is lost, when the timer is cancelled, when the handler's timeout expires, and
// when the ShutdownTimeout expires after Run was told to stop. [context.Cause] tells which. The context carries the
// firing's span.
type Handler = func(ctx context.Context, d *Delivery) error

// A BatchHandler handles several firings in one call. Each result settles the firing with the same index as that of a
// [Handler] does. No results, and no error, mean that all of them are handled.
//
// An error is about the call and not about one of its firings, as are a panic and a timeout. Then the batch is
// halved: the handler is called with each half, until each firing was in a call that succeeded, or has failed alone,
// which is a failed attempt. So a firing that cannot be handled costs others no attempt, but the handler gets
// firings again that it may have handled, within the same attempt. An outcome that uses up no attempt, such as
// [workqueue.Snooze], holds for all. See [workqueue.BatchHandler] also for what happens while every call fails, and for
// the context.
//
// The handler may keep the firings and change their fields, but not the bytes of payloads or the headers.
type BatchHandler = func(ctx context.Context, batch []*Delivery) ([]error, error)

// Tx runs fn in a transaction and settles the firing in it: what fn writes commits if and only if the settle does, so
// its effect happens exactly once. The result of fn is the outcome, as with a [Handler]. An explicit outcome, such as
// [workqueue.Snooze], commits together with the writes. Any other error rolls the writes back and is returned; return
// it from the handler.
//
// Call it once. After it has returned nil the firing is settled, whatever the handler returns. If the lease
// was lost nothing is written, and the error is [workqueue.ErrLeaseLost].
func (d *Delivery) Tx(ctx context.Context, fn func(tx pgx.Tx) error) error {
	if d.claim == nil {
		return errors.New("txwork: this Delivery was not claimed by a worker, so there is nothing to settle")
	}
	return d.claim.Tx(ctx, fn)
}

// delivering returns the function that passes a claimed timer to its handler. The clock tells how late the timer is.
func (t *Timers) delivering(clock *clock) func(context.Context, *workqueue.Claim[Delivery], Handler) error {
	return func(ctx context.Context, c *workqueue.Claim[Delivery], h Handler) error {
		d := &c.Body
		d.ID, d.Headers = c.ID, c.Headers
		d.Attempt, d.MaxAttempts, d.CreatedAt, d.DueAt = c.Attempt, c.MaxAttempts, c.CreatedAt, c.DueAt
		d.Late = max(clock.now(ctx).Sub(d.ScheduledAt), 0)
		d.claim, d.codec, d.envelope = c, t.codec, t.envelope(d.Key, d.Schedule, c.Headers)
		return h(ctx, d)
	}
}
