package jobs

import (
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// An Insert is a job to enqueue. Only Args is required. The other fields are the job's own settings, which override
// those of its kind, which override the defaults. The zero value of a field leaves it to the kind.
type Insert struct {
	// Args are what the handler gets. Their type says of which kind the job is.
	Args Args

	// ID is a new UUID version 7 by default. Set it if you need the id before the job is written.
	ID uuid.UUID

	// Queue is the queue in which the job waits: 1 to [MaxQueue] bytes. A queue needs no setup.
	Queue string

	// Priority within the queue.
	Priority Priority

	// ScheduledAt is the earliest time at which the job runs, by the database's clock. The zero time and times in the
	// past mean now.
	ScheduledAt time.Time

	// Delay sets ScheduledAt relative to now, by the database's clock: at most [MaxDelay].
	Delay time.Duration

	// MaxAttempts is the maximum number of times that the job is started.
	MaxAttempts int

	// Retry is the job's backoff. It is stored with the job.
	Retry workqueue.Retry

	// Unique prevents the job from being enqueued while another job holds its key. It replaces the kind's, except that
	// the kind's UniqueKey still applies if Key is empty.
	Unique *Unique

	// ByKey makes the job wait for other jobs of its key: [keyed.Ordered] runs them one at a time in commit order,
	// [keyed.Limited] bounds how many run at the same time or start in a second. [keyed.None] turns the kind's rule
	// off.
	ByKey keyed.Rule

	// Headers are delivered with the job: names and values of at most [MaxHeaders] bytes together. The trace context of
	// the enqueueing code is added under traceparent and tracestate, unless you set them in whatever case.
	Headers map[string]string

	waiting, joined bool   // for workflows
	schedule        string // the schedule of which the job is an occurrence
	once            bool   // the id is that of an occurrence, which is written once
}
