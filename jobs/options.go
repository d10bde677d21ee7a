package jobs

import (
	"time"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
)

// Options configure a [Client]. The zero value is usable, and matches txwork's own migrations and CLI.
//
// MaxAttempts and Retry apply to everything that uses this Client: its Enqueue, its workers, and a reaper that is given
// its [Client.Table]. The settings of a kind or a job are stored in the job's row, so they apply everywhere.
type Options struct {
	// Schema holds the tables. Default: [workqueue.DefaultSchema].
	Schema string

	// Registry holds the settings of the kinds, such as retries and queues, which are applied when a job is enqueued. A
	// job of a kind that it does not hold is refused with [ErrUnknownKind]; use [Declare] for a kind that another
	// program handles. Default: none; every kind is then accepted, with the default settings.
	Registry *Registry

	// Codec encodes args, outputs and the results of steps. Default: [DefaultCodec].
	Codec codec.Codec

	// MaxArgs is the largest size of args, of an output or of the result of a step, in bytes: at most 256 MiB. Default:
	// [DefaultMaxArgs].
	MaxArgs int

	// MaxAttempts is how often a job is attempted if neither the job nor its kind sets a maximum. Default:
	// [DefaultMaxAttempts], which last for four hours. A job that never succeeds holds the key of a [keyed.Ordered] for
	// as long: have its handler return [workqueue.Permanent], or set fewer.
	MaxAttempts int

	// Retry is the backoff of a job if neither the job nor its kind sets one. Default: [workqueue.DefaultRetry]. Its
	// [workqueue.Retry.Span] says for how long MaxAttempts last.
	Retry workqueue.Retry

	// Retention is how long done and cancelled jobs are kept, with their output. Default: [workqueue.DefaultRetention].
	Retention time.Duration

	// FailedRetention is how long dead letters are kept. Default 0: for ever.
	FailedRetention time.Duration

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
	return spec
}
