package inbox

import (
	"cmp"
	"math"
	"time"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
	"github.com/txwork/txwork/workqueue/validate"
)

// Options configure an [Inbox]. Only DedupWindow is required.
//
// MaxAttempts, Retry, DedupWindow and FailedRetention apply to everything that uses this Inbox: its Receive, its
// workers, and a reaper that is given its [Inbox.Table]. The table's SQL functions contain the values of the migration
// that created them, which are the defaults. If programs without these Options settle or reap the same table, create
// the table with a migration of your own, from [Inbox.DDL].
type Options struct {
	// Schema holds the table. Default: [workqueue.DefaultSchema].
	Schema string

	// DedupWindow is how long after a message was processed another one with its key is a duplicate. Set it to the
	// longest time after which one of your sources may still deliver a message again, with a margin: a broker's
	// retention or replay, or the end of a webhook's retries (often days). There is no default, because only you know
	// your sources. Each message occupies about 600 bytes for that time. The window must be at least the [RetryHorizon]
	// of the table, and at most ten years.
	DedupWindow time.Duration

	// Retention is how long the payload and the headers of a processed message are kept; after that the row
	// is a tombstone. At most DedupWindow. Default: [DefaultRetention], or DedupWindow if that is shorter.
	//
	// If it is at most DefaultRetention, workers and the reaper remove payloads with the table's SQL function, which
	// uses the retention of the migration that created it. If it is longer, they remove none. Call [Inbox.Purge] from
	// time to time to apply a value other than the default. With a longer one, also create the table from [Inbox.DDL]
	// if any worker or reaper knows the table by [Spec] only, because it would remove payloads too early.
	Retention time.Duration

	// FailedRetention is how long dead letters are kept, and with them their keys: at least DedupWindow.
	// Default 0: for ever.
	FailedRetention time.Duration

	// Codec encodes [Message].Value, and decodes it for [Delivery.Decode]. Default: [codec.JSON].
	Codec codec.Codec

	// MaxPayload is the largest payload in bytes, at most 256 MiB. Default: [DefaultMaxPayload].
	MaxPayload int

	// MaxAttempts is how often a message that does not set its own maximum is attempted. It is stored in the row, so it
	// applies to every worker. Default: as many as the window covers if workers have the default lease, but no more
	// than [DefaultMaxAttempts], which last for a day. The window must cover [MinAttempts] of them.
	MaxAttempts int

	// Retry is the backoff after a failed attempt. Default: [workqueue.DefaultRetry]. Its [workqueue.Retry.Span] says
	// for how long MaxAttempts last.
	Retry workqueue.Retry

	// Telemetry receives spans, metrics, logs and events.
	Telemetry workqueue.Telemetry
}

// RetryHorizon returns how long a message may be retried at most, if its workers fail: one lease for each attempt, as
// if it had never been renewed, and the longest backoff after each attempt but the last. The dedup window has to cover
// it, because a message that is still being attempted is not yet processed. The result is [math.MaxInt64] if it does
// not fit a Duration.
func RetryHorizon(retry workqueue.Retry, maxAttempts int, lease time.Duration) time.Duration {
	_, pauses := retry.Span(maxAttempts)
	attempts := time.Duration(max(maxAttempts, 1))
	if lease > (math.MaxInt64-pauses)/attempts {
		return math.MaxInt64
	}
	return pauses + attempts*lease
}

// attempts returns the MaxAttempts, or its default.
func (o Options) attempts() int {
	if o.MaxAttempts != 0 {
		return o.MaxAttempts
	}
	retry, n := cmp.Or(o.Retry, workqueue.DefaultRetry), MinAttempts
	for n < DefaultMaxAttempts && RetryHorizon(retry, n+1, workqueue.DefaultLease) <= o.DedupWindow {
		n++
	}
	return n
}

// withDefaults sets the defaults of the inbox's own options. The core sets those of the others.
func (o Options) withDefaults() Options {
	if o.Retention == 0 {
		o.Retention = min(DefaultRetention, o.DedupWindow)
	}
	if o.Codec == nil {
		o.Codec = codec.JSON{}
	}
	return o
}

// validate checks the inbox's own options. The core has set its defaults in the Spec.
func (o Options) validate(spec workqueue.Spec) error {
	switch {
	case o.Retention < 0:
		return validate.Errorf("retention", "is %v, it cannot be negative", o.Retention)
	case o.Retention > o.DedupWindow:
		return validate.Errorf("retention",
			"is %v, longer than the dedup window of %v, at the end of which the row goes", o.Retention, o.DedupWindow)
	case o.FailedRetention != 0 && o.FailedRetention < o.DedupWindow:
		return validate.Errorf("failed retention",
			"is %v, shorter than the dedup window of %v: a dead letter's key would be free before", o.FailedRetention,
			o.DedupWindow)
	}
	return o.checkWindow(spec, workqueue.DefaultLease)
}

// checkGiven refuses a window that is missing or out of range, before other defaults are derived from it.
func (o Options) checkGiven() error {
	switch {
	case o.DedupWindow == 0:
		return validate.Errorf("dedup window", "is not set, and has no default: set it to the longest time after "+
			"which a source may deliver a message again (a broker's retention, the end of a web hook's retries), and "+
			"not below the retry horizon of the table")
	case o.DedupWindow < 0 || o.DedupWindow > maxWindow:
		return validate.Errorf("dedup window", "is %v, it must be positive and at most %v", o.DedupWindow, maxWindow)
	}
	return nil
}

// checkWindow refuses a window that is shorter than the retry horizon of a table whose workers use the lease. If no
// number of attempts was asked for, a long lease is no reason to refuse more of them than [MinAttempts].
func (o Options) checkWindow(spec workqueue.Spec, lease time.Duration) error {
	attempts := spec.MaxAttempts
	if o.MaxAttempts == 0 {
		attempts = MinAttempts
	}
	horizon := RetryHorizon(spec.Retry, attempts, lease)
	if o.DedupWindow < horizon {
		return validate.Errorf("dedup window", "is %v, shorter than the retry horizon of %v (%d attempts, each with "+
			"a lease of %v, and the backoff between them): a message could be delivered again while it is still "+
			"being tried", o.DedupWindow, horizon, attempts, lease)
	}
	return nil
}

// spec describes the table with these options.
func (o Options) spec() workqueue.Spec {
	spec := Spec(o.Schema)
	spec.MaxAttempts = o.attempts()
	if o.MaxAttempts != 0 { // whoever sets the attempts sets them for crashes, too
		spec.MaxLost = 0
	}
	spec.Retry = o.Retry
	spec.Retention = o.DedupWindow
	spec.FailedRetention = o.FailedRetention
	if o.Retention > DefaultRetention {
		spec.Sweeps = nil // the function of the migration would strip payloads too early
	}
	return spec
}
