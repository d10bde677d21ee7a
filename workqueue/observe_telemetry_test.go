package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/metrics"
)

// A scope is what the OpenTelemetry SDK has recorded of a rig's telemetry.
type scope struct {
	spans   *tracetest.SpanRecorder
	tracers *sdktrace.TracerProvider
	reader  *metric.ManualReader
}

func newScope() *scope {
	s := &scope{spans: tracetest.NewSpanRecorder(), reader: metric.NewManualReader()}
	s.tracers = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(s.spans))
	return s
}

func (s *scope) attach(r **rig, logs slog.Leveler) func(*workqueue.Telemetry) {
	return func(t *workqueue.Telemetry) {
		t.TracerProvider = s.tracers
		t.MeterProvider = metric.NewMeterProvider(metric.WithReader(s.reader))
		if logs != nil {
			t.Logger = slog.New(slog.NewJSONHandler((*r).Logs, &slog.HandlerOptions{Level: logs}))
		}
	}
}

// named returns the ended spans whose names begin with a word.
func (s *scope) named(operation string) []sdktrace.ReadOnlySpan {
	var found []sdktrace.ReadOnlySpan
	for _, span := range s.spans.Ended() {
		if strings.HasPrefix(span.Name(), operation+" ") {
			found = append(found, span)
		}
	}
	return found
}

func links(spans []sdktrace.ReadOnlySpan) []trace.SpanID {
	var ids []trace.SpanID
	for _, span := range spans {
		for _, link := range span.Links() {
			ids = append(ids, link.SpanContext.SpanID())
		}
	}
	return ids
}

// The spans that receive and process a row link to its producer's span, by way of the row's headers.
func TestSpansAreLinkedToTheProducer(t *testing.T) {
	t.Parallel()
	s := newScope()
	var r *rig
	r = newRig(t, rigOptions{telemetry: s.attach(&r, nil), spec: func(s *workqueue.Spec) { s.Retry = never }})
	handled := make(chan trace.SpanContext, 2)
	w := r.start(workqueue.WorkerOptions{}, func(ctx context.Context, c *noteClaim) error {
		handled <- trace.SpanContextFromContext(ctx)
		if c.Body.Topic == "fail" {
			return errors.New("boom")
		}
		return nil
	})
	ctx, app := s.tracers.Tracer("app").Start(t.Context(), "app request")
	err := pgx.BeginFunc(ctx, r.Eyes, func(tx pgx.Tx) error {
		_, err := r.Table.Insert(ctx, workqueue.Pgx(tx),
			workqueue.NewRow{Values: []any{"traced", ""}}, workqueue.NewRow{Values: []any{"fail", ""}})
		return err
	})
	app.End()
	if err != nil {
		t.Fatal(err)
	}
	inHandler := []trace.SpanContext{receive(t, handled, "a handler"), receive(t, handled, "a handler")}
	r.eventually("both settles", func() bool { return r.count("status = 1") == 0 && len(s.named("settle")) > 0 })
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
	sends := s.named("enqueue")
	if len(sends) != 1 || sends[0].SpanKind() != trace.SpanKindProducer ||
		sends[0].Parent().SpanID() != app.SpanContext().SpanID() {
		t.Fatalf("producer spans %v, want one under the application's", sends)
	}
	// The rows carry the trace of their producer: the send span, or the one that it is under.
	producer := []trace.SpanID{sends[0].SpanContext().SpanID(), app.SpanContext().SpanID()}
	for _, operation := range []string{"claim", "process"} {
		got := links(s.named(operation))
		if len(got) != 2 || !slices.Contains(producer, got[0]) || got[0] != got[1] {
			t.Errorf("%s spans link to %v, want twice to one of %v", operation, got, producer)
		}
	}
	for _, span := range s.named("process") {
		if span.SpanKind() != trace.SpanKindConsumer {
			t.Errorf("a process span of kind %v", span.SpanKind())
		}
		if !slices.ContainsFunc(inHandler,
			func(c trace.SpanContext) bool { return c.SpanID() == span.SpanContext().SpanID() }) {
			t.Error("a handler ran outside its process span")
		}
		if span.SpanContext().TraceID() == app.SpanContext().TraceID() {
			t.Error("a process span is in the producer's trace: it is to link to it")
		}
	}
	failed := slices.ContainsFunc(s.named("process"),
		func(span sdktrace.ReadOnlySpan) bool { return span.Status().Code == codes.Error })
	if !failed {
		t.Error("no process span tells of the failed attempt")
	}
	for _, span := range s.spans.Ended() {
		if span.Name() == "app request" {
			continue
		}
		attributes := attribute.NewSet(span.Attributes()...)
		for key, want := range map[attribute.Key]string{"messaging.system": "txwork",
			"messaging.destination.name": r.Table.Name()} {
			if v, _ := attributes.Value(key); v.AsString() != want {
				t.Errorf("%s has %s = %q, want %q", span.Name(), key, v.AsString(), want)
			}
		}
	}
}

