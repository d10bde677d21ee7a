package jobs

import "time"

// Limits of a job.
const (
	// MaxKind, MaxQueue and MaxKey are in bytes.
	MaxKind  = 255
	MaxQueue = 255
	MaxKey   = 255

	// DefaultMaxArgs is the largest args in bytes, encoded, unless [Options] say otherwise. A table is no file
	// store: what is larger belongs into one, and its address into the args. Outputs and the results of steps
	// have the same limit.
	DefaultMaxArgs = 1 << 20

	// MaxHeaders is how many bytes the names and values of a job's headers may have together.
	MaxHeaders = 64 << 10

	// MaxNote is how long a progress note may be, in bytes.
	MaxNote = 1024

	// MaxStep is how long the name of a step may be, in bytes.
	MaxStep = 255

	// MaxDelay is how far ahead a job may be delayed. More is a mistake of units.
	MaxDelay = 10 * 365 * 24 * time.Hour

	// MaxPage bounds the jobs of one [Client.List], and is its default.
	MaxPage = 1000
)

// DefaultQueue is the queue of jobs that name none.
const DefaultQueue = "default"

// A Priority is one of three levels. A worker takes the most urgent jobs of its queue first; every eighth
// claim begins with one of the less urgent levels, each in its turn, so that none starves.
type Priority int16

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
