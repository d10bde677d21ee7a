package doctor_test

import (
	"flag"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/txwork/txwork/internal/doctor"
	"github.com/txwork/txwork/internal/measure"
	"github.com/txwork/txwork/internal/pgschema"
	"github.com/txwork/txwork/reaper"
)

// largeRows is the number of rows in the table on which doctor is timed.
var largeRows = flag.Int("rows", 20_000, "rows of TestTheTimeOnALargeTable")

// statementTimeout is that of the examinations.
var statementTimeout = flag.Duration("statement-timeout", time.Minute, "that of TestTheTimeOnALargeTable")

// Doctor reads no more of a large table than of a small one. The figures are logged: go test ./internal/doctor -run
// TestTheTimeOnALargeTable -rows 10000000 -statement-timeout 500ms -timeout 2h -v
func TestTheTimeOnALargeTable(t *testing.T) {
	server, err := measure.Start(t.Context(), map[string]string{"shared_buffers": "1GB",
		"maintenance_work_mem": "256MB", "checkpoint_timeout": "1h"}, "")
	must(t, err)
	t.Cleanup(func() { server.Stop() })
	w := &ward{T: t, DB: pgschema.New(t, server.URL())}
	w.migrate()
	// Of ten rows eight are done, one is a dead letter and one is due; some of the due ones are in progress, with
	// expired leases. As after a bulk load, the table has been neither analysed nor vacuumed.
	w.exec("SET session_replication_role = replica; SET synchronous_commit = off")
	for from := 0; from < *largeRows; from += 1_000_000 {
		n := min(1_000_000, *largeRows-from)
		w.exec(`INSERT INTO outbox (id, topic, payload, due_at, created_at, status, attempts, locked_until, owner_token, completed_at, failed_at, last_error)
			SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || substr(md5(i::text), 1, 20))::uuid, 'topic ' || i % 20, '{"n":1}', at, at, s, CASE WHEN s = 0 THEN 0 ELSE 1 END, CASE WHEN s = 1 THEN at END, CASE WHEN s > 0 THEN gen_random_uuid() END,
				CASE WHEN s > 1 THEN at END, CASE WHEN s = 3 THEN at END, CASE WHEN s = 3 THEN 'card ' || i || ' is declined' END
			FROM (
				SELECT i, now() - (i % 6000) * interval '1 second' - interval '1 minute' AS at,
					CASE WHEN i % 10 < 8 THEN 2 WHEN i % 10 = 8 THEN 3 WHEN i % 100 = 9 THEN 1 ELSE 0 END AS s
				FROM generate_series($1::int, $1 + $2 - 1) AS g (i)) AS r`, from, n)
	}
	t.Logf("%d rows, %s", *largeRows, ask[string](w, "SELECT pg_size_pretty(pg_total_relation_size('outbox'))"))
	var times []time.Duration
	for i := range 11 {
		o := w.options()
		o.StatementTimeout = *statementTimeout
		r, err := doctor.Examine(t.Context(), w.Pool, o)
		must(t, err)
		for _, s := range r.Skipped {
			// Those that name a bound: more rows wait, or have failed, than are looked at.
			if !strings.Contains(s.Reason, "rows have failed within 60 min") &&
				!strings.Contains(s.Reason, "rows are due:") {
				t.Errorf("skipped: %s: %s", s.Check, s.Reason)
			}
		}
		if i == 0 {
			t.Logf("the first examination took %v", r.Took.Round(time.Millisecond))
		}
		times = append(times, r.Took)
		found := map[string]bool{}
		for _, f := range r.Findings {
			found[f.Code] = true
		}
		// Nobody serves the rows: a large backlog says so, a small one only that it is late.
		found["backlog"] = found["backlog"] || found["unserved"]
		for _, code := range []string{"expired-leases", "backlog", "poison"} {
			if !found[code] && *largeRows >= 20_000 {
				t.Errorf("no finding %s in %v", code, slices.Sorted(maps.Keys(found)))
			}
		}
	}
	slices.Sort(times)
	t.Logf("eleven examinations took %v in the median, %v at most", times[5].Round(time.Millisecond),
		times[10].Round(time.Millisecond))
	w.timeGauges()
}

// timeGauges times the gauges of package reaper on the same table.
func (w *ward) timeGauges() {
	w.Helper()
	reader := metric.NewManualReader()
	stop, err := reaper.RegisterGauges(w.Pool, reaper.GaugeOptions{
		Schema: w.Schema, MeterProvider: metric.NewMeterProvider(metric.WithReader(reader)), Freshness: time.Nanosecond,
		StatementTimeout: *statementTimeout, Timeout: time.Minute, Logger: quiet,
	})
	must(w, err)
	defer stop()
	var times []time.Duration
	for range 11 {
		start := time.Now()
		var all metricdata.ResourceMetrics
		must(w, reader.Collect(w.Context(), &all))
		times = append(times, time.Since(start))
		for _, g := range all.ScopeMetrics[0].Metrics {
			if points := g.Data.(metricdata.Gauge[float64]).DataPoints; g.Name == "txwork.observation.skipped" &&
				points[0].Value != 0 {
				w.Errorf("%v statements were skipped", points[0].Value)
			}
		}
	}
	first := times[0]
	slices.Sort(times)
	w.Logf("eleven observations for gauges took %v in the median, %v at most; the first %v",
		times[5].Round(time.Millisecond), times[10].Round(time.Millisecond), first.Round(time.Millisecond))
}