// sums returns the points of a counter, or the counts of a histogram, by the value of an attribute.
func (s *scope) sums(t *testing.T, name string, by attribute.Key) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := s.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	sums := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					v, _ := p.Attributes.Value(by)
					sums[v.AsString()] += p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					v, _ := p.Attributes.Value(by)
					sums[v.AsString()] += int64(p.Count)
				}
			}
		}
	}
	return sums
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	s := newScope()
	var r *rig
	r = newLedgerRig(t, rigOptions{telemetry: s.attach(&r, nil), spec: func(s *workqueue.Spec) {
		s.Retry,
			s.Labels = never, []string{"topic"}
	}})
	results := map[string]func(context.Context, *noteClaim) error{
		"ack":     func(context.Context, *noteClaim) error { return nil },
		"abandon": func(context.Context, *noteClaim) error { return errors.New("boom") },
		"snooze":  func(context.Context, *noteClaim) error { return workqueue.Snooze(time.Hour) },
		"panic":   func(context.Context, *noteClaim) error { panic("boom") },
		"fail":    func(context.Context, *noteClaim) error { return workqueue.Permanent(errors.New("boom")) },
		"cancel":  func(context.Context, *noteClaim) error { return workqueue.Cancelled("no") },
		"fail in Tx": func(ctx context.Context, c *noteClaim) error {
			return c.Tx(ctx, func(pgx.Tx) error { return workqueue.Permanent(errors.New("boom")) })
		},
		"stolen": func(ctx context.Context, c *noteClaim) error {
			r.exec("UPDATE notes SET owner_token = $2 WHERE id = $1", c.ID, uuid.New())
			return nil
		},
	}
	// A listener renews all leases when it has connected, and would find the stolen row before its settle does.
	quiet := workqueue.WorkerOptions{Lease: time.Hour, NoListen: true, PollInterval: 20 * time.Millisecond}
	w := r.start(quiet, func(ctx context.Context, c *noteClaim) error { return results[c.Body.Topic](ctx, c) })
	for name := range results {
		r.insertRows(workqueue.NewRow{Values: []any{name, ""}, MaxAttempts: map[string]int{"panic": 1}[name]})
	}
	r.eventually("all settles", func() bool {
		return r.count("completed_at IS NOT NULL OR status = 0 AND due_at > now()") == len(results)-1 &&
			r.Events.count(refused("settle", workqueue.ErrLeaseLost)) == 1
	})
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
	operation, topic, errorType, reason := attribute.Key("messaging.operation.name"), attribute.Key("txwork.topic"),
		attribute.Key("error.type"), attribute.Key("txwork.reason")
	n := int64(len(results))
	each := map[string]int64{}
	for name := range results {
		each[name] = 1
	}
	settled := maps.Clone(each)
	delete(settled, "stolen") // its ack was refused
	for _, want := range []struct {
		metric string
		by     attribute.Key
		sums   map[string]int64
	}{
		{"messaging.client.sent.messages", operation, map[string]int64{"enqueue": n}},
		{"messaging.client.sent.messages", topic, each},
		{"messaging.client.consumed.messages", operation, map[string]int64{"claim": n}},
		{"messaging.client.consumed.messages", topic, each},
		{"txwork.start.delay", topic, each},
		{"messaging.process.duration", operation, map[string]int64{"process": n}},
		{"messaging.process.duration", topic, each},
		{"messaging.process.duration", errorType, map[string]int64{"": 4, "*errors.errorString": 3, "panic": 1}},
		{"txwork.settled", "txwork.outcome", map[string]int64{"ack": 1, "abandon": 1, "exhausted": 1, "snooze": 1,
			"fail": 2, "cancel": 1}},
		{"txwork.settled", topic, settled},
		{"txwork.retried", reason, map[string]int64{"error": 1}},
		{"txwork.retried", topic, map[string]int64{"abandon": 1}},
		{"txwork.dead_letters", reason, map[string]int64{"permanent": 2, "exhausted": 1}},
		{"txwork.lease.lost", operation, map[string]int64{"settle": 1}},
	} {
		if got := s.sums(t, want.metric, want.by); !maps.Equal(got, want.sums) {
			t.Errorf("%s by %s: %v, want %v", want.metric, want.by, got, want.sums)
		}
	}
	durations := s.sums(t, "messaging.client.operation.duration", operation)
	if durations["enqueue"] != n || durations["claim"] == 0 || durations["settle"] == 0 || durations["extend"] != 0 {
		t.Errorf("operation durations %v", durations)
	}
	if got := s.sums(t, "messaging.client.operation.duration", errorType); got["lease_lost"] != 1 {
		t.Errorf("operation durations by error %v, want one lost lease", got)
	}
	claims := s.named("claim")
	if len(claims) == 0 {
		t.Error("no claim has a span")
	}
	for _, span := range claims { // the worker has polled an empty table, too
		attributes := attribute.NewSet(span.Attributes()...)
		if v, _ := attributes.Value("messaging.batch.message_count"); v.AsInt64() < 1 {
			t.Errorf("a claim's span tells of %d messages", v.AsInt64())
		}
	}
}

