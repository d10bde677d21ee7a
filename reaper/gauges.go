package reaper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/txwork/txwork/internal/scope"
	"github.com/txwork/txwork/internal/survey"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/metrics"
	"github.com/txwork/txwork/workqueue/validate"
)

// Names of the gauges.
const (
	depthGauge       = "txwork.queue.depth"
	boundedGauge     = "txwork.queue.depth.bounded"
	ageGauge         = "txwork.queue.age"
	recentGauge      = "txwork.queue.dead_letters_last_hour"
	overrunGauge     = "txwork.lease.overrun"
	overdueGauge     = "txwork.queue.not_returning"
	latenessGauge    = "txwork.schedule.lateness"
	blockedGauge     = "txwork.key.blocked"
	unavailableGauge = "txwork.topic.unavailable"
	foldGauge        = "txwork.fold.lag"
	joinGauge        = "txwork.join.stuck"
	deadRowsGauge    = "txwork.table.dead_rows"
	liveRowsGauge    = "txwork.table.live_rows"
	thresholdGauge   = "txwork.table.vacuum_threshold"
	transactionGauge = "txwork.transaction.oldest"
	horizonGauge     = "txwork.transaction.horizon"
	hiddenGauge      = "txwork.transaction.hidden"
	lagGauge         = "txwork.subscription.lag"
	lagBoundGauge    = "txwork.subscription.lag.bounded"
	lagAgeGauge      = "txwork.subscription.age"
	retainedGauge    = "txwork.subscription.retained"
	inHandGauge      = "txwork.subscription.in_hand"
	pausedGauge      = "txwork.subscription.paused"
	awayGauge        = "txwork.subscription.unavailable"
	tickGauge        = "txwork.log.tick"
	untickedGauge    = "txwork.log.unticked"
	keptGauge        = "txwork.log.age"
	sizeGauge        = "txwork.log.size"
	restoredGauge    = "txwork.log.restored"
	scheduledGauge   = "txwork.log.scheduled"
	lateGauge        = "txwork.log.overdue"
	laneLagGauge     = "txwork.lane.lag"
	laneAgeGauge     = "txwork.lane.age"
	laneKeptGauge    = "txwork.lane.retained"
	silenceGauge     = "txwork.reaper.silence"
	failingGauge     = "txwork.reaper.failing"
	upGauge          = "txwork.observation.up"
	durationGauge    = "txwork.observation.duration"
	skippedGauge     = "txwork.observation.skipped"
)

// Attributes of the gauges. A table with lanes has one more, txwork.queue, txwork.consumer or txwork.subscription.
const (
	tableKey        attribute.Key = "messaging.destination.name"
	stateKey        attribute.Key = "txwork.state"
	subscriptionKey attribute.Key = "txwork.subscription"
	laneKey         attribute.Key = "txwork.lane"
)

