package service_test

import (
	"context"
	"os"
	"path/filepath"
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
	"github.com/txwork/txwork/outbox"
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
		// of a row that it cost an attempt, of a lease, of gauges for which a loaded machine needs too long, and when
		// they are read again
		if !strings.Contains(line, " id=") && !strings.Contains(line, `msg="reaper leads`) &&
			!strings.Contains(line, "SQLSTATE 57014") && !strings.Contains(line, "gauges can be observed again") {
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

// aServer starts a private server with the tables, and opens the world on it.
func aServer(t *testing.T) (*localpg.Server, *world) {
	t.Helper()
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
	return server, openWorld(t, &pgtest.DB{Pool: pool, Schema: "txwork"})
}

// A server that has become a standby answers, and refuses to write. This is one line when it begins and one when it
// ends, which name the cause, as the probe does.
func TestAReadOnlyServerIsTwoLines(t *testing.T) {
	t.Parallel()
	server, w := aServer(t)
	s, err := service.New(w.db.Pool, w.options(), w.parts()...)
	w.ok(err)
	stop := w.start(s)
	w.eventually("it claims", func() bool { return s.Ready() == nil })
	w.work()
	for range 4 {
		<-w.handled
	}
	before := len(w.logs.String())
	signal := filepath.Join(server.Dir(), "data", "standby.signal")
	w.ok(server.Crash())
	w.ok(os.WriteFile(signal, nil, 0o644))
	w.ok(server.Restart(t.Context()))
	w.eventually("the probe names the cause", func() bool {
		err := s.Ready()
		return err != nil && strings.Contains(err.Error(), "the database is read-only: connect to the primary")
	})
	w.eventually("the log names the cause", func() bool {
		return strings.Contains(w.logs.String()[before:], "connect to the primary")
	})
	pgtest.Pass(time.Duration(pgtest.Size(5, 30)) * time.Second)
	w.ok(server.Crash())
	w.ok(os.Remove(signal))
	w.ok(server.Restart(t.Context()))
	w.eventually("it claims again", func() bool { return s.Ready() == nil })
	w.eventually("the end to be told", func() bool {
		return strings.Contains(w.logs.String()[before:], "database can be written again")
	})
	w.work()
	for range 4 {
		<-w.handled
	}
	w.ok(stop())
	var told []string
	for _, line := range strings.Split(strings.TrimSpace(w.logs.String()[before:]), "\n") {
		// A crash may leave a lease behind, which a reaper tells of.
		if !strings.Contains(line, " id=") && !strings.Contains(line, `msg="reaper leads`) &&
			!strings.Contains(line, "msg=reaped") {
			told = append(told, line)
		}
	}
	read := slices.ContainsFunc(told, func(l string) bool {
		return strings.Contains(l, `level=ERROR msg="database is read-only; the work goes on when it can be written"`)
	})
	// The server was down before and after, which may have been noticed.
	if len(told) > 3 || !read {
		t.Errorf("%d lines:\n%s", len(told), strings.Join(told, "\n"))
	}
}

// A database that is away makes a line when that begins, and one for each process at most, however many there are and
// whatever it does.
func TestDatabasesThatAreAwayAreFewLines(t *testing.T) {
	t.Parallel()
	server, w := aServer(t)
	w.ok(server.Crash())
	for range 3 {
		o := w.options()
		o.Tables = w.box.Tables()
		s, err := service.New(w.db.Pool, o)
		w.ok(err)
		w.start(s)
		r, err := outbox.NewRelay(w.db.Pool, w.box, outbox.RelayOptions{})
		w.ok(err)
		r.HandleAll(func(context.Context, *outbox.Delivery) error { return nil })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		t.Cleanup(func() { stop(); <-ended })
	}
	pgtest.Pass(time.Duration(pgtest.Size(10, 60)) * time.Second)
	t.Logf("%s", w.logs)
	if n := strings.Count(w.logs.String(), "\n"); n > 6 {
		t.Errorf("%d lines", n)
	}
}