// Metrics lists exactly what is reported: names, kinds, units and attributes.
func TestTheListOfMetrics(t *testing.T) {
	t.Parallel()
	s := newScope()
	var r *rig
	r = newRig(t, rigOptions{telemetry: s.attach(&r, nil),
		spec: func(s *workqueue.Spec) { s.Labels = []string{"topic"} }})
	ids := r.insertMany("measured", 3)
	token := workqueue.NewOwnerToken()
	expire := func(id uuid.UUID) {
		r.exec("UPDATE notes SET locked_until = now() - interval '1 hour' WHERE id = $1", id)
	}
	for _, do := range []func() (any, error){
		func() (any, error) { return r.Queue.Claim(t.Context(), token, time.Hour, 3) },
		func() (any, error) { return r.Queue.Ack(t.Context(), token, ids[:1]) },
		func() (any, error) { return r.Queue.Fail(t.Context(), token, ids[1:2], "x") },
		func() (any, error) { return r.Queue.Redrive(t.Context(), ids[1:2], "x") },
		func() (any, error) { return r.Queue.Cancel(t.Context(), ids[1:2], "x") },
		func() (any, error) { return r.Queue.PurgeDone(t.Context(), 0, 1) },
		func() (any, error) { expire(ids[2]); return r.Queue.ReapExpired(t.Context(), 1) },
		func() (any, error) {
			return nil, r.Table.ProcessArrival(t.Context(), []any{"measured", ""},
				func(context.Context) (uuid.UUID, string, error) { return uuid.Nil, "processed", nil })
		},
	} {
		if _, err := do(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Queue.Ack(t.Context(), token, ids[2:]); !errors.Is(err, workqueue.ErrLeaseLost) {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Queue.ReapExpired(ended, 1); err == nil {
		t.Fatal("a reap with a context that has ended succeeded")
	}
	w := r.start(workqueue.WorkerOptions{}, func(_ context.Context, c *noteClaim) error {
		if c.Body.Topic == "again" {
			return errors.New("boom")
		}
		return workqueue.Permanent(errors.New("boom"))
	})
	r.eventually("an announcement and a worker's dead letter", func() bool {
		r.load(60, nil)
		return len(s.sums(t, "txwork.announcements", "")) > 0 &&
			s.sums(t, "txwork.dead_letters", "txwork.topic")["load 0"] > 0
	})
	r.insertRows(workqueue.NewRow{Values: []any{"again", ""}})
	r.eventually("a retry", func() bool { return s.sums(t, "txwork.retried", "txwork.topic")["again"] > 0 })
	var all metricdata.ResourceMetrics
	if err := s.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
	reported := map[string]metrics.Metric{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			kind, keys, buckets := pointsOf(m)
			reported[m.Name] = metrics.Metric{Name: m.Name, Instrument: kind, Unit: m.Unit, Attributes: keys,
				Meaning: m.Description, Buckets: buckets}
		}
	}
	for _, want := range metrics.Workers() {
		got := reported[want.Name]
		delete(reported, want.Name)
		if i := slices.Index(want.Attributes, metrics.RowLabels); i >= 0 {
			want.Attributes[i] = "txwork.topic"
		}
		// the table has none
		want.Attributes = slices.DeleteFunc(slices.Clone(want.Attributes),
			func(a string) bool { return a == "txwork.queue" || a == "txwork.consumer" })
		slices.Sort(want.Attributes)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("reported is %+v\nlisted is %+v", got, want)
		}
	}
	for name := range reported {
		t.Errorf("%s is reported and not listed", name)
	}
}

// pointsOf returns the kind of a metric, the keys that its points have, and the boundaries of a histogram.
func pointsOf(m metricdata.Metrics) (kind string, keys []string, buckets []float64) {
	note := func(set attribute.Set) {
		for _, a := range set.ToSlice() {
			if !slices.Contains(keys, string(a.Key)) {
				keys = append(keys, string(a.Key))
			}
		}
	}
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		if kind = "counter"; !data.IsMonotonic {
			kind = "up-down counter"
		}
		for _, p := range data.DataPoints {
			note(p.Attributes)
		}
	case metricdata.Histogram[float64]:
		kind = "histogram"
		for _, p := range data.DataPoints {
			buckets = p.Bounds
			note(p.Attributes)
		}
	}
	slices.Sort(keys)
	return kind, keys, buckets
}