// gaugeList is in the order of the documentation.
var gaugeList = func() []metrics.Metric {
	table := []string{string(tableKey)}
	laned := []string{string(tableKey), "txwork.queue", "txwork.consumer", string(subscriptionKey)}
	subscribed := []string{string(tableKey), string(subscriptionKey)}
	ofLane := append(slices.Clone(subscribed), string(laneKey))
	stated := append([]string{string(tableKey), string(stateKey)}, laned[1:]...)
	gauge := func(name, unit string, attributes []string, meaning string) metrics.Metric {
		return metrics.Metric{Name: name, Instrument: "gauge", Unit: unit, Attributes: attributes, Meaning: meaning}
	}
	return []metrics.Metric{
		gauge(depthGauge, "{row}", stated, fmt.Sprintf("Rows by state: ready (due), scheduled (due later), "+
			"in_progress, waiting (for their turn or a join) and dead_letter. Counted up to %d rows of a table and "+
			"state, ready and in_progress among the first %d due rows, in equal parts by queue and priority. A lower "+
			"bound where txwork.queue.depth.bounded is 1. Tables of schedules have dead_letter only", countedRows, dueRows)),
		gauge(boundedGauge, "", stated, "1 where txwork.queue.depth has reached its bound, so that there are at least "+
			"so many rows, and dead_letters_last_hour, the age of expired and in_progress rows, txwork.lease.overrun and "+
			"txwork.queue.not_returning may be lower bounds, too; 0 where it is exact"),
		gauge(ageGauge, "s", stated, "How long the oldest row has been ready (since it was due), waiting (since it "+
			"was written), in_progress (since it was claimed, once its lease has been renewed) or expired (in progress, "+
			"since its lease ended). 0 without such a row"),
		gauge(recentGauge, "{row}", table, "Rows that became dead letters in the last hour and still are"),
		gauge(overrunGauge, "{row}", laned, fmt.Sprintf("Rows in progress whose lease ended more than %v ago: a "+
			"claim with the default lease has lasted more than twice as long as that lease", workqueue.DefaultLease)),
		gauge(overdueGauge, "{row}", laned, fmt.Sprintf("Rows in progress whose handler has run for longer than it "+
			"should: than the worker's RunsWithin, or %v if nobody said", workqueue.DefaultRunsWithin)),
		gauge(latenessGauge, "s", table, "How long the most overdue schedule should have fired ago: none has claimed "+
			"it since, or every attempt since has failed. Paused ones are left out. 0 without one"),
		gauge(blockedGauge, "{key}", table, fmt.Sprintf("Ordered keys with a dead letter that rows wait behind, "+
			"among the first %d keys with a dead letter: so many or more", survey.BlockedKeys)),
		gauge(unavailableGauge, "s", table, "How long the destination of a topic has been unavailable, the longest. 0 "+
			"without one"),
		gauge(foldGauge, "s", table, "How long the first note about a key or a join has waited to be folded. 0 "+
			"without one"),
		gauge(joinGauge, "{join}", table, fmt.Sprintf("Joins, batches and workflows that should have ended over %.0f "+
			"minutes ago: their deadline has passed, or every member has ended or is gone. Of the %d that the sweep "+
			"looks at first", overdueJoin.Minutes(), lookedJoins)),
		gauge(deadRowsGauge, "{row}", table, "Dead row versions that vacuum has yet to remove, as PostgreSQL's "+
			"statistics estimate them"),
		gauge(thresholdGauge, "{row}", table,
			"Dead row versions at which autovacuum comes, by its settings for the table"),
		gauge(liveRowsGauge, "{row}", table, "Rows that are ready, scheduled or in progress, as vacuum or analyze "+
			"last estimated them: where depth has reached its bound"),
		gauge(transactionGauge, "s", nil, "Age of the oldest transaction that holds back vacuum: a session's, or a "+
			"prepared one. A lower bound unless txwork.transaction.hidden is 0"),
		gauge(horizonGauge, "{transaction}", nil, "How many transactions ago the oldest holder of the vacuum horizon "+
			"began, replication slots and standbys included"),
		gauge(hiddenGauge, "{session}", nil, "Sessions of other roles that may hold back vacuum and that the role may "+
			"not inspect: it lacks pg_read_all_stats"),
		gauge(lagGauge, "{message}", subscribed, fmt.Sprintf("Messages of a log that the subscription has not settled, "+
			"among the first %d that each of its lanes has not passed, or fewer if there are many lanes. A lower bound "+
			"where txwork.subscription.lag.bounded is 1", survey.LaneMessages)),
		gauge(lagBoundGauge, "", subscribed, "1 where txwork.subscription.lag is a lower bound, 0 where it is exact"),
		gauge(lagAgeGauge, "s", subscribed, "How long the subscription has been behind: since its oldest message that is "+
			"not settled was written, or since the first tick that it has not passed, whether or not that has messages for "+
			"it. 0 if it has passed all"),
		gauge(retainedGauge, "By", subscribed, "What the log keeps until the subscription has passed it, in whole days of "+
			"the log"),
		gauge(inHandGauge, "{lane}", subscribed, "Lanes of which a consumer has a page in hand"),
		gauge(pausedGauge, "", subscribed, "1 while the subscription is paused, 0 otherwise"),
		gauge(awayGauge, "s", subscribed, "How long the destination of the subscription has been unavailable. 0 if it is "+
			"not known to be"),
		gauge(tickGauge, "{tick}", table, "The number of the newest tick of a log"),
		gauge(untickedGauge, "s", table, "How long ago the oldest message of a log was written that no tick has seen. 0 "+
			"without one"),
		gauge(keptGauge, "s", table, "How long ago the oldest message was written that a log keeps. 0 without one"),
		gauge(sizeGauge, "By", table, "Size of the messages of a log, with their indexes"),
		gauge(restoredGauge, "", table, "1 if transaction ids began again since the log was written, as after a restore, so "+
			"that it has to be rebased; 0 otherwise"),
		gauge(scheduledGauge, "{message}", table, fmt.Sprintf("Messages that are scheduled and not in the log yet, up to "+
			"%d", survey.ScheduledMessages)),
		gauge(lateGauge, "s", table, "How long the first scheduled message has been due that is not in the log yet. 0 "+
			"without one"),
		gauge(laneLagGauge, "{message}", ofLane, "txwork.subscription.lag of a lane, of subscriptions with several"),
		gauge(laneAgeGauge, "s", ofLane, "txwork.subscription.age of a lane, of subscriptions with several"),
		gauge(laneKeptGauge, "By", ofLane, "txwork.subscription.retained of a lane, of subscriptions with several"),
		gauge(silenceGauge, "s", table, "How long ago maintenance of the table last ran: the lease of a reaper ended, "+
			"or `txwork reap` or the table's procedure did. 0 while a reaper maintains it; missing if nothing ever has"),
		gauge(failingGauge, "", table, "1 if the last maintenance of the table failed in a part or skipped rows, 0 if it "+
			"did all; missing if nothing ever maintained it"),
		gauge(upGauge, "", nil, "1 if the database could be observed, 0 if not: then the other gauges are missing"),
		gauge(durationGauge, "s", nil, "How long the observation took that the gauges show"),
		gauge(skippedGauge, "{statement}", nil, "Statements of the observation that were given up or refused, "+
			"tables whose lanes are too many to read, and tables and logs of which row-level security hides rows: what "+
			"they would have told is missing"),
	}
}()

