package workqueue_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/embedded"
	nometric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	notrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/internal/sdktest"
	"github.com/txwork/txwork/workqueue"
)

// What follows is an application's telemetry that panics wherever it can.

type panicMeters struct{ nometric.MeterProvider }

func (panicMeters) Meter(string, ...metric.MeterOption) metric.Meter { return panicMeter{} }

type panicMeter struct{ nometric.Meter }

func (panicMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return panicHistogram{}, nil
}

type panicHistogram struct{ embedded.Float64Histogram }

func (panicHistogram) Record(context.Context, float64, ...metric.RecordOption) {
	panic(sdktest.Expected)
}
func (panicHistogram) Enabled(context.Context) bool { return true }

type panicTracers struct{ notrace.TracerProvider }

func (panicTracers) Tracer(string, ...trace.TracerOption) trace.Tracer { return panicTracer{} }

type panicTracer struct{ notrace.Tracer }

func (panicTracer) Start(context.Context, string, ...trace.SpanStartOption) (context.Context, trace.Span) {
	panic(sdktest.Expected)
}

type panicLogs struct{}

func (panicLogs) Enabled(context.Context, slog.Level) bool  { return true }
func (panicLogs) Handle(context.Context, slog.Record) error { panic(sdktest.Expected) }
func (l panicLogs) WithAttrs([]slog.Attr) slog.Handler      { return l }
func (l panicLogs) WithGroup(string) slog.Handler           { return l }

// Telemetry that panics does no other harm: rows are handled and settled, and operations still return their results.
func TestPanicsOfTelemetryAreContained(t *testing.T) {
	t.Parallel()
	for name, break_ := range map[string]func(*workqueue.Telemetry){
		"metrics": func(t *workqueue.Telemetry) { t.MeterProvider = panicMeters{} },
		"spans":   func(t *workqueue.Telemetry) { t.TracerProvider = panicTracers{} },
		"logs":    func(t *workqueue.Telemetry) { t.Logger = slog.New(panicLogs{}) },
		"observer": func(t *workqueue.Telemetry) {
			t.Observer = func(context.Context, workqueue.Event) { panic(sdktest.Expected) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{telemetry: break_, spec: func(s *workqueue.Spec) { s.MaxAttempts = 2 }})
			w := r.start(workqueue.WorkerOptions{}, func(_ context.Context, c *noteClaim) error {
				if c.Body.Topic == "fail" {
					return errors.New("boom")
				}
				return nil
			})
			r.insertMany("fine", 50)
			r.insert("fail")
			r.eventually("every row to end", func() bool { return r.count("completed_at IS NULL") == 0 })
			if err := w.stop(t); err != nil {
				t.Error(err)
			}
			if n := r.count("status = 2 AND attempts = 1"); n != 50 {
				t.Errorf("%d of 50 rows are done by their first attempt", n)
			}
			if reaped, err := r.Queue.ReapExpired(t.Context(), 10); err != nil {
				t.Errorf("reaped %+v, %v", reaped, err)
			}
		})
	}
}

// A panicPgxTracer is an application's pgx.BatchTracer that panics at every third statement.
type panicPgxTracer struct{ calls, panics atomic.Int64 }

func (p *panicPgxTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (p *panicPgxTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (p *panicPgxTracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	if p.calls.Add(1)%3 == 0 {
		p.panics.Add(1)
		panic(sdktest.Expected)
	}
	return ctx
}
func (p *panicPgxTracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (p *panicPgxTracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// A panic under one of the worker's own statements is a failed statement: it is repeated, and the worker goes on.
func TestPanicsOfStatementsAreContained(t *testing.T) {
	t.Parallel()
	tracer := &panicPgxTracer{}
	r := newRig(t, rigOptions{})
	pool := r.openPool(func(c *pgxpool.Config) { c.ConnConfig.Tracer = tracer })
	w := r.startOn(pool, r.Domain, workqueue.WorkerOptions{Lease: pgtest.Lease}, func(context.Context,
		*noteClaim) error {
		return nil
	})
	for tracer.panics.Load() < 10 {
		r.insertMany("fine", 10)
		r.eventually("every row to end", func() bool { return r.count("completed_at IS NULL") == 0 })
	}
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
}