// A row's labels are on the span of its handler and in the log line about its outcome.
func TestLabelsAreOnSpansAndLines(t *testing.T) {
	t.Parallel()
	s := newScope()
	r := &rig{Logs: &logBuffer{}}
	logs := r.Logs
	r = newRig(t, rigOptions{
		telemetry: func(t *workqueue.Telemetry) {
			t.TracerProvider, t.Logger = s.tracers, slog.New(slog.NewTextHandler(logs, nil))
		},
		spec: func(s *workqueue.Spec) { s.Retry, s.Labels = never, []string{"topic"} },
	})
	r.insertRows(workqueue.NewRow{Values: []any{"again", ""}}, workqueue.NewRow{Values: []any{"dead", ""},
		MaxAttempts: 1})
	r.process(r.drain(r.worker(workqueue.WorkerOptions{}, func(context.Context,
		*noteClaim) error {
		return errors.New("boom")
	}).Drain()), 2)
	for _, want := range []string{`msg="attempt failed" table=` + r.Table.Name() + " topic=again id=",
		`msg="dead letter" table=` + r.Table.Name() + " topic=dead id="} {
		if !strings.Contains(logs.String(), want) {
			t.Errorf("no line has %s:\n%s", want, logs)
		}
	}
	var topics []string
	for _, span := range s.named("process") {
		attributes := attribute.NewSet(span.Attributes()...)
		topic, _ := attributes.Value("txwork.topic")
		topics = append(topics, topic.AsString())
	}
	if slices.Sort(topics); !slices.Equal(topics, []string{"again", "dead"}) {
		t.Errorf("spans have the topics %v", topics)
	}
}

