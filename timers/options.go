package timers

import (
	"time"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
)

// Options configure [Timers]. The zero value is usable, and matches txwork's own migrations and CLI.
//
// MaxAttempts, Retry, Retention and FailedRetention apply to everything that uses these Timers: Set, the workers, and a
// reaper that is given their [Timers.Table]. The table's SQL functions contain the defaults.
type Options struct {
	// Schema holds the tables. Default: [workqueue.DefaultSchema].
	Schema string

	// Codec encodes [Timer].Value and [Schedule].Value, and decodes them for [Delivery.Decode]. Default: [codec.JSON].
	Codec codec.Codec

	// MaxPayload is the largest payload in bytes, at most 256 MiB. Default: [DefaultMaxPayload].
	MaxPayload int

	// MaxAttempts is how often a timer that does not set its own maximum is attempted. Default:
	// [workqueue.DefaultMaxAttempts], which last for an hour: what fires much later than that seldom has a use.
	MaxAttempts int

	// Retry is the backoff after a failed attempt. Default: [workqueue.DefaultRetry]. Its [workqueue.Retry.Span] says
	// for how long MaxAttempts last.
	Retry workqueue.Retry

	// Retention is how long timers are kept that have fired or were cancelled. Default: [workqueue.DefaultRetention].
	// They cannot be deleted at once, because a timer that is set again while it fires continues in the same row.
	Retention time.Duration

	// FailedRetention is how long dead letters are kept. Default 0: for ever.
	FailedRetention time.Duration

	// Lead is how long before their nominal time the occurrences of schedules are written as timers, see
	// [periodic.Options]. Default 0: at the nominal time.
	Lead time.Duration

	// Telemetry receives spans, metrics, logs and events.
	Telemetry workqueue.Telemetry
}

func (o Options) spec() workqueue.Spec {
	spec := Spec(o.Schema)
	spec.MaxAttempts = o.MaxAttempts
	spec.Retry = o.Retry
	spec.Retention = o.Retention
	spec.FailedRetention = o.FailedRetention
	return spec
}
