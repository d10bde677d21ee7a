package reaper

import (
	"log/slog"
	"time"

	"github.com/txwork/txwork/workqueue/validate"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/txwork/txwork/workqueue"
)

// Defaults and bounds of [Options]. Each is declared here once, with its reason.
const (
	// DefaultInterval is half of the workers' default lease: a crash is repaired within a minute, while
	// an idle table costs a few index probes a minute.
	DefaultInterval = 15 * time.Second

	// MinInterval keeps a unit mistake from becoming a busy loop.
	MinInterval = 100 * time.Millisecond

	// MaxInterval leaves room for a lease of two intervals.
	MaxInterval = workqueue.MaxLease / 2

	// DefaultBatchSize is a transaction of some ten to a hundred milliseconds: too short for anybody to wait
	// for, and large enough that few batches do, since each batch of expired leases reads the due rows anew.
	DefaultBatchSize = 5000

	// DefaultPurgeLimit is a second or two of deleting: about as long as newly expired leases may have to
	// wait behind it.
	DefaultPurgeLimit = 100_000
)

// Options configure a reaper. The zero value is usable.
type Options struct {
	// Schema holds the leader table, in which reapers elect the leader of each table. Default:
	// [workqueue.DefaultSchema].
	Schema string

	// Interval is the longest pause between two rounds; each pause is up to a fifth shorter, so that many
	// processes that were started together do not look together. Default: [DefaultInterval].
	// RunOnce takes only the default of Lease from it.
	Interval time.Duration

	// Lease is how long a dead leader keeps others from leading. It is renewed with every round, and
	// within a long one. Default: twice Interval, so that one round may fail or be late, and no less than
	// [workqueue.MinLease]. It must be longer than Interval, or leadership would end between rounds.
	Lease time.Duration

	// BatchSize is the number of rows of one transaction. Default: [DefaultBatchSize].
	BatchSize int

	// PurgeLimit bounds how many Done rows, and how many Failed rows, one round deletes from one table.
	// Default: [DefaultPurgeLimit]. There is no such bound for expired leases.
	PurgeLimit int

	// Runtime has the reaper use the connections of a runtime, beside the workers that share it, and none of the pool.
	// Default: the pool's.
	Runtime *workqueue.Runtime

	// MeterProvider gets the gauges of the tables, see [Gauges], from [Run] and for those that it leads: once
	// per deployment and not once per process. Nothing is read before an OpenTelemetry SDK asks. Default: the global
	// provider.
	MeterProvider metric.MeterProvider

	// Logger is told of rounds that changed something, of failures and of changes of leadership. Default:
	// slog.Default.
	Logger *slog.Logger
}

// Validate reports the first thing that is wrong with the Options, naming the field.
func (o Options) Validate() error {
	o = o.withDefaults()
	for _, check := range []func() error{o.validateSchema, o.validateTimes, o.validateSizes} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.Schema == "" {
		o.Schema = workqueue.DefaultSchema
	}
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.Lease == 0 {
		o.Lease = max(2*o.Interval, workqueue.MinLease)
	}
	if o.BatchSize == 0 {
		o.BatchSize = DefaultBatchSize
	}
	if o.PurgeLimit == 0 {
		o.PurgeLimit = DefaultPurgeLimit
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

func (o Options) validateSchema() error {
	return validate.Identifier("schema", o.Schema)
}

func (o Options) validateTimes() error {
	if o.Interval < MinInterval || o.Interval > MaxInterval {
		return validate.Errorf("interval", "is %v, it must be between %v and %v", o.Interval, MinInterval, MaxInterval)
	}
	if o.Lease < workqueue.MinLease || o.Lease > workqueue.MaxLease {
		return validate.Errorf("lease", "is %v, it must be between %v and %v", o.Lease, workqueue.MinLease,
			workqueue.MaxLease)
	}
	if o.Lease <= o.Interval {
		return validate.Errorf("lease", "is %v, it must be longer than the interval of %v: leadership would end "+
			"between rounds",
			o.Lease, o.Interval)
	}
	return nil
}

func (o Options) validateSizes() error {
	if o.BatchSize < 1 || o.BatchSize > workqueue.MaxBatch {
		return validate.Errorf("batch size", "is %d, it must be between 1 and %d", o.BatchSize, workqueue.MaxBatch)
	}
	if o.PurgeLimit < 1 {
		return validate.Errorf("purge limit", "is %d, it must be at least 1", o.PurgeLimit)
	}
	return nil
}

// validateTargets checks what is not in the Options.
func validateTargets(pool *pgxpool.Pool, tables []*workqueue.Table) error {
	if pool == nil {
		return validate.Errorf("pool", "is nil")
	}
	if len(tables) == 0 {
		return validate.Errorf("tables", "has none: there is nothing to maintain")
	}
	seen := map[string]bool{}
	for i, table := range tables {
		if table == nil {
			return validate.Errorf("tables", "has a nil at index %d", i)
		}
		if seen[table.Name()] {
			return validate.Errorf("tables", "lists %s twice", table.Name())
		}
		seen[table.Name()] = true
	}
	return nil
}