// Rows that are claimed, settled and reaped through a Queue are counted like those of a worker.
func TestMetricsByHand(t *testing.T) {
	t.Parallel()
	s := newScope()
	var r *rig
	r = newRig(t, rigOptions{telemetry: s.attach(&r, nil),
		spec: func(s *workqueue.Spec) { s.Labels = []string{"topic"} }})
	ctx, token := t.Context(), workqueue.NewOwnerToken()
	ids := r.insertMany("by hand", 12)
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(r.Queue.Claim(ctx, token, time.Hour, 12))
	do(r.Queue.Ack(ctx, token, ids[:3]))
	r.exec("UPDATE notes SET attempts = max_attempts WHERE id = $1", ids[8])
	do(r.Queue.Cancel(ctx, ids[10:], "no"))
	do(r.Queue.Retry(ctx, token, ids[8:11], "x")) // exhausted, Ready again, cancelled
	r.exec("UPDATE notes SET locked_until = now() - interval '1 hour' WHERE id = $1", ids[11])
	do(r.Queue.Fail(ctx, token, ids[3:4], "x"))
	do(r.Queue.Snooze(ctx, token, ids[4:5], time.Hour))
	if _, err := r.Queue.Ack(ctx, uuid.New(), ids[5:6]); !errors.Is(err, workqueue.ErrLeaseLost) {
		t.Errorf("an ack with another's token: %v", err)
	}
	r.exec("UPDATE notes SET locked_until = now() - interval '1 hour', max_attempts = CASE id WHEN $1 THEN 1 "+
		"ELSE max_attempts END WHERE status = 1", ids[5])
	do(r.Queue.ReapExpired(ctx, 10))
	for metric, want := range map[string]map[string]int64{
		"messaging.client.consumed.messages": {"by hand": 12},
		"txwork.settled":                     {"": 8}, // their topics are not known
		"txwork.cancelled":                   {"": 2},
		"txwork.lease.expired":               {"": 4},
	} {
		if got := s.sums(t, metric, "txwork.topic"); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", metric, got, want)
		}
	}
	if got, want := s.sums(t, "txwork.settled", "txwork.outcome"), map[string]int64{"ack": 3, "fail": 1, "snooze": 1,
		"exhausted": 1, "abandon": 1, "cancel": 1}; !maps.Equal(got, want) {
		t.Errorf("settled: %v, want %v", got, want)
	}
	if got, want := s.sums(t, "txwork.dead_letters", "txwork.reason"), map[string]int64{"permanent": 1, "exhausted": 1,
		"lease_expired": 1}; !maps.Equal(got, want) {
		t.Errorf("dead letters: %v, want %v", got, want)
	}
	if got, want := s.sums(t, "txwork.retried", "txwork.reason"), map[string]int64{"error": 1,
		"lease_expired": 2}; !maps.Equal(got, want) {
		t.Errorf("retried: %v, want %v", got, want)
	}
	do(r.Queue.Redrive(ctx, ids[3:4], "x"))
	do(r.Queue.Redrive(ctx, ids[:1], "x")) // it is done: nothing to redrive
	do(r.Queue.PurgeDone(ctx, 0, 100))     // three that are done, two that were cancelled
	do(r.Queue.PurgeFailed(ctx, 0, 1))
	do(r.Queue.PurgeFailed(ctx, 0, 100))
	if got, want := s.sums(t, "txwork.redriven", "txwork.topic"), map[string]int64{"": 1}; !maps.Equal(got, want) {
		t.Errorf("redriven: %v, want %v", got, want)
	}
	if got, want := s.sums(t, "txwork.purged", "txwork.state"), map[string]int64{"done": 5,
		"dead_letter": 2}; !maps.Equal(got, want) {
		t.Errorf("purged: %v, want %v", got, want)
	}
}

// If an application uses thousands of topics, metrics do not have a time series for each.
func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	s := newScope()
	var r *rig
	r = newRig(t, rigOptions{telemetry: s.attach(&r, nil),
		spec: func(s *workqueue.Spec) { s.Labels = []string{"topic"} }})
	rows := make([]workqueue.NewRow, 500)
	for i := range rows {
		rows[i].Values = []any{fmt.Sprint("topic ", i), ""}
	}
	r.insertRows(rows...)
	got := s.sums(t, "messaging.client.sent.messages", "txwork.topic")
	total := int64(0)
	for _, n := range got {
		total += n
	}
	if len(got) != 101 || got["_OTHER"] != 400 || total != 500 {
		t.Errorf("%d topics with %d rows, %d of them under others", len(got), total, got["_OTHER"])
	}
}

