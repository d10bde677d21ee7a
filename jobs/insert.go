package jobs

import (
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/gate"
)

// InsertOptions are what one job has of its own. The zero value of every field means what the job's kind
// says, and where that says nothing, the default.
type InsertOptions struct {
	// ID defaults to a new UUID version 7. Set it to know the id before the job is written.
	ID uuid.UUID

	// Queue is where the job waits: 1 to [MaxQueue] bytes. Queues need not be made before.
	Queue string

	// Priority within the queue.
	Priority Priority

	// ScheduledAt is when the job may first run, by the database's clock. The zero time and past times mean now.
	ScheduledAt time.Time

	// Delay is ScheduledAt counted from now, by the database's clock; at most [MaxDelay].
	Delay time.Duration

	// MaxAttempts bounds how often the job is started.
	MaxAttempts int

	// Retry is the job's backoff. It is stored with the job.
	Retry workqueue.Retry

	// Unique keeps the job from being enqueued while another one holds its key.
	Unique *Unique

	// Gate holds the job back until its key has room: one at a time in commit order, at most so many at
	// once, at most so many a second; see package gate. [Ungated] is none although the kind has one.
	Gate *gate.Gate

	// Headers travel with the job: names and values of at most [MaxHeaders] bytes together. The trace
	// context of the enqueueing code is added under traceparent and tracestate, unless you set them.
	Headers map[string]string
}

// An Insert is a job to enqueue. Only Args has to be set.
type Insert struct {
	Args Args
	InsertOptions

	waiting, joined bool   // for workflows
	schedule        string // that the job is an occurrence of
	occurrence      string // the occurrence's key
}

// prepared is a job that has been validated.
type prepared struct {
	index  int // in the call
	row    workqueue.NewRow
	kind   string
	args   Args
	delay  time.Duration
	unique *Unique
	gate   *gate.Gate
	record record
}

// size is about how much of a statement the job takes.
func (p prepared) size() int { return len(p.record.args) + input.HeaderSize(p.row.Headers) }
