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

// A Delivery is a firing timer in the hands of its handler. Its fields are the handler's to keep or change. A
// handler's test may make one by itself, without [Delivery.Tx].
type Delivery struct {
	ID          uuid.UUID // with Generation, the idempotency key of a firing: the same on every attempt of it
	Key         string
	Topic       string
	ScheduledAt time.Time // nominal: retries never change it
	Payload     []byte    // never nil
	Headers     map[string]string
	Schedule    string // of which it is an occurrence; empty for none
	Generation  int    // how often the timer had been set when this attempt began; after 2147483647 it is 1 again
	Attempt     int    // 1 is the first
	MaxAttempts int
	CreatedAt   time.Time     // when the timer was first set
	DueAt       time.Time     // when this attempt became due
	Late        time.Duration // how long after ScheduledAt this attempt begins, by the database's clock

	claim    *workqueue.Claim[Delivery]
	schedule *string
	codec    codec.Codec
	envelope codec.Envelope
}

// A Handler handles one firing. Its result settles it: nil means that the timer has fired,
// [workqueue.Permanent], [workqueue.Snooze], [workqueue.RetryAfter] and [workqueue.Cancelled] say what else,
// and any other error, or a panic, is a failed attempt. It is called again for a firing that it has handled
// before when the settle was lost, see [Delivery.Tx].
//
// The context is cancelled when the lease is lost, when the timer is cancelled, when the handler's time is
// up, and late in a shutdown; [context.Cause] tells which. It carries the firing's span.
type Handler = func(ctx context.Context, d *Delivery) error

// Tx runs fn in a transaction and settles the firing in it: what fn writes commits if and only if the settle
// does, so its effect happens exactly once. The result of fn is the outcome, as with a [Handler]; any error
// that is no outcome rolls the writes back and is returned; return it from the handler.
//
// Call it once. After it has returned nil the firing is settled, whatever the handler returns. If the lease
// was lost nothing is written, and the error is [workqueue.ErrLeaseLost].
func (d *Delivery) Tx(ctx context.Context, fn func(tx pgx.Tx) error) error {
	if d.claim == nil {
		return errors.New("txwork: this Delivery comes from no worker: it has nothing to settle")
	}
	return d.claim.Tx(ctx, fn)
}

// fields receive the domain columns of a claimed row.
func (d *Delivery) fields() []any {
	return []any{&d.Key, &d.Topic, &d.Payload, &d.ScheduledAt, &d.Generation, &d.schedule}
}

// delivering passes a claimed timer to its handler, with how late it is by the clock.
func (t *Timers) delivering(clock *clock) func(context.Context, *workqueue.Claim[Delivery], Handler) error {
	return func(ctx context.Context, c *workqueue.Claim[Delivery], h Handler) error {
		d := &c.Body
		d.ID, d.Schedule, d.Headers = c.ID, value(d.schedule), c.Headers
		d.Attempt, d.MaxAttempts, d.CreatedAt, d.DueAt = c.Attempt, c.MaxAttempts, c.CreatedAt, c.DueAt
		d.Late = max(clock.now(ctx).Sub(d.ScheduledAt), 0)
		d.claim, d.codec, d.envelope = c, t.codec, t.envelope(d.Key, d.Schedule, c.Headers)
		return h(ctx, d)
	}
}