// The Observer is told of every operation, with the rows that changed.
func TestObserverSeesEveryOperation(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	ids := r.insertMany("observed", 8)
	token := workqueue.NewOwnerToken()
	ctx := t.Context()
	steps := []struct {
		operation string
		do        func() (any, error)
		changed   int
		err       error
	}{
		{"claim", func() (any, error) { return r.Queue.Claim(ctx, token, time.Hour, 8) }, 8, nil},
		{"extend", func() (any, error) { return r.Queue.Extend(ctx, token, ids, time.Hour) }, 8, nil},
		{"ack", func() (any, error) { return r.Queue.Ack(ctx, token, ids[:2]) }, 2, nil},
		{"ack", func() (any, error) { return r.Queue.Ack(ctx, uuid.New(), ids[:2]) }, 0, workqueue.ErrLeaseLost},
		{"abandon", func() (any, error) { return r.Queue.Abandon(ctx, token, ids[2:3], time.Hour, "x") }, 1, nil},
		{"abandon", func() (any, error) { return r.Queue.Retry(ctx, token, ids[3:4], "x") }, 1, nil},
		{"snooze", func() (any, error) { return r.Queue.Snooze(ctx, token, ids[4:5], time.Hour) }, 1, nil},
		{"snooze", func() (any, error) { return r.Queue.Release(ctx, token, ids[5:6]) }, 1, nil},
		{"fail", func() (any, error) { return r.Queue.Fail(ctx, token, ids[6:7], "x") }, 1, nil},
		{"cancel", func() (any, error) { return r.Queue.Cancel(ctx, ids[4:5], "x") }, 1, nil},
		{"redrive", func() (any, error) { return r.Queue.Redrive(ctx, ids[6:7], "x") }, 1, nil},
		{"reap", func() (any, error) {
			r.exec("UPDATE notes SET locked_until = now() - interval '1 hour' WHERE id = $1", ids[7])
			return r.Queue.ReapExpired(ctx, 10)
		}, 1, nil},
		{"purge", func() (any, error) { return r.Queue.PurgeDone(ctx, 0, 10) }, 3, nil}, // the cancelled one, too
		{"purge", func() (any, error) { return r.Queue.PurgeFailed(ctx, 0, 10) }, 0, nil},
	}
	for _, step := range steps {
		before := r.Events.count(func(workqueue.Event) bool { return true })
		if _, err := step.do(); !errors.Is(err, step.err) {
			t.Errorf("%s: %v", step.operation, err)
		}
		r.Events.mu.Lock()
		told := slices.Clone(r.Events.events[before:])
		r.Events.mu.Unlock()
		if len(told) != 1 || told[0].Operation != step.operation || told[0].Changed != step.changed ||
			!errors.Is(told[0].Err, step.err) || told[0].Table != r.Table.Name() {
			t.Errorf("%s: told of %+v", step.operation, told)
		}
	}
}