// Gauges lists the gauges that [Run] and [RegisterGauges] report.
func Gauges() []metrics.Metric { return append([]metrics.Metric(nil), gaugeList...) }

// Defaults of [GaugeOptions].
const (
	// DefaultObservationTimeout keeps an exporter from waiting long for a database that is unavailable.
	DefaultObservationTimeout = 5 * time.Second
	// DefaultGaugeStatementTimeout is several times as long as a statement takes on a large table.
	DefaultGaugeStatementTimeout = 500 * time.Millisecond
	// DefaultFreshness lets several exporters that ask at the same time share an observation.
	DefaultFreshness = 5 * time.Second
)

// GaugeOptions configure [RegisterGauges]. The zero value is usable.
type GaugeOptions struct {
	// Schema holds the tables. Default: [workqueue.DefaultSchema].
	Schema string

	// MeterProvider gets the gauges. Default: the global provider.
	MeterProvider metric.MeterProvider

	// Timeout bounds an observation. Statements that have not run by then are skipped. Default:
	// [DefaultObservationTimeout].
	Timeout time.Duration

	// StatementTimeout bounds each statement of an observation, in whole milliseconds. Default:
	// [DefaultGaugeStatementTimeout].
	StatementTimeout time.Duration

	// Freshness is how long collections share an observation before the next one is made. Default: [DefaultFreshness].
	Freshness time.Duration

	// Logger receives a line when observations begin to fail and when they succeed again. Default: slog.Default.
	Logger *slog.Logger
}

func (o GaugeOptions) withDefaults() GaugeOptions {
	o.Schema = cmp.Or(o.Schema, workqueue.DefaultSchema)
	o.Timeout = cmp.Or(o.Timeout, DefaultObservationTimeout)
	o.StatementTimeout = cmp.Or(o.StatementTimeout, DefaultGaugeStatementTimeout)
	o.Freshness = cmp.Or(o.Freshness, DefaultFreshness)
	o.MeterProvider = cmp.Or(o.MeterProvider, otel.GetMeterProvider())
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return o
}

