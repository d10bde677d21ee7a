package outbox

import (
	"time"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
	"github.com/txwork/txwork/workqueue/gate"
)

// Options configure an [Outbox]. The zero value is usable and is what txwork's own migrations and CLI
// assume.
//
// MaxAttempts, Retry, Retention, FailedRetention and DeleteDone hold for what goes through this Outbox:
// its Enqueue, its relays, and a reaper that is given its [Outbox.Table]. The table itself and its SQL
// functions (txwork.outbox_abandon and so on) carry the values of the migration that made them, which are
// the defaults. Where programs that do not know these Options settle or reap the same table (SQL workers,
// the CLI), make the table with a migration of your own so that both agree:
//
//	o, err := outbox.Open(options)
//	up, down, err := o.DDL()
type Options struct {
	// Schema holds the table. Default: [workqueue.DefaultSchema].
	Schema string

	// Codec encodes [Message].Value, and decodes for [Delivery.Decode]. Default: [codec.JSON].
	Codec codec.Codec

	// MaxPayload is the largest payload in bytes, at most 256 MiB. Default: [DefaultMaxPayload].
	MaxPayload int

	// MaxAttempts bounds the attempts of a message that does not say. It is written into the row, so every
	// relay keeps to it. Default: [workqueue.DefaultMaxAttempts].
	MaxAttempts int

	// Retry is the backoff after a failed attempt. Default: [workqueue.DefaultRetry].
	Retry workqueue.Retry

	// Retention is how long delivered and cancelled messages are kept, and with them their dedup keys. Default:
	// [workqueue.DefaultRetention]. With DeleteDone there are only the latter.
	Retention time.Duration

	// FailedRetention is how long dead letters are kept. Default 0: for ever.
	FailedRetention time.Duration

	// DeleteDone deletes a message when it is delivered: the fastest, at the price of the audit trail. A
	// dedup key is then free again as soon as its message was delivered.
	DeleteDone bool

	// Ordering is what Enqueue promises. It is written into the messages, so every relay keeps to it. Default:
	// [Unordered].
	Ordering Ordering

	// OnFailure says what happens to the messages of a key behind a dead letter. It needs [PerKey]. A cancelled message
	// holds up nobody. Default: [gate.Block], until somebody redrives or deletes the dead letter, or calls
	// [Outbox.Unblock].
	OnFailure gate.Policy

	// Telemetry says where spans, metrics, logs and events go.
	Telemetry workqueue.Telemetry
}

func (o Options) spec() workqueue.Spec {
	spec := Spec(o.Schema)
	spec.MaxAttempts = o.MaxAttempts
	spec.Retry = o.Retry
	spec.Retention = o.Retention
	spec.FailedRetention = o.FailedRetention
	spec.DeleteDone = o.DeleteDone
	return spec
}

func (o Options) maxPayload() (int, error) {
	return input.PayloadLimit("max payload", o.MaxPayload, DefaultMaxPayload)
}
