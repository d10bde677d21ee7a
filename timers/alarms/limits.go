package alarms

import (
	"time"

	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// Limits of a [New] alarm, in bytes where nothing else is said.
const (
	MaxOwner          = 255 // of a DID, and of a user id
	MaxLabel          = 1 << 10
	MaxConversation   = 1 << 10
	MaxIdempotencyKey = 255 // it is indexed
	MaxTimezone       = 255
	MaxCronExpr       = 1000

	// DefaultMaxPayload bounds the payload, and by itself the wake message, unless [Options] say otherwise.
	DefaultMaxPayload = 256 << 10

	// MaxPayloadDepth bounds how deep arrays and objects of a payload may nest.
	MaxPayloadDepth = 100

	// MaxDelay bounds a delay: what is longer is a mistake in the unit.
	MaxDelay = timers.MaxDelay

	// MaxMaxFailures bounds how often one firing may be delivered.
	MaxMaxFailures = 1000

	// MaxLostClaims is how many deliveries of one firing may be lost with their process, beside those that may fail.
	// A lost delivery may never have reached the receiver, so it does not use up a delivery that may fail; the bound
	// ends an alarm whose delivery kills every process that tries it.
	MaxLostClaims = 10

	// MaxList bounds the alarms of one list; DefaultList is how many it has where nobody says.
	MaxList     = 500
	DefaultList = 100
)

// DefaultMaxFailures is how often one firing is delivered before it is given up: with the ladder of [Ladder],
// about eight minutes, which is longer than the restart of a receiver takes.
const DefaultMaxFailures = 5

// Ladder is the time between a failed delivery and the next: 30 s, doubled each time, at most 15 minutes. It
// has no jitter, so that next_fire_at can be foretold.
var Ladder = workqueue.Retry{Growth: workqueue.Exponential, Base: 30 * time.Second, Cap: 15 * time.Minute}

const (
	// Topic is that of the alarms' timers.
	Topic = "alarm"
	// KeyPrefix begins the keys of the alarms' timers.
	KeyPrefix = "alarm/"
)
