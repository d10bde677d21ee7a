package outbox

import (
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
)

// A Message is what an application writes into the outbox. Only Topic has to be set.
type Message struct {
	// ID defaults to a new UUID version 7. Set it to know the id before the message is written.
	ID uuid.UUID

	// Topic says which handler receives the message: 1 to [MaxTopic] bytes, compared byte for byte.
	Topic string

	// Key is what the message is about, such as an account number: at most [MaxKey] bytes, or empty for
	// none. It travels with the message, and orders it where [Options].Ordering is [PerKey].
	Key string

	// Payload is the message's body, opaque to the outbox. Nil is an empty payload. It is at most
	// [Options].MaxPayload bytes long.
	Payload []byte

	// Value is encoded by [Options].Codec in the place of Payload, which stays nil then. Nil is none.
	Value any

	// Headers travel with the message: names and values of at most [MaxHeaders] bytes together. The trace
	// context of the enqueueing code is added under traceparent and tracestate, unless you set them.
	Headers map[string]string

	// ScheduledAt is when the message may first be delivered, by the database's clock. The zero time and
	// every past time mean now.
	ScheduledAt time.Time

	// MaxAttempts bounds how often delivery is tried. Zero is [Options].MaxAttempts.
	MaxAttempts int

	// Retry is the message's own backoff, after a failed attempt and after a crash alike. Zero: that of
	// [Options].
	Retry workqueue.Retry

	// DedupKey makes the message the only one of its topic with this key, for as long as its row is kept
	// (see "Deduplication" in the package documentation): at most [MaxDedupKey] bytes, or empty for none.
	DedupKey string
}

// size is what the message adds to a statement, in bytes.
func (m Message) size() int { return len(m.Payload) + input.HeaderSize(m.Headers) }
