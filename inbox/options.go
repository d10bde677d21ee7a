package inbox

import (
	"math"
	"time"

	"github.com/txwork/txwork/workqueue/validate"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
)

// Options configure an [Inbox]. Only DedupWindow has to be set.
//
// MaxAttempts, Retry, DedupWindow and FailedRetention hold for what goes through this Inbox: its Receive,
// its workers, and a reaper that is given its [Inbox.Table]. The SQL functions of the table carry the values
// of the migration that made them, which are the defaults. Where programs that do not know these Options
// settle or reap the same table, make it with a migration of your own from [Inbox.DDL].
type Options struct {
	// Schema holds the table. Default: [workqueue.DefaultSchema].
	Schema string

	// DedupWindow is for how long after a message was processed another one of its key is a duplicate.
	// There is no default, because only you know your sources: it is the longest time after which one of
	// them may still deliver a message again. That is a broker's retention or replay, or the end of a web
	// hook's retries (days, often), with a margin. Each message costs some 600 bytes for as long. At least
	// [RetryHorizon] of the table, at most ten years.
	DedupWindow time.Duration

	// Retention is how long the payload and the headers of a processed message are kept; after that the row
	// is a tombstone. At most DedupWindow. Default: [DefaultRetention], or DedupWindow if that is shorter.
	//
	// Workers and the reaper strip payloads where this is at most DefaultRetention, by the table's own
	// function, whose retention is that of its migration. Call [Inbox.Purge] from time to time to keep to
	// another value. A longer one needs a table made from [Inbox.DDL] as soon as somebody else's worker or
	// reaper knows the table by [Spec] only.
	Retention time.Duration

	// FailedRetention is how long dead letters are kept, and with them their keys: at least DedupWindow.
	// Default 0: for ever.
	FailedRetention time.Duration

	// Codec encodes [Message].Value, and decodes for [Delivery.Decode]. Default: [codec.JSON].
	Codec codec.Codec

	// MaxPayload is the largest payload in bytes, at most 256 MiB. Default: [DefaultMaxPayload].
	MaxPayload int

	// MaxAttempts bounds the attempts of a message that does not say. It is written into the row, so every
	// worker keeps to it. Default: [workqueue.DefaultMaxAttempts].
	MaxAttempts int

	// Retry is the backoff after a failed attempt. Default: [workqueue.DefaultRetry].
	Retry workqueue.Retry

	// Telemetry says where spans, metrics, logs and events go.
	Telemetry workqueue.Telemetry
}

// RetryHorizon is the longest time for which a message may be under way between workers that fail: the lease
// of every attempt, as if none had been renewed, and the table's longest backoff after every one but the
// last. The dedup window has to cover it, since a message that is still being tried is not yet processed.
// It is [math.MaxInt64] where that is too long for a Duration.
func RetryHorizon(retry workqueue.Retry, maxAttempts int, lease time.Duration) time.Duration {
	retry.Jitter = 0 // which only shortens
	horizon := lease
	for attempt := 1; attempt < maxAttempts; attempt++ {
		more := retry.Delay(attempt) + lease
		if horizon > math.MaxInt64-more {
			return math.MaxInt64
		}
		horizon += more
	}
	return horizon
}

// withDefaults fills in what the core does not know of; it fills in the rest.
func (o Options) withDefaults() Options {
	if o.Retention == 0 {
		o.Retention = min(DefaultRetention, o.DedupWindow)
	}
	if o.Codec == nil {
		o.Codec = codec.JSON{}
	}
	return o
}

// validate checks what the core does not know of. The Spec has its defaults.
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
	return checkWindow(o.DedupWindow, spec, workqueue.DefaultLease)
}

// checkGiven refuses a window that was left out, before anything else makes a value of it.
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

// checkWindow holds the window against the retry horizon of a table whose workers have the lease.
func checkWindow(window time.Duration, spec workqueue.Spec, lease time.Duration) error {
	horizon := RetryHorizon(spec.Retry, spec.MaxAttempts, lease)
	if window < horizon {
		return validate.Errorf("dedup window", "is %v, shorter than the retry horizon of %v (%d attempts, each with "+
			"a lease of %v, and the backoff between them): a message could be delivered again while it is still "+
			"being tried", window, horizon, spec.MaxAttempts, lease)
	}
	return nil
}

// spec is the table with these options.
func (o Options) spec() workqueue.Spec {
	spec := Spec(o.Schema)
	spec.MaxAttempts = o.MaxAttempts
	spec.Retry = o.Retry
	spec.Retention = o.DedupWindow
	spec.FailedRetention = o.FailedRetention
	if o.Retention > DefaultRetention {
		spec.Sweeps = nil // the function of the migration would strip payloads too early
	}
	return spec
}
