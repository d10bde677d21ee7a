package reaper

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// Defaults and bounds of [Options].
const (
	// DefaultInterval is half of the workers' default lease: the rows of a crashed worker are requeued within a minute,
	// while an idle table costs a few index probes a minute.
	DefaultInterval = 15 * time.Second

	// MinInterval keeps a mistake in the unit from becoming a busy loop.
	MinInterval = 100 * time.Millisecond

	// MaxInterval leaves room for a lease of two intervals.
	MaxInterval = workqueue.MaxLease / 2

	// DefaultBatchSize makes transactions of about ten to a hundred milliseconds. They are too short to delay others,
	// but large enough that a round needs few of them: each batch of expired leases reads the due rows again.
	DefaultBatchSize = 5000

	// DefaultPurgeLimit is a second or two of deleting, which is about as long as newly expired leases may have to wait
	// for it.
	DefaultPurgeLimit = 100_000
)

// Options configure a reaper. The zero value is usable.
type Options struct {
	// Schema holds the leader table, in which reapers elect the leader of each table. Default:
	// [workqueue.DefaultSchema].
	Schema string

	// Interval is the longest pause between two rounds. Each pause is up to a fifth shorter, so that processes that
	// were started together do not run their rounds together. RunOnce uses Interval only for the default of Lease.
	// Default: [DefaultInterval].
	Interval time.Duration

	// Lease is how long a dead leader keeps others from leading. It is renewed with every round, and during a long one.
	// It must be longer than Interval, or leadership would end between rounds. Default: twice Interval, so that one
	// round may fail or be late, and at least [workqueue.MinLease].
	Lease time.Duration

	// BatchSize is the number of rows of one transaction. Default: [DefaultBatchSize].
	BatchSize int

	// PurgeLimit bounds how many Done rows, and how many Failed rows, one round deletes from one table. Expired leases
	// have no such bound. Default: [DefaultPurgeLimit].
	PurgeLimit int

	// Runtime makes the reaper use the connections of a runtime, together with the workers that share it, instead of
	// those of the pool. Default: the pool's connections.
	Runtime *workqueue.Runtime

	// MeterProvider receives the gauges, see [Gauges], of the tables that [Run] leads. Each table is therefore reported
	// once per deployment and not once per process. The tables are read only when an OpenTelemetry SDK collects.
	// Default: the global provider.
	MeterProvider metric.MeterProvider

	// Logger receives rounds that changed something, failures and changes of leadership. Default: slog.Default.
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
	o.Schema = cmp.Or(o.Schema, workqueue.DefaultSchema)
	o.Interval = cmp.Or(o.Interval, DefaultInterval)
	o.Lease = cmp.Or(o.Lease, max(2*o.Interval, workqueue.MinLease))
	o.BatchSize = cmp.Or(o.BatchSize, DefaultBatchSize)
	o.PurgeLimit = cmp.Or(o.PurgeLimit, DefaultPurgeLimit)
	o.MeterProvider = cmp.Or(o.MeterProvider, otel.GetMeterProvider())
	o.Logger = cmp.Or(o.Logger, slog.Default())
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

// validateTargets checks the arguments that are not in the Options.
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