// Validate reports the first thing that is wrong with the options, naming the field.
func (o GaugeOptions) Validate() error {
	o = o.withDefaults()
	if err := validate.Identifier("schema", o.Schema); err != nil {
		return err
	}
	if o.Timeout < 0 {
		return validate.Errorf("timeout", "is %v, it must not be negative", o.Timeout)
	}
	if o.StatementTimeout < time.Millisecond || o.StatementTimeout%time.Millisecond != 0 {
		return validate.Errorf("statement timeout", "is %v, it must be whole milliseconds", o.StatementTimeout)
	}
	if o.Freshness < 0 {
		return validate.Errorf("freshness", "is %v, it must not be negative", o.Freshness)
	}
	return nil
}

// RegisterGauges reports the gauges of all tables of a schema from this process, whichever process maintains them. It
// is meant for deployments that are maintained by cron or pg_cron, and for exporters. If a process of the deployment
// calls [Run], it is not needed. Each collection of the provider reads the database, with bounded statements;
// collections at the same time share one observation. While the database is unavailable, txwork.observation.up is 0 and
// the other gauges are missing.
//
// RegisterGauges returns an error for invalid arguments, or the provider's error. Call stop once.
func RegisterGauges(pool *pgxpool.Pool, o GaugeOptions) (stop func(), err error) {
	if pool == nil {
		return nil, validate.Errorf("pool", "is nil")
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	return newObserver(pool, o, []string{o.Schema}).register(o.MeterProvider, func() bool { return true })
}

// registerGauges reports the gauges of the reaper's tables, of each table while the reaper leads it. A failing provider
// is only logged, because it must not keep the tables from being maintained.
func (r *reaper) registerGauges() (stop func()) {
	o := GaugeOptions{Schema: r.options.Schema, MeterProvider: r.options.MeterProvider, Logger: r.logger}.withDefaults()
	schemas := []string{r.options.Schema}
	for _, t := range r.tables {
		schemas = append(schemas, t.Spec().Schema)
	}
	observer := newObserver(r.pool, o, schemas)
	observer.serves = func(f *survey.Facts) bool { return r.candidate.tenure.lasts(f.Schema + "." + f.Name) }
	observer.outage = r.noteOutage
	stop, err := observer.register(o.MeterProvider, r.candidate.tenure.any)
	if err != nil {
		r.logger.Warn("reaper reports no gauges", "error", err)
		return func() {}
	}
	return stop
}

// register makes the gauges. They report observations while wanted returns true.
func (o *observer) register(provider metric.MeterProvider, wanted func() bool) (stop func(), err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("txwork: reaper: the provider of metrics panicked: %v\n%s", p, debug.Stack())
		}
	}()
	meter := scope.Meter(provider, "reaper")
	gauges, all := map[string]metric.Float64Observable{}, []metric.Observable{}
	var errs []error
	for _, g := range gaugeList {
		made, err := meter.Float64ObservableGauge(g.Name, metric.WithUnit(g.Unit), metric.WithDescription(g.Meaning))
		gauges[g.Name], all, errs = made, append(all, made), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("txwork: reaper: making gauges: %w", err)
	}
	registration, err := meter.RegisterCallback(func(ctx context.Context, to metric.Observer) error {
		defer o.contain()
		if !wanted() {
			return nil
		}
		// An error would keep the application's own metrics from being exported, too, so none is returned.
		for _, f := range o.latest(ctx) {
			to.ObserveFloat64(gauges[f.gauge], f.value, metric.WithAttributes(f.attributes...))
		}
		return nil
	}, all...)
	if err != nil {
		return nil, fmt.Errorf("txwork: reaper: registering gauges: %w", err)
	}
	return func() { _ = registration.Unregister() }, nil
}

// contain logs a panic, for example in one of the pool's hooks, because it must not end the program that exports
// metrics.
func (o *observer) contain() {
	if p := recover(); p != nil {
		o.logger.Error("gauges could not be observed", "error", fmt.Sprintf("panic: %v\n%s", p, debug.Stack()))
	}
}
