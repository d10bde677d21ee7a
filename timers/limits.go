package timers

import (
	"time"

	"github.com/txwork/txwork/workqueue/topics"
)

// Limits of a [Timer].
const (
	// DefaultMaxPayload is the largest payload unless [Options] say otherwise. A timer should carry only what its
	// handler needs to find the rest.
	DefaultMaxPayload = 1 << 20

	// MaxKey and MaxTopic are in bytes. Keys are indexed.
	MaxKey   = 255
	MaxTopic = topics.MaxLength

	// MaxHeaders is how many bytes the names and values of a timer's headers may have together.
	MaxHeaders = 64 << 10

	// MaxDelay is the longest [Timer].Delay. A longer one is probably a mistake in the unit. It is also the longest
	// delay of the core.
	MaxDelay = 10 * 365 * 24 * time.Hour

	// MaxPage is how many timers one List returns at most, and by default.
	MaxPage = 1000

	// ReservedPrefix begins the keys of occurrences of schedules. Set refuses such keys.
	ReservedPrefix = "schedule/"
)
