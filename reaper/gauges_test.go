package reaper_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	nometric "go.opentelemetry.io/otel/metric"
	noop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/workqueue"
)

// A meter is the OpenTelemetry SDK of one process.
type meter struct {
	*metric.MeterProvider
	reader *metric.ManualReader
}

func newMeter() meter {
	reader := metric.NewManualReader()
	return meter{metric.NewMeterProvider(metric.WithReader(reader)), reader}
}

// gauges returns the points of a gauge by the value of an attribute, and nil if there is no such gauge.
func (m meter) gauges(t *testing.T, name, by string) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := m.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	var values map[string]float64
	for _, scope := range all.ScopeMetrics {
		for _, g := range scope.Metrics {
			points, is := g.Data.(metricdata.Gauge[float64])
			if g.Name != name || !is {
				continue
			}
			values = map[string]float64{}
			for _, p := range points.DataPoints {
				for _, a := range p.Attributes.ToSlice() {
					if string(a.Key) == by {
						values[a.Value.AsString()] = p.Value
					}
				}
			}
		}
	}
	return values
}

// Only the reaper that leads reports gauges, and only those of the tables that it serves.
func TestTheLeaderReportsTheGauges(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	served := db.table(workqueue.Spec{Table: "served"})
	db.table(workqueue.Spec{Table: "other"})
	db.rows(served, 2, expired)
	first, second := newMeter(), newMeter()
	run := func(m meter) (stop func()) {
		o := db.options()
		o.Lease = time.Hour // the first leads until it stops
		o.MeterProvider = m
		return db.run(db.Pool, o, served)
	}
	stop := run(first)
	db.awaitTerm(served, 1)
	run(second)
	const depth, by = "txwork.queue.depth", "messaging.destination.name"
	db.await("gauges of the leader", func() bool { return first.gauges(t, depth, by) != nil })
	values := first.gauges(t, depth, by)
	if _, reported := values[served.Name()]; !reported || len(values) != 1 {
		t.Errorf("depths %v, want one of %s", values, served.Name())
	}
	if values := second.gauges(t, depth, by); values != nil {
		t.Errorf("a reaper that does not lead reports %v", values)
	}
	if silence := first.gauges(t, "txwork.reaper.silence", by); len(silence) != 1 ||
		silence[served.Name()] != 0 {
		t.Errorf("silence %v, want 0 of %s", silence, served.Name())
	}
	stop()
	if values := first.gauges(t, depth, by); values != nil {
		t.Errorf("a reaper that has stopped reports %v", values)
	}
	db.await("gauges of the next leader", func() bool { return second.gauges(t, depth, by) != nil })
}

// As long as nothing collects metrics, the gauges cost nothing.
func TestGaugesThatNobodyCollects(t *testing.T) {
	t.Parallel()
	looked := make(chan struct{}, 1)
	db := newDatabase(t, traced(func(sql string) {
		if strings.Contains(sql, "pg_stat_get_dead_tuples") {
			select {
			case looked <- struct{}{}:
			default:
			}
		}
	}))
	table := db.table(workqueue.Spec{Table: "served"})
	o := db.options()
	m := newMeter()
	o.MeterProvider = m
	rounds := 0
	db.await("some rounds", func() bool {
		db.runOnce(o, table)
		rounds++
		return rounds > 2
	})
	stop := db.run(db.Pool, o, table)
	defer stop()
	db.awaitTerm(table, int64(rounds+1))
	select {
	case <-looked:
		t.Error("tables were observed before anybody asked")
	default:
	}
	db.await("an observation for a collection: the test may look for the wrong statement", func() bool {
		m.gauges(t, "txwork.queue.depth", "") // may return nothing, if the reaper does not lead yet
		select {
		case <-looked:
			return true
		default:
			return false
		}
	})
}

// A failing database must not fail the collection, because that would keep the application's own metrics from being
// exported.
func TestGaugesOfADatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	m := newMeter()
	stop, err := reaper.RegisterGauges(pool, reaper.GaugeOptions{MeterProvider: m, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	var all metricdata.ResourceMetrics
	if err := m.reader.Collect(t.Context(), &all); err != nil {
		t.Error(err)
	}
	if len(all.ScopeMetrics) != 1 || len(all.ScopeMetrics[0].Metrics) != 1 ||
		all.ScopeMetrics[0].Metrics[0].Name != "txwork.observation.up" {
		t.Errorf("%+v, want txwork.observation.up alone", all.ScopeMetrics)
	}
}

// refusing is a provider that returns errors, or panics.
type refusing struct {
	nometric.MeterProvider
	panics bool
}

func (r refusing) Meter(string, ...nometric.MeterOption) nometric.Meter {
	if r.panics {
		panic("a provider's panic")
	}
	return refusingMeter{noop.Meter{}}
}

type refusingMeter struct{ noop.Meter }

var errRefused = errors.New("no more gauges")

func (refusingMeter) Float64ObservableGauge(string,
	...nometric.Float64ObservableGaugeOption) (nometric.Float64ObservableGauge, error) {
	return noop.Float64ObservableGauge{}, errRefused
}

// If the provider fails, there are no gauges, but the tables are still maintained.
func TestAProviderThatFails(t *testing.T) {
	t.Parallel()
	for name, provider := range map[string]refusing{"error": {}, "panic": {panics: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			table := db.table(workqueue.Spec{Table: "served"})
			db.rows(table, 1, expired)
			if _, err := reaper.RegisterGauges(db.Pool, reaper.GaugeOptions{Schema: db.Schema,
				MeterProvider: provider}); err == nil {
				t.Error("RegisterGauges has no error")
			}
			o := db.options()
			o.MeterProvider = provider
			db.run(db.Pool, o, table)
			db.await("a reaped row", func() bool { return db.count(table, workqueue.InProgress) == 0 })
		})
	}
}

func TestGaugeOptions(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	for name, o := range map[string]reaper.GaugeOptions{
		"schema":            {Schema: "a\x00b"},
		"timeout":           {Timeout: -time.Second},
		"statement timeout": {StatementTimeout: time.Microsecond},
		"freshness":         {Freshness: -time.Second},
	} {
		if _, err := reaper.RegisterGauges(db.Pool, o); !errors.Is(err, workqueue.ErrInvalid) {
			t.Errorf("%s: %v, want an ErrInvalid", name, err)
		}
	}
	if _, err := reaper.RegisterGauges(nil, reaper.GaugeOptions{}); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("no pool: %v", err)
	}
}

// A collection returns when its context ends.
func TestACollectionThatIsBrokenOff(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	m := newMeter()
	stop, err := reaper.RegisterGauges(db.Pool, reaper.GaugeOptions{Schema: db.Schema, MeterProvider: m, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var all metricdata.ResourceMetrics
	if err := m.reader.Collect(ctx, &all); err == nil {
		t.Error("the collection succeeded")
	}
}
