package inbox

import (
	"crypto/sha256"
	"time"

	"github.com/txwork/txwork/workqueue/topics"
)

// Limits of a [Key] and of a [Message].
const (
	// MaxKeyPart is how many bytes Consumer, Source and MessageID may have, each. The three form one index entry. Names
	// in brokers and ids of webhooks are not longer.
	MaxKeyPart = 255

	// MaxTopic is in bytes, as in the outbox that a message may come from.
	MaxTopic = topics.MaxLength

	// DefaultMaxAttempts is how often a message is attempted unless it or [Options] say otherwise, if the dedup window
	// covers so many. With [workqueue.DefaultRetry] that takes a day at least, see [workqueue.Retry.Span]: a message
	// has left its sender, who will not send it again, and what its handler calls may be down for a night.
	DefaultMaxAttempts = 130

	// MinAttempts is how many attempts the dedup window has to cover if [Options] name no number. It covers more if it
	// is longer: then as many are made, up to [DefaultMaxAttempts].
	MinAttempts = 10

	// DefaultMaxPayload is the largest payload unless [Options] say otherwise. A table is no file store: keep larger
	// content in a file store, and its address in the message.
	DefaultMaxPayload = 1 << 20

	// IdleTimeout is how long a transaction that has taken a key may be idle between two statements before the server
	// ends it, unless the session has set idle_in_transaction_session_timeout itself. It frees the key of a process
	// that freezes in [Inbox.Process], or after [Inbox.Begin]. A handler that has to wait longer changes the timeout by
	// SET LOCAL in its transaction.
	IdleTimeout = time.Minute

	// MaxHeaders is how many bytes the names and values of a message's headers may have together. Headers are for
	// routing and tracing, and brokers and HTTP servers send about as much.
	MaxHeaders = 64 << 10

	// DefaultRetention is how long the payload of a processed message is kept. A day is enough to investigate a recent
	// problem. After that, only a small tombstone remains for the rest of the dedup window.
	DefaultRetention = 24 * time.Hour
)

// maxWindow is the longest retention that the core accepts.
const maxWindow = 10 * 365 * 24 * time.Hour

const hashSize = sha256.Size
