package outbox

import "github.com/txwork/txwork/workqueue/topics"

// Limits of a [Message].
const (
	// DefaultMaxAttempts is how often a message is attempted unless it or [Options] say otherwise. With
	// [workqueue.DefaultRetry] that takes a day at least, see [workqueue.Retry.Span]: messages go to other systems,
	// which may be down for a night until somebody comes.
	DefaultMaxAttempts = 130

	// DefaultMaxPayload is the largest payload unless [Options] say otherwise. A table is no file store: keep larger
	// content in a file store, and its address in the message.
	DefaultMaxPayload = 1 << 20

	// MaxTopic, MaxKey and MaxDedupKey are in bytes. Topics and dedup keys are indexed. Keys become partition keys and
	// subjects of brokers, whose limits are similar.
	MaxTopic    = topics.MaxLength
	MaxKey      = 255
	MaxDedupKey = 255

	// MaxHeaders is how many bytes the names and values of a message's headers may have together. Headers are for
	// routing and tracing, and brokers and HTTP servers accept about as much.
	MaxHeaders = 64 << 10
)