// Neither bodies nor redacted errors show up in logs, spans or metrics.
func TestTelemetryKeepsSecrets(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	s := newScope()
	r := &rig{Logs: &logBuffer{}}
	logs := r.Logs
	telemetry := s.attach(&r, nil)
	r = newRig(t, rigOptions{
		spec: func(s *workqueue.Spec) {
			s.MaxAttempts = 2
			s.Columns = append(s.Columns, workqueue.Column{Name: "n", Type: "integer"}, workqueue.Column{Name: "j",
				Type: "jsonb"})
		},
		telemetry: func(t *workqueue.Telemetry) {
			telemetry(t)
			t.Logger = slog.New(slog.NewJSONHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
		},
	})
	domain := workqueue.Domain[note]{Table: r.Table, Columns: func(n *note, c *workqueue.Columns) {
		n.columns(c)
		for _, column := range r.Table.Spec().Columns[2:] {
			c.Field(column, new(any))
		}
	}}
	w := r.startOn(r.Pool, domain, workqueue.WorkerOptions{
		Redact: func(_ context.Context, message string) string { return strings.ReplaceAll(message, secret, "***") },
	}, func(ctx context.Context, c *noteClaim) error {
		switch c.Body.Topic {
		case "fail":
			return workqueue.Permanent(errors.New("the password is " + c.Body.Payload))
		case "error":
			return errors.New("the password is " + c.Body.Payload)
		case "panic":
			panic("the password is " + c.Body.Payload)
		case "tx":
			return c.Tx(ctx, func(pgx.Tx) error {
				return workqueue.Permanent(errors.New("the password is " +
					c.Body.Payload))
			})
		}
		return nil
	})
	for _, topic := range []string{"ack", "fail", "error", "panic", "tx"} {
		r.insertRows(workqueue.NewRow{Values: []any{topic, secret, nil, `{"password": "` + secret + `"}`},
			Headers: map[string]string{"authorization": secret}})
	}
	for name, values := range map[string][]any{
		"broken JSON":  {"broken", secret, nil, "{" + secret},
		"not a number": {"broken", secret, secret, nil},
		"NULL":         {nil, secret, nil, nil},
	} {
		err := pgx.BeginFunc(t.Context(), r.Eyes, func(tx pgx.Tx) error {
			_, err := r.Table.Insert(t.Context(), workqueue.Pgx(tx), workqueue.NewRow{Values: values})
			return err
		})
		if err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	r.eventually("every row to end", func() bool { return r.count("completed_at IS NULL") == 0 })
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
	if log := logs.String(); strings.Contains(log, secret) || !strings.Contains(log, `"msg":"claim"`) {
		i := max(strings.Index(log, secret)-300, 0)
		t.Errorf("in the logs: %s", log[i:min(i+600, len(log))])
	}
	spans := s.spans.Ended()
	if len(s.named("process")) < 5 {
		t.Errorf("only %d spans", len(spans))
	}
	for _, span := range spans {
		text := span.Name() + span.Status().Description
		for _, a := range span.Attributes() {
			text += a.Value.String()
		}
		for _, e := range span.Events() {
			for _, a := range e.Attributes {
				text += a.Value.String()
			}
		}
		if i := strings.Index(text, secret); i >= 0 {
			t.Errorf("in a span: %s", text[max(i-200, 0):i])
		}
	}
	var metrics metricdata.ResourceMetrics
	if err := s.reader.Collect(t.Context(), &metrics); err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%+v", metrics); strings.Contains(text, secret) ||
		!strings.Contains(text, "messaging.process.duration") {
		t.Errorf("in the metrics: %s", text)
	}
	if n := r.count("last_error LIKE '%' || $1 || '%'", secret); n != 0 {
		t.Errorf("in %d rows", n)
	}
	if n := r.count("last_error LIKE '%***%'"); n != 4 {
		t.Errorf("%d rows have a redacted error, want 4", n)
	}
}

// Tracers and meters name their instrumentation scope, with the version of the conventions by which the names are to be
// read.
func TestScopesNameTheirConventions(t *testing.T) {
	t.Parallel()
	s := newScope()
	var r *rig
	r = newRig(t, rigOptions{telemetry: s.attach(&r, nil)})
	r.insertMany("scoped", 1)
	var all metricdata.ResourceMetrics
	if err := s.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	var scopes []instrumentation.Scope
	for _, m := range all.ScopeMetrics {
		scopes = append(scopes, m.Scope)
	}
	for _, span := range s.spans.Ended() {
		scopes = append(scopes, span.InstrumentationScope())
	}
	if len(scopes) < 2 {
		t.Fatalf("scopes %v, want one of metrics and one of spans", scopes)
	}
	for _, scope := range scopes {
		if scope.Name != "github.com/txwork/txwork/workqueue" || scope.SchemaURL != semconv.SchemaURL {
			t.Errorf("scope %+v, want the conventions %s", scope, semconv.SchemaURL)
		}
	}
}

// histogram returns the sum of a histogram's points, and their boundaries.
func (s *scope) histogram(t *testing.T, name string) (count uint64, sum float64, bounds []float64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := s.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if data, is := m.Data.(metricdata.Histogram[float64]); is && m.Name == name {
				for _, p := range data.DataPoints {
					count, sum, bounds = count+p.Count, sum+p.Sum, p.Bounds
				}
			}
		}
	}
	return count, sum, bounds
}

