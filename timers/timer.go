package timers

import (
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
)

// A Timer is set by an application. Key and Topic are required.
type Timer struct {
	// Key is the application's name for the timer: 1 to [MaxKey] bytes. Setting a key again replaces its timer.
	Key string

	// Topic selects the handler: 1 to [MaxTopic] bytes, compared byte for byte.
	Topic string

	// ScheduledAt is the nominal time, by the database's clock. A time in the past means now, and stays the nominal
	// time.
	ScheduledAt time.Time

	// Delay replaces ScheduledAt. It is relative to the time of the call, by the database's clock: 0 to [MaxDelay]. A
	// timer with neither fires now.
	Delay time.Duration

	// Payload is not interpreted: at most [Options].MaxPayload bytes. Nil is an empty payload.
	Payload []byte

	// Value is encoded by [Options].Codec and stored as the payload. Leave Payload nil if you set it.
	Value any

	// Headers are delivered with the timer: names and values of at most [MaxHeaders] bytes together. The trace context
	// of the code that sets it is added under traceparent and tracestate, unless you set them in whatever case.
	Headers map[string]string

	// MaxAttempts is how often a firing is attempted at most. Zero: [Options].MaxAttempts.
	MaxAttempts int
}

// payload returns the payload, and never nil, which would be stored as NULL.
func (t Timer) payload() []byte {
	if t.Payload == nil {
		return []byte{}
	}
	return t.Payload
}

func (t Timer) size() int { return len(t.Payload) + input.HeaderSize(t.Headers) }

// An Info is a timer as it is stored. Times are by the database's clock.
type Info struct {
	ID          uuid.UUID // the same for as long as the row exists, however often the timer is set
	Key         string
	Topic       string
	Payload     []byte
	Headers     map[string]string
	ScheduledAt time.Time // nominal
	DueAt       time.Time // when it is, or was, due: ScheduledAt, or later after retries
	Generation  int       // how often it was set
	Schedule    string    // the schedule of which it is an occurrence; empty for none
	Status      workqueue.Status
	Attempts    int
	MaxAttempts int
	LastError   string
	CreatedAt   time.Time
	CompletedAt *time.Time
	CancelledAt *time.Time
	// RearmAt is when the timer fires next if it was set again while it is firing. Topic, Payload, Headers and
	// ScheduledAt are still those of the current firing.
	RearmAt *time.Time
}
