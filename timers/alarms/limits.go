package alarms

import (
	"time"

	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// Limits of a [New] alarm, in bytes unless stated otherwise.
const (
	MaxOwner          = 255 // for a DID and for a user id
	MaxLabel          = 1 << 10
	MaxConversation   = 1 << 10
	MaxIdempotencyKey = 255 // it is indexed
	MaxTimezone       = 255
	MaxCronExpr       = 1000

	// DefaultMaxPayload is the limit for the payload, and a separate limit of the same size for the wake message,
	// unless [Options] say otherwise.
	DefaultMaxPayload = 256 << 10

	// MaxPayloadDepth is how deeply arrays and objects of a payload may be nested.
	MaxPayloadDepth = 100

	// MaxDelay is the longest delay. A longer one is probably a mistake in the unit.
	MaxDelay = timers.MaxDelay

	// MaxMaxFailures is the largest MaxFailures of an alarm.
	MaxMaxFailures = 1000

	// MaxLostClaims is how many deliveries of one firing may be lost because their process died, in addition to those
	// that may fail. A lost delivery may never have reached the receiver, so it does not count as a failure. The limit
	// ends an alarm whose delivery crashes every process that tries it.
	MaxLostClaims = 10

	// MaxList is how many alarms one list has at most, and DefaultList how many it has by default.
	MaxList     = 500
	DefaultList = 100
)

// DefaultMaxFailures is how often one firing is delivered before it is given up. With the delays of [Ladder] that takes
// about eight minutes, which is longer than the restart of a receiver.
const DefaultMaxFailures = 5

// Ladder is the delay between a failed delivery and the next: 30 s, doubled each time, at most 15 minutes. It has no
// jitter, so that next_fire_at is predictable.
var Ladder = workqueue.Retry{Growth: workqueue.Exponential, Base: 30 * time.Second, Cap: 15 * time.Minute}

const (
	// Topic is the topic of the alarms' timers.
	Topic = "alarm"
	// KeyPrefix begins the keys of the alarms' timers.
	KeyPrefix = "alarm/"
)
