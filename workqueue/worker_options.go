package workqueue

import (
	"cmp"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue/dispatch"
)

// Defaults of [WorkerOptions].
const (
	// DefaultConcurrency suits handlers that wait on a network more than they compute.
	DefaultConcurrency = 20
	// DefaultClaimLimit is the first size of a claim; full claims let it grow, short ones shrink it.
	DefaultClaimLimit = 20
	// DefaultLease bounds how long a crash goes unnoticed. It is renewed at a third of it, so two
	// renewals may fail before it ends.
	DefaultLease = 30 * time.Second
	// DefaultSettleLinger is how long a settle waits for company when handlers are at work.
	DefaultSettleLinger = time.Millisecond
	// DefaultShutdownTimeout stays under the 30 s that orchestrators commonly grant.
	DefaultShutdownTimeout = 20 * time.Second
	// DefaultRunsWithin is far longer than most handlers take. Those that take longer should say so.
	DefaultRunsWithin = time.Hour
)

// RunsWithin is the default of [WorkerOptions].RunsWithin: twice a timeout, and at least a minute more than it;
// [DefaultRunsWithin] without one. A handler that has not returned by then ignores its context.
func RunsWithin(timeout time.Duration) time.Duration {
	if timeout <= 0 {
		return DefaultRunsWithin
	}
	return timeout + max(timeout, time.Minute)
}

// WorkerOptions configure a [Worker]. The zero value is usable.
type WorkerOptions struct {
	// Concurrency is how many handlers run at once, until [Worker.SetConcurrency] changes it. Default:
	// [DefaultConcurrency].
	Concurrency int
	// TopicConcurrency is how many handlers of one topic run at once, for tables with topics ([Spec].Topics), such as
	// outbox and inbox. Default 0: a topic begins with a quarter of the places that other topics leave, and the only
	// one with half of them. With each success for which another row of it waits it has one more, up to seven eighths
	// of all. So a topic whose handlers hang leaves places for the others.
	TopicConcurrency int
	// ClaimLimit is the first size of a claim, which then adapts to the load. Default: [DefaultClaimLimit].
	ClaimLimit int
	// Lease is how long a claim holds without renewal. Default: [DefaultLease]; at least [MinLease].
	Lease time.Duration
	// PollInterval is the longest time between two looks. Default: [dispatch.DefaultPollInterval].
	PollInterval time.Duration
	// ClaimCooldown is the least time between two claims while there is room for more rows than there are: a woken
	// worker waits for it, so that rows which come one by one share claims, settles and commits, and start up to this
	// much later. Default: none, a woken worker claims at once.
	ClaimCooldown time.Duration
	// SettleLinger is how long a settle may wait for others to share its transaction, negative for not
	// at all. Default: [DefaultSettleLinger].
	SettleLinger time.Duration
	// HandlerTimeout cancels the context of a handler that takes longer. Default: none, since the lease
	// is renewed for as long as the handler runs.
	HandlerTimeout time.Duration
	// RunsWithin is how long a handler may run before its row is reported as one that does not return: by `txwork
	// doctor`, `txwork top` and the gauges. Nothing is cancelled. [Claim.RunsWithin] overrides it for a row. Negative:
	// never. Default: that of [RunsWithin] for the HandlerTimeout.
	RunsWithin time.Duration
	// TxLimits bound the transactions of [Claim.Tx] at the server. Default: none.
	TxLimits TxLimits
	// ShutdownTimeout is how long Run waits for running handlers once its context is cancelled, before
	// it cancels theirs. Default: [DefaultShutdownTimeout].
	ShutdownTimeout time.Duration
	// Redact rewrites errors before they are stored. Default: they are stored as they are.
	Redact Redactor
	// NoListen turns notifications off: the worker polls. For connections through a transaction pooler.
	NoListen bool
	// ListenConfig connects the listener past a pooler. Default: the pool's own configuration. With a Runtime, that of
	// [RuntimeOptions] holds.
	ListenConfig *pgx.ConnConfig
	// Runtime is shared with other workers of the process on the same database. Default: one of the worker's own.
	Runtime *Runtime
}

func (o WorkerOptions) withDefaults() WorkerOptions {
	setDefault(&o.Concurrency, DefaultConcurrency)
	setDefault(&o.ClaimLimit, DefaultClaimLimit)
	setDefault(&o.Lease, DefaultLease)
	setDefault(&o.PollInterval, dispatch.DefaultPollInterval)
	setDefault(&o.SettleLinger, DefaultSettleLinger)
	setDefault(&o.ShutdownTimeout, DefaultShutdownTimeout)
	setDefault(&o.RunsWithin, RunsWithin(o.HandlerTimeout))
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// maxConcurrency bounds the goroutines of one worker.
const maxConcurrency = 100_000

func (o WorkerOptions) validate() error {
	switch {
	case o.ClaimLimit < 1 || o.ClaimLimit > MaxBatch:
		return invalid("claim limit", "is %d, it must be between 1 and %d", o.ClaimLimit, MaxBatch)
	case o.TopicConcurrency < 0:
		return invalid("topic concurrency", "is %d, it cannot be negative", o.TopicConcurrency)
	case o.PollInterval < 0:
		return invalid("poll interval", "is %v, it cannot be negative", o.PollInterval)
	case o.ClaimCooldown < 0:
		return invalid("claim cooldown", "is %v, it cannot be negative", o.ClaimCooldown)
	case o.HandlerTimeout < 0:
		return invalid("handler timeout", "is %v, it cannot be negative", o.HandlerTimeout)
	case o.ShutdownTimeout < 0:
		return invalid("shutdown timeout", "is %v, it cannot be negative", o.ShutdownTimeout)
	}
	return cmp.Or(checkConcurrency(o.Concurrency), o.TxLimits.validate(), checkLease(o.Lease))
}

func checkConcurrency(n int) error {
	if n < 1 || n > maxConcurrency {
		return invalid("concurrency", "is %d, it must be between 1 and %d", n, maxConcurrency)
	}
	return nil
}
