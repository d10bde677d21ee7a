package inbox_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/workqueue"
)

// An observed inbox reports to an SDK of its own.
type observed struct {
	*fixture
	spans  *tracetest.SpanRecorder
	tracer trace.Tracer
	reader *metric.ManualReader
}

func newObserved(t *testing.T) *observed {
	t.Helper()
	o := &observed{spans: tracetest.NewSpanRecorder(), reader: metric.NewManualReader()}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(o.spans))
	o.tracer = tracers.Tracer("application")
	o.fixture = newInbox(t, func(options *inbox.Options) {
		options.Telemetry.TracerProvider = tracers
		options.Telemetry.MeterProvider = metric.NewMeterProvider(metric.WithReader(o.reader))
	})
	return o
}

// counts returns how many measurements a metric has, by the value of an attribute.
func (o *observed) counts(name string, by attribute.Key) map[string]int64 {
	o.Helper()
	var all metricdata.ResourceMetrics
	if err := o.reader.Collect(o.Context(), &all); err != nil {
		o.Fatal(err)
	}
	counts := map[string]int64{}
	add := func(set attribute.Set, n int64) {
		value, _ := set.Value(by)
		counts[value.AsString()] += n
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					if m.Name == name {
						add(p.Attributes, p.Value)
					}
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					if m.Name == name {
						add(p.Attributes, int64(p.Count))
					}
				}
			}
		}
	}
	return counts
}

// span returns the n-th span of Process that has ended.
func (o *observed) span(n int) sdktrace.ReadOnlySpan {
	o.Helper()
	var found []sdktrace.ReadOnlySpan
	for _, s := range o.spans.Ended() {
		if s.Name() == "process "+o.table {
			found = append(found, s)
		}
	}
	if len(found) <= n {
		o.Fatalf("%d spans of Process have ended, want more than %d", len(found), n)
	}
	return found[n]
}

func TestProcessHasASpanOfAHandler(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	ctx, request := o.tracer.Start(t.Context(), "request")
	var inHandler trace.SpanContext
	result, err := o.box.Process(ctx, o.Pool, key("1"), func(ctx context.Context, _ pgx.Tx) error {
		inHandler = trace.SpanContextFromContext(ctx)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = o.box.Process(ctx, o.Pool, key("2"), func(context.Context, pgx.Tx) error {
		return workqueue.Permanent(errors.New("no such order"))
	})
	if err == nil {
		t.Fatal("the error of the function is lost")
	}
	request.End()

	span := o.span(0)
	if span.SpanKind() != trace.SpanKindConsumer || span.Parent().SpanID() != request.SpanContext().SpanID() {
		t.Errorf("the span has the kind %v and the parent %v, want a consumer's under the request", span.SpanKind(),
			span.Parent())
	}
	if inHandler.SpanID() != span.SpanContext().SpanID() {
		t.Error("the function's context carries another span")
	}
	attributes := attribute.NewSet(span.Attributes()...)
	for name, want := range map[attribute.Key]string{
		"messaging.system": "txwork", "messaging.destination.name": o.table, "messaging.operation.name": "process",
		"messaging.operation.type": "process", "messaging.message.id": result.ID.String(),
		"txwork.consumer": "billing", "txwork.topic": "shop", "txwork.answer": "processed",
	} {
		if got, _ := attributes.Value(name); got.AsString() != want {
			t.Errorf("%s is %q, want %q", name, got.AsString(), want)
		}
	}
	failed := o.span(1)
	if failed.Status() != (sdktrace.Status{Code: codes.Error, Description: "no such order"}) ||
		!slices.Contains(failed.Attributes(), attribute.String("error.type", "*errors.errorString")) {
		t.Errorf("the span of the failure has the status %+v and %v", failed.Status(), failed.Attributes())
	}
}

func TestAnswersAreCounted(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	with := func(id, body string) inbox.Key { k := key(id); k.Body = []byte(body); return k }
	o.process(with("1", "ten euros"))
	o.process(with("1", "ten euros"))
	o.process(with("1", "ten dollars"))
	o.receive(message("stored", ""))
	o.process(key("stored"))
	fails := func(pool *pgxpool.Pool, fn func(context.Context, pgx.Tx) error) {
		defer func() { _ = recover() }()
		if _, err := o.box.Process(t.Context(), pool, key("2"), fn); err == nil {
			t.Error("no error")
		}
	}
	fails(o.Pool, func(context.Context, pgx.Tx) error { return errors.New("broken") })
	fails(o.Pool, func(context.Context, pgx.Tx) error { panic("at the disco") })
	closed := o.separatePool()
	closed.Close()
	fails(closed, effect("2"))
	err := pgx.BeginFunc(t.Context(), o.Pool, func(tx pgx.Tx) error {
		for range 2 {
			if _, err := o.box.Begin(t.Context(), workqueue.Pgx(tx), key("3")); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	want := map[string]int64{"processed": 2, "duplicate": 2, "hash_mismatch": 1, "in_progress": 1, "error": 3}
	if got := o.counts("txwork.arrivals", "txwork.answer"); !maps.Equal(got, want) {
		t.Errorf("the answers are %v, want %v", got, want)
	}
	if got := o.counts("txwork.arrivals", "txwork.consumer"); !maps.Equal(got, map[string]int64{"billing": 9}) {
		t.Errorf("the answers by consumer are %v", got)
	}
	got := o.counts("messaging.process.duration", "error.type")
	if got[""] != 1 || got["*errors.errorString"] != 1 || got["panic"] != 1 || len(got) != 4 {
		t.Errorf("the durations are %v, want those of what was processed or failed", got)
	}
}
