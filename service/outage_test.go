package service_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/service"
)

// An outage of some seconds makes one log line when it begins and one when it ends, whatever is running: claims,
// settles, renewals, the listener, the announcers, sweeps, folds, schedulers, the reaper and its gauges.
func TestAnOutageIsTwoLines(t *testing.T) {
	t.Parallel()
	server, err := localpg.Start(t.Context(), localpg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	pool, err := pgxpool.New(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(t.Context(), tables(t, "txwork")); err != nil {
		t.Fatal(err)
	}
	w := openWorld(t, &pgtest.DB{Pool: pool, Schema: "txwork"})
	reader := metric.NewManualReader()
	o := w.options()
	o.Reaper.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
	s, err := service.New(pool, o, w.parts()...)
	w.ok(err)
	stop := w.start(s)
	collect := func() {
		var all metricdata.ResourceMetrics
		w.ok(reader.Collect(t.Context(), &all))
	}
	work := func() {
		w.work()
		for range 4 {
			<-w.handled
		}
	}
	work()
	collect()
	before := len(w.logs.String())
	outages := pgtest.Size(1, 2)
	for outage := 1; outage <= outages; outage++ {
		for range 10 {
			w.work() // much of it is in flight when the outage begins
		}
		w.ok(server.Crash())
		for range pgtest.Size(2, 4) {
			pgtest.Pass(time.Second)
			collect()
		}
		w.ok(server.Restart(t.Context()))
		work()
		w.eventually("the end to be told", func() bool {
			return strings.Count(w.logs.String(), "database answers again") == outage
		})
		pgtest.Pass(2 * time.Second) // for more lines, of which there are to be none
		collect()
	}
	w.ok(stop())
	var told []string
	for _, line := range strings.Split(strings.TrimSpace(w.logs.String()[before:]), "\n") {
		// of a row that it cost an attempt, of a lease, of gauges for which a loaded machine needs too long
		if !strings.Contains(line, " id=") && !strings.Contains(line, `msg="reaper leads`) &&
			!strings.Contains(line, "SQLSTATE 57014") {
			told = append(told, line)
		}
	}
	pair := []string{`level=ERROR msg="database does not answer.*" (table|schema)=\S+.* error=`,
		`level=INFO msg="database answers again" (table|schema)=\S+.* after=`}
	want := slices.Repeat(pair, outages)
	if len(told) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(told), len(want), strings.Join(told, "\n"))
	}
	for i, line := range told {
		if !regexp.MustCompile(want[i]).MatchString(line) {
			t.Errorf("line %d is %s", i+1, line)
		}
	}
}