// The delay ends at the start of the handler. It begins when the row was due, even if that was long before a worker
// came, and not when the row was written, if it is due later.
func TestTheDelayOfAStart(t *testing.T) {
	t.Parallel()
	s := newScope()
	var r *rig
	r = newRig(t, rigOptions{telemetry: s.attach(&r, nil)})
	old := r.insertMany("old", 1)
	r.exec("UPDATE notes SET due_at = now() - interval '2 hours', created_at = now() - interval '3 hours' WHERE id = $1", old[0])
	w := r.start(workqueue.WorkerOptions{}, ackAll)
	r.awaitStatus(workqueue.Done, old...)
	count, sum, bounds := s.histogram(t, "txwork.start.delay")
	if count != 1 || sum < 2*3600 || sum > 2.5*3600 {
		t.Errorf("%d starts with a delay of %v s, want one of two hours", count, sum)
	}
	if len(bounds) == 0 || bounds[0] > 0.001 || bounds[len(bounds)-1] != 3600 {
		t.Errorf("boundaries %v, want them from a millisecond to an hour", bounds)
	}
	later := r.insertMany("later", 1)
	r.exec("UPDATE notes SET created_at = now() - interval '3 hours' WHERE id = $1", later[0])
	r.awaitStatus(workqueue.Done, later...)
	if count, total, _ := s.histogram(t, "txwork.start.delay"); count != 2 || total-sum > 1800 {
		t.Errorf("%d starts with a delay of %v s, want a second one of moments", count, total)
	}
	for name, last := range map[string]float64{"messaging.process.duration": 3600,
		"messaging.client.operation.duration": 10} {
		if _, _, bounds := s.histogram(t, name); len(bounds) == 0 || bounds[len(bounds)-1] != last {
			t.Errorf("%s is measured up to %v, want %v s", name, bounds, last)
		}
	}
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
}

// While workers run, each process reports the rows that they hold, the handlers that run, and how many may run.
// Afterwards it reports nothing.
func TestTheLoadOfWorkers(t *testing.T) {
	t.Parallel()
	s := newScope()
	var r *rig
	r = newRig(t, rigOptions{telemetry: s.attach(&r, nil),
		spec: func(s *workqueue.Spec) { s.Lanes = []string{"topic"} }})
	proceed, started := make(chan struct{}), make(chan struct{}, 100)
	handler := func(context.Context, *noteClaim) error {
		started <- struct{}{}
		<-proceed
		return nil
	}
	domain := r.Domain
	var workers []*running
	for _, lanes := range [][][]any{{{"mail"}}, {{"mail"}}, {{"a"}, {"b"}}} {
		domain.Lanes = lanes
		workers = append(workers, r.startOn(r.Pool, domain, workqueue.WorkerOptions{Concurrency: 3, NoListen: true},
			handler))
	}
	for _, topic := range []string{"mail", "mail", "mail", "mail", "a", "b"} {
		r.insertRows(workqueue.NewRow{Values: []any{topic, ""}})
	}
	for range 6 {
		receive(t, started, "a handler")
	}
	want := map[string]map[string]int64{
		"txwork.worker.in_flight":   {"mail": 4, "": 2},
		"txwork.worker.running":     {"mail": 4, "": 2},
		"txwork.worker.concurrency": {"mail": 6, "": 3},
	}
	for metric, want := range want {
		if got := s.sums(t, metric, "txwork.topic"); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", metric, got, want)
		}
	}
	close(proceed)
	r.eventually("the settles", func() bool {
		return s.sums(t, "txwork.worker.in_flight", "txwork.topic")["mail"] == 0
	})
	for _, w := range workers {
		if err := w.stop(t); err != nil {
			t.Error(err)
		}
	}
	for metric := range want {
		if got := s.sums(t, metric, "txwork.topic"); len(got) > 0 {
			t.Errorf("%s is told without workers: %v", metric, got)
		}
	}
}
