package jobs

import (
	"time"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
)

// Options configure a [Client]. The zero value is usable and is what txwork's own migrations and CLI assume.
//
// MaxAttempts and Retry hold for what goes through this Client: its Enqueue, its workers, and a reaper that is
// given its [Client.Table]. What a kind or a job says for itself is stored on the job's row, so it holds
// everywhere.
type Options struct {
	// Schema holds the tables. Default: [workqueue.DefaultSchema].
	Schema string

	// Registry has the kinds' own settings, such as retries and queues, which a job gets when it is enqueued.
	// Default: none, and then every kind has the defaults.
	Registry *Registry

	// Codec encodes args, outputs and the results of steps. Default: [DefaultCodec].
	Codec codec.Codec

	// MaxArgs is the largest args, output or step result in bytes, at most 256 MiB. Default: [DefaultMaxArgs].
	MaxArgs int

	// MaxAttempts bounds the attempts of a job that does not say. Default: [workqueue.DefaultMaxAttempts].
	MaxAttempts int

	// Retry is the backoff of jobs that do not say. Default: [workqueue.DefaultRetry].
	Retry workqueue.Retry

	// Retention is how long jobs are kept, with their output, that are done or were cancelled. Default: [workqueue.DefaultRetention].
	Retention time.Duration

	// FailedRetention is how long dead letters are kept. Default 0: for ever.
	FailedRetention time.Duration

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

func (o Options) maxArgs() (int, error) {
	return input.PayloadLimit("max args", o.MaxArgs, DefaultMaxArgs)
}
