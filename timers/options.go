package timers

import (
	"time"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
)

// Options configure [Timers]. The zero value is usable and is what txwork's own migrations and CLI assume.
//
// MaxAttempts, Retry, Retention and FailedRetention hold for what goes through these Timers: Set, the
// workers, and a reaper that is given their [Timers.Table]. The table's SQL functions carry the defaults.
type Options struct {
	// Schema holds the tables. Default: [workqueue.DefaultSchema].
	Schema string

	// Codec encodes [Timer].Value and [Schedule].Value, and decodes for [Delivery.Decode]. Default: [codec.JSON].
	Codec codec.Codec

	// MaxPayload is the largest payload in bytes, at most 256 MiB. Default: [DefaultMaxPayload].
	MaxPayload int

	// MaxAttempts bounds the attempts of a timer that does not say. Default: [workqueue.DefaultMaxAttempts].
	MaxAttempts int

	// Retry is the backoff after a failed attempt. Default: [workqueue.DefaultRetry].
	Retry workqueue.Retry

	// Retention is how long timers are kept that have fired or were cancelled. Default: [workqueue.DefaultRetention]. There is
	// no deleting at once: a timer that is set again while it fires goes on in the same row.
	Retention time.Duration

	// FailedRetention is how long timers are kept that failed for good. Default 0: for ever.
	FailedRetention time.Duration

	// Lead is how long before their nominal time the occurrences of schedules become timers, see
	// [periodic.Options]. Default 0: at the nominal time.
	Lead time.Duration

	// Telemetry says where spans, metrics, logs and events go.
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

func (o Options) maxPayload() (int, error) {
	return input.PayloadLimit("max payload", o.MaxPayload, DefaultMaxPayload)
}
