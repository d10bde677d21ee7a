package inbox

import (
	"crypto/sha256"
	"time"

	"github.com/txwork/txwork/workqueue/topics"
)

// Limits of a [Key] and of a [Message].
const (
	// MaxKeyPart is how many bytes Consumer, Source and MessageID may have, each. The three are one index
	// entry, and no broker's names and no web hook's ids are longer.
	MaxKeyPart = 255

	// MaxTopic is in bytes, as in the outbox that a message may come from.
	MaxTopic = topics.MaxLength

	// DefaultMaxPayload is the largest payload unless [Options] say otherwise. A table is no file store:
	// what is larger belongs into one, and its address into the message.
	DefaultMaxPayload = 1 << 20

	// IdleTimeout is how long a transaction that has taken a key may be idle between two statements before the server
	// ends it, where the session has no idle_in_transaction_session_timeout of its own: a process that freezes in
	// [Inbox.Process], or after [Inbox.Begin], gives the key up then. A handler that has to wait for longer says so
	// itself, by SET LOCAL in its transaction.
	IdleTimeout = time.Minute

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
