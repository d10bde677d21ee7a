package outbox

import (
	"time"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
	"github.com/txwork/txwork/workqueue/keyed"
)

// Options configure an [Outbox]. The zero value is usable, and matches txwork's own migrations and CLI.
//
// MaxAttempts, Retry, Retention, FailedRetention and DeleteDone apply to everything that uses this Outbox: its Enqueue,
// its relays, and a reaper that is given its [Outbox.Table]. The table's SQL functions (txwork.outbox_abandon and so
// on) contain the values of the migration that created them, which are the defaults. If programs without these Options
// settle or reap the same table (SQL workers, the CLI), create the table with a migration of your own, so that both
// agree:
//
//	o, err := outbox.Open(options)
//	up, down, err := o.DDL()
type Options struct {
	// Schema holds the table. Default: [workqueue.DefaultSchema].
	Schema string

	// Codec encodes [Message].Value, and decodes it for [Delivery.Decode]. Default: [codec.JSON].
	Codec codec.Codec

	// MaxPayload is the largest payload in bytes, at most 256 MiB. Default: [DefaultMaxPayload].
	MaxPayload int

	// MaxAttempts is how often a message that does not set its own maximum is attempted. It is stored in the row, so it
	// applies to every relay. Default: [DefaultMaxAttempts], which last for a day. A message that never succeeds holds
	// its key for as long if the ordering is [PerKey]: have its handler return [workqueue.Permanent], or set fewer.
	MaxAttempts int

	// Retry is the backoff after a failed attempt. Default: [workqueue.DefaultRetry]. Its [workqueue.Retry.Span] says
	// for how long MaxAttempts last.
	Retry workqueue.Retry

	// Retention is how long delivered and cancelled messages are kept, with their dedup keys. Default:
	// [workqueue.DefaultRetention]. With DeleteDone, only cancelled messages are kept.
	Retention time.Duration

	// FailedRetention is how long dead letters are kept. Default 0: for ever.
	FailedRetention time.Duration

	// DeleteDone deletes a message when it is delivered. This is the fastest, but leaves no history, and a dedup key is
	// free again as soon as its message was delivered.
	DeleteDone bool

	// Ordering is the order that Enqueue guarantees. It is stored in the messages, so it applies to every relay.
	// Default: [Unordered].
	Ordering Ordering

	// OnFailure decides what happens to the messages of a key behind a dead letter. It requires [PerKey]. A cancelled
	// message does not block its key. Default: [keyed.Block], until the dead letter is redriven or deleted, or
	// [Outbox.Unblock] gives it up.
	OnFailure keyed.Policy

	// Storage is how messages are kept. [Log] refuses MaxAttempts, Retry, Retention, FailedRetention, DeleteDone and
	// OnFailure, and [MoveToLog] the first two and the last. Default: [Rows].
	Storage Storage

	// Telemetry receives spans, metrics, logs and events.
	Telemetry workqueue.Telemetry
}

func (o Options) spec() workqueue.Spec {
	spec := Spec(o.Schema)
	if o.MaxAttempts != 0 { // whoever sets the attempts sets them for crashes, too
		spec.MaxAttempts, spec.MaxLost = o.MaxAttempts, 0
	}
	spec.Retry = o.Retry
	spec.Retention = o.Retention
	spec.FailedRetention = o.FailedRetention
	spec.DeleteDone = o.DeleteDone
	return spec
}
