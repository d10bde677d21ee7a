package outbox

import (
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// A Message is what an application writes into the outbox. Only Topic is required.
type Message struct {
	// ID is a new UUID version 7 by default. Set it if you need the id before the message is written.
	ID uuid.UUID

	// Topic selects the handler: 1 to [MaxTopic] bytes, compared byte for byte.
	Topic string

	// Key names what the message is about, such as an account number: at most [MaxKey] bytes, or empty for none. It is
	// delivered with the message. If [Options].Ordering is [PerKey], it also orders messages: a message without a key
	// is then not ordered, and Enqueue accepts it without an error.
	Key string

	// Payload is the message's body, which the outbox does not interpret: at most [Options].MaxPayload bytes. Nil is an
	// empty payload.
	Payload []byte

	// Value is encoded by [Options].Codec and stored as the payload. Leave Payload nil if you set it.
	Value any

	// Headers are delivered with the message: names and values of at most [MaxHeaders] bytes together. The trace
	// context of the enqueueing code is added under traceparent and tracestate, unless you set them in whatever case.
	Headers map[string]string

	// ScheduledAt is the earliest time of the first delivery, by the database's clock. The zero time and times in the
	// past mean now.
	ScheduledAt time.Time

	// MaxAttempts is how often delivery is attempted at most. Zero: [Options].MaxAttempts.
	MaxAttempts int

	// Retry is the message's own backoff, after a failed attempt and after a crash alike. Zero: that of [Options].
	Retry workqueue.Retry

	// DedupKey makes the message unique within its topic, for as long as its row is kept (see "Deduplication" in the
	// package documentation): at most [MaxDedupKey] bytes, or empty for none.
	DedupKey string

	part part
}

// A part is how a message takes part in a join.
type part uint8

const (
	alone        part = iota
	step              // the join waits for its settle
	continuation      // it waits for the end of the join
)
