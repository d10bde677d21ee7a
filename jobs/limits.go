package jobs

import "time"

// Limits of a job.
const (
	// MaxKind, MaxQueue and MaxKey are in bytes.
	MaxKind  = 255
	MaxQueue = 255
	MaxKey   = 255

	// DefaultMaxAttempts is how often a job is attempted unless it, its kind or [Options] say otherwise. With
	// [workqueue.DefaultRetry] that takes four hours at least, see [workqueue.Retry.Span]: longer than most outages of
	// a single service, and short enough that a batch, a workflow or a person learns of the failure on the same day.
	DefaultMaxAttempts = 30

	// DefaultMaxArgs is the largest size of encoded args in bytes, unless [Options] set another. Store larger data
	// elsewhere, and its address in the args. Outputs and the results of steps have the same limit.
	DefaultMaxArgs = 1 << 20

	// MaxHeaders is the largest size of the names and values of a job's headers together, in bytes.
	MaxHeaders = 64 << 10

	// MaxNote is the largest length of a progress note in bytes.
	MaxNote = 1024

	// MaxStep is the largest length of a step's name in bytes.
	MaxStep = 255

	// MaxDelay is the longest Delay. A longer one is most likely a mistake in the unit.
	MaxDelay = 10 * 365 * 24 * time.Hour

	// MaxPage is the largest number of jobs of one [Client.List], and its default.
	MaxPage = 1000
)

// DefaultQueue is the queue of jobs that set none.
const DefaultQueue = "default"

// A Priority is one of three levels. A worker takes the most urgent jobs of its queue first. Every eighth claim begins
// with one of the less urgent levels, in turn, so that none of them starves.
type Priority int16

// The priorities, the most urgent first.
const (
	High   Priority = 1
	Normal Priority = 2 // the default
	Low    Priority = 3
)

// priorities are all levels, the most urgent first.
var priorities = []Priority{High, Normal, Low}

func (p Priority) String() string {
	switch p {
	case High:
		return "high"
	case Normal:
		return "normal"
	case Low:
		return "low"
	}
	return "unknown"
}
