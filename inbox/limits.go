package inbox

import (
	"crypto/sha256"
	"time"
)

// Limits of a [Key] and of a [Message].
const (
	// MaxKeyPart is how many bytes Consumer, Source and MessageID may have, each. The three are one index
	// entry, and no broker's names and no web hook's ids are longer.
	MaxKeyPart = 255

	// MaxTopic is in bytes, as in the outbox that a message may come from.
	MaxTopic = 255

	// DefaultMaxPayload is the largest payload unless [Options] say otherwise. A table is no file store:
	// what is larger belongs into one, and its address into the message.
	DefaultMaxPayload = 1 << 20

	// MaxHeaders is how many bytes the names and values of a message's headers may have together. They
	// are for routing and tracing, and brokers and HTTP servers send about as much.
	MaxHeaders = 64 << 10

	// DefaultRetention is how long the payload of a processed message is kept: a day is enough to look
	// into what just went wrong, and the tombstones of a long window stay small.
	DefaultRetention = 24 * time.Hour
)

// maxWindow is the longest time that the core keeps a row.
const maxWindow = 10 * 365 * 24 * time.Hour

const hashSize = sha256.Size
