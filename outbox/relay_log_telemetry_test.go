package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// What becomes of a log's messages is told by spans, metrics and events, as of rows.
func TestSettlesOfALogAreTold(t *testing.T) {
	t.Parallel()
	spans, reader := tracetest.NewSpanRecorder(), metric.NewManualReader()
	var mu sync.Mutex
	events := map[string]int{} // settled rows, by table and outcome
	f := newLog(t, func(o *outbox.Options) {
		o.Telemetry.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
		o.Telemetry.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
		o.Telemetry.Observer = func(_ context.Context, e workqueue.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Operation == "settle" && e.Err == nil {
				for _, r := range e.Rows {
					events[e.Table+" "+r.Labels["subscription"]+" "+string(r.Outcome)]++
				}
			}
		}
	})
	f.subscribe("s", 1)
	f.enqueue(outbox.Message{Topic: "good"}, outbox.Message{Topic: "bad", Key: "k"},
		outbox.Message{Topic: "good", Key: "k"}, outbox.Message{Topic: "hopeless"}, outbox.Message{Topic: "late"})
	var snoozed atomic.Bool
	run := f.subscriber("s", workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.HandleAll(func(_ context.Context, m *outbox.Delivery) error {
			switch {
			case m.Topic == "bad" && m.Attempt == 1:
				return workqueue.RetryAfter(0, errors.New("bad"))
			case m.Topic == "hopeless":
				return workqueue.Permanent(errors.New("hopeless"))
			case m.Topic == "late" && !snoozed.Swap(true):
				return workqueue.Snooze(0)
			}
			return nil
		})
	})
	f.until("all is settled", func() bool { return f.drained("s") })
	if err := run.end(); err != nil {
		t.Error(err)
	}

	log, parked := f.table+" s ", f.table+"_parked s "
	want := map[string]int{log + "ack": 1, log + "abandon": 1, log + "leave": 2, log + "snooze": 1, parked + "ack": 3,
		parked + "fail": 1}
	mu.Lock()
	defer mu.Unlock()
	if !maps.Equal(events, want) {
		t.Errorf("the events are %v, want %v", events, want)
	}
	isSettle := func(s sdktrace.ReadOnlySpan) bool { return s.Name() == "settle "+f.table }
	if !slices.ContainsFunc(spans.Ended(), isSettle) {
		t.Error("a settle of the log has no span")
	}
	if got, want := settledOf(t, reader, f.table), map[string]int64{"ack": 1, "abandon": 1, "release": 2,
		"snooze": 1}; !maps.Equal(got, want) {
		t.Errorf("the counters are %v, want %v", got, want)
	}
}

// settledOf reads how many messages of a table were settled, by outcome.
func settledOf(t *testing.T, reader metric.Reader, table string) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			sum, is := m.Data.(metricdata.Sum[int64])
			if !is || !strings.HasSuffix(m.Name, "settled") {
				continue
			}
			for _, p := range sum.DataPoints {
				of := map[string]string{}
				for _, a := range p.Attributes.ToSlice() {
					of[string(a.Key)] = a.Value.String()
				}
				if slices.Contains(slices.Collect(maps.Values(of)), table) {
					got[fmt.Sprint(of["txwork.outcome"])] += p.Value
				}
			}
		}
	}
	return got
}

// The relay of a log counts the messages of its subscription, apart from what becomes of those that it parks. It sends
// what it has counted when it ends, or leaves it to the next relay of the process if that takes more than a second.
func TestASubscriptionHasAHistory(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	m, err := migrations.SQL(migrations.FileOptions{Schema: f.DB.Schema,
		Domains: []migrations.Domain{migrations.Reaper}})
	if err != nil {
		t.Fatal(err)
	}
	f.Define(t, m)
	// Relays that have run while the schema had a history, and then while it had none, are no reason to count nothing.
	f.subscribe("earlier", 1)
	const beat = "(bigint, text, text, text, jsonb, jsonb, bigint, boolean)"
	for _, change := range []string{"", "ALTER PROCEDURE process_beat" + beat + " RENAME TO not_yet",
		"ALTER PROCEDURE not_yet" + beat + " RENAME TO process_beat"} {
		f.exec(change)
		f.enqueue(outbox.Message{Topic: "good", Payload: []byte("x")})
		earlier := f.subscriber("earlier", workqueue.WorkerOptions{}, func(r *outbox.Relay) {
			r.HandleAll(func(context.Context, *outbox.Delivery) error { return nil })
		})
		f.until("a relay has run", func() bool { return f.drained("earlier") })
		if err := earlier.end(); err != nil {
			t.Error(err)
		}
	}
	// The schema may have been that of another test, whose counts this process still has: no other has the name.
	f.subscribe("counted", 1)
	const good, bad = 30, 3
	for i := range good + bad {
		topic := "good"
		if i < bad {
			topic = "bad"
		}
		f.enqueue(outbox.Message{Topic: topic, Payload: []byte("x")})
	}
	handle := func(r *outbox.Relay) {
		r.HandleAll(func(_ context.Context, m *outbox.Delivery) error {
			switch {
			case m.Topic == "good":
				return nil
			case m.Attempt == 1:
				return workqueue.RetryAfter(0, errors.New("not yet"))
			}
			return workqueue.Permanent(errors.New("no"))
		})
	}
	// A relay that loses a lease handles messages once more, and counts that.
	long := workqueue.WorkerOptions{Lease: time.Hour}
	relay := f.subscriber("counted", long, handle)
	f.until("all are handled", func() bool { return f.drained("counted") })
	if err := relay.end(); err != nil {
		t.Error(err)
	}
	f.subscriber("counted", long, handle)
	for table, want := range map[string]string{"outbox_log": "30 3 0 33", "outbox_log_parked": "0 0 3 3"} {
		f.until(table+" has "+want, func() bool {
			f.exec("SELECT history_merge('{outbox_log_parked}')")
			var got string
			err := f.Pool.QueryRow(t.Context(), `SELECT concat_ws(' ', sum(done), sum(retried), sum(dead),
				coalesce(sum((SELECT sum(n) FROM unnest(runs) AS n)), 0))
				FROM history WHERE step = 60 AND lane = 'counted' AND table_name = $1`, table).Scan(&got)
			return err == nil && got == want
		})
	}
}
