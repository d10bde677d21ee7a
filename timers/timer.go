package timers

import (
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
)

// A Timer is what an application sets. Key and Topic have to be set.
type Timer struct {
	// Key is the application's own name for the timer: 1 to [MaxKey] bytes. A timer that is set under a key
	// that is there replaces what was set before.
	Key string

	// Topic says which handler receives the timer: 1 to [MaxTopic] bytes, compared byte for byte.
	Topic string

	// ScheduledAt is the nominal time, by the database's clock. A past time means now, and stays the nominal time.
	ScheduledAt time.Time

	// Delay counts from the call, in the place of ScheduledAt, by the database's clock: 0 to [MaxDelay]. A timer
	// with neither fires now.
	Delay time.Duration

	// Payload is opaque. Nil is an empty payload. It is at most [Options].MaxPayload bytes long.
	Payload []byte

	// Value is encoded by [Options].Codec in the place of Payload, which stays nil then. Nil is none.
	Value any

	// Headers travel with the timer: names and values of at most [MaxHeaders] bytes together. The trace
	// context of the setting code is added under traceparent and tracestate, unless you set them.
	Headers map[string]string

	// MaxAttempts bounds how often a firing is tried. Zero is [Options].MaxAttempts.
	MaxAttempts int
}

// payload is never nil, which would be NULL.
func (t Timer) payload() []byte {
	if t.Payload == nil {
		return []byte{}
	}
	return t.Payload
}

func (t Timer) size() int { return len(t.Payload) + input.HeaderSize(t.Headers) }

// An Info is a timer as the table has it. Times are the database's.
type Info struct {
	ID          uuid.UUID // the same for as long as the row is there, however often the timer is set
	Key         string
	Topic       string
	Payload     []byte
	Headers     map[string]string
	ScheduledAt time.Time // nominal
	DueAt       time.Time // when it is, or was, due: ScheduledAt, moved by retries
	Generation  int       // how often it was set
	Schedule    string    // of which it is an occurrence; empty for none
	Status      workqueue.Status
	Attempts    int
	MaxAttempts int
	LastError   string
	CreatedAt   time.Time
	CompletedAt *time.Time
	CancelledAt *time.Time
	// RearmAt is when the timer fires next if it was set again while it is firing. Topic, Payload, Headers and
	// ScheduledAt are still those of the firing.
	RearmAt *time.Time
}
