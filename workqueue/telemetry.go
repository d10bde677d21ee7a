package workqueue

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Telemetry says where a table's spans, metrics, logs and events go. The zero value uses the global
// OpenTelemetry providers and slog.Default.
type Telemetry struct {
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	Logger         *slog.Logger
	// Observer, if set, is called after every operation, on the goroutine that ran it: it must be quick.
	Observer Observer
}

// An Observer is told of every operation on a table.
type Observer func(ctx context.Context, e Event)

// An Event is one operation, successful or not.
type Event struct {
	Table     string
	Operation string // enqueue, claim, ack, abandon, snooze, fail, settle, extend, cancel, redrive, reap, purge, sweep
	Requested int
	Changed   int
	IDs       []uuid.UUID // the rows that changed; empty for reap, purge and sweep
	Duration  time.Duration
	Err       error
}

// operation is a transition by the name that events carry, with OpenTelemetry's names for it.
type operation struct {
	name     string
	semantic string // messaging.operation.name
	kind     trace.SpanKind
	traced   bool
}

// The messaging semantic conventions are still in development: their names are kept in this file only.
// https://opentelemetry.io/docs/specs/semconv/messaging/
var (
	opEnqueue = operation{"enqueue", "send", trace.SpanKindProducer, true}
	opClaim   = operation{"claim", "receive", trace.SpanKindClient, true}
	opAck     = operation{"ack", "settle", trace.SpanKindClient, true}
	opAbandon = operation{"abandon", "settle", trace.SpanKindClient, true}
	opSnooze  = operation{"snooze", "settle", trace.SpanKindClient, true}
	opFail    = operation{"fail", "settle", trace.SpanKindClient, true}
	opSettle  = operation{"settle", "settle", trace.SpanKindClient, true}
	opCancel  = operation{"cancel", "cancel", trace.SpanKindInternal, true}
	opRedrive = operation{"redrive", "redrive", trace.SpanKindInternal, true}
	opExtend  = operation{"extend", "extend", trace.SpanKindInternal, false}
	opReap    = operation{"reap", "reap", trace.SpanKindInternal, false}
	opPurge   = operation{"purge", "purge", trace.SpanKindInternal, false}
	opSweep   = operation{"sweep", "sweep", trace.SpanKindInternal, false}
	opProcess = operation{"process", "process", trace.SpanKindConsumer, true}
)

const scopeName = "github.com/txwork/txwork/workqueue"

// durationBuckets are those the conventions recommend for messaging durations, in seconds.
var durationBuckets = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}

// propagator carries the W3C trace context in the rows' headers.
var propagator = propagation.TraceContext{}

type telemetry struct {
	table     string
	tracer    trace.Tracer
	logger    *slog.Logger
	observer  Observer
	duration  metric.Float64Histogram
	process   metric.Float64Histogram
	sent      metric.Int64Counter
	consumed  metric.Int64Counter
	lost      metric.Int64Counter
	settled   metric.Int64Counter
	attribute map[operation]metric.MeasurementOption
	// Of every handler call, made once: they would be most of what a call allocates.
	processName    string
	processSpan    []trace.SpanStartOption
	processMetrics []metric.RecordOption
	outcomes       [][]metric.AddOption // by outcomeKind
}

func newTelemetry(t Telemetry, table string) (*telemetry, error) {
	if t.TracerProvider == nil {
		t.TracerProvider = otel.GetTracerProvider()
	}
	if t.MeterProvider == nil {
		t.MeterProvider = otel.GetMeterProvider()
	}
	if t.Logger == nil {
		t.Logger = slog.Default()
	}
	tel := &telemetry{
		table:    table,
		tracer:   t.TracerProvider.Tracer(scopeName),
		logger:   t.Logger.With("table", table),
		observer: t.Observer,
	}
	tel.precomputeAttributes()
	return tel, tel.createInstruments(t.MeterProvider.Meter(scopeName))
}

func (t *telemetry) createInstruments(m metric.Meter) error {
	var errs [6]error
	t.duration, errs[0] = m.Float64Histogram("messaging.client.operation.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of an operation on the table"), metric.WithExplicitBucketBoundaries(durationBuckets...))
	t.process, errs[1] = m.Float64Histogram("messaging.process.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of a handler"), metric.WithExplicitBucketBoundaries(durationBuckets...))
	t.sent, errs[2] = m.Int64Counter("messaging.client.sent.messages", metric.WithDescription("Rows enqueued"))
	t.consumed, errs[3] = m.Int64Counter("messaging.client.consumed.messages", metric.WithDescription("Rows claimed"))
	t.lost, errs[4] = m.Int64Counter("txwork.lease.lost", metric.WithDescription("Settles and renewals refused because the lease was lost"))
	t.settled, errs[5] = m.Int64Counter("txwork.settled", metric.WithDescription("Claims settled by outcome"))
	return errors.Join(errs[:]...)
}

func (t *telemetry) precomputeAttributes() {
	base := []attribute.KeyValue{
		attribute.String("messaging.system", "txwork"),
		attribute.String("messaging.destination.name", t.table),
	}
	with := func(kv attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(append(base[:2:2], kv)...))
	}
	t.attribute = map[operation]metric.MeasurementOption{}
	for _, op := range []operation{opEnqueue, opClaim, opAck, opAbandon, opSnooze, opFail, opSettle, opCancel, opRedrive, opExtend, opReap, opPurge, opProcess} {
		t.attribute[op] = with(attribute.String("messaging.operation.name", op.semantic))
	}
	for k := outcomeAck; k <= outcomeCancel; k++ {
		t.outcomes = append(t.outcomes, []metric.AddOption{with(attribute.String("txwork.outcome", k.String()))})
	}
	t.processMetrics = []metric.RecordOption{t.attribute[opProcess]}
	t.processName = opProcess.semantic + " " + t.table
	t.processSpan = []trace.SpanStartOption{
		trace.WithSpanKind(opProcess.kind),
		trace.WithAttributes(
			base[0],
			attribute.String("messaging.operation.name", opProcess.semantic),
			attribute.String("messaging.operation.type", opProcess.semantic),
			base[1],
		),
	}
}

// transition runs one operation on rows. Every change of a row's state passes through here: span,
// metrics, log and event are made in one place.
func (t *telemetry) transition(ctx context.Context, op operation, requested int, run func(context.Context) ([]uuid.UUID, error)) error {
	start := time.Now()
	ctx, span := t.start(ctx, op, requested)
	ids, err := run(ctx)
	t.finish(ctx, span, Event{
		Table: t.table, Operation: op.name, Requested: requested, Changed: len(ids), IDs: ids,
		Duration: time.Since(start), Err: err,
	}, op)
	return err
}

// count is transition for operations that report a number only.
func (t *telemetry) count(ctx context.Context, op operation, requested int, run func(context.Context) (int, error)) error {
	start := time.Now()
	ctx, span := t.start(ctx, op, requested)
	n, err := run(ctx)
	t.finish(ctx, span, Event{
		Table: t.table, Operation: op.name, Requested: requested, Changed: n,
		Duration: time.Since(start), Err: err,
	}, op)
	return err
}

func (t *telemetry) start(ctx context.Context, op operation, count int) (context.Context, trace.Span) {
	if !op.traced {
		return ctx, trace.SpanFromContext(context.Background())
	}
	return t.tracer.Start(ctx, op.semantic+" "+t.table, trace.WithSpanKind(op.kind), trace.WithAttributes(
		attribute.String("messaging.system", "txwork"),
		attribute.String("messaging.operation.name", op.semantic),
		attribute.String("messaging.operation.type", op.semantic),
		attribute.String("messaging.destination.name", t.table),
		attribute.Int("messaging.batch.message_count", count),
	))
}

func (t *telemetry) finish(ctx context.Context, span trace.Span, e Event, op operation) {
	t.duration.Record(ctx, e.Duration.Seconds(), t.attribute[op])
	switch op {
	case opEnqueue:
		t.sent.Add(ctx, int64(e.Changed), t.attribute[op])
	case opClaim:
		t.consumed.Add(ctx, int64(e.Changed), t.attribute[op])
	}
	t.report(ctx, span, e, op)
	span.End()
	if t.observer != nil {
		t.observer(ctx, e)
	}
}

func (t *telemetry) report(ctx context.Context, span trace.Span, e Event, op operation) {
	var settle *SettleError
	switch {
	case e.Err == nil:
		t.logger.LogAttrs(ctx, slog.LevelDebug, e.Operation, slog.Int("changed", e.Changed), slog.Duration("took", e.Duration))
		return
	case errors.As(e.Err, &settle):
		t.lost.Add(ctx, int64(len(settle.Lost)), t.attribute[op])
		t.logger.LogAttrs(ctx, slog.LevelWarn, e.Operation+" refused", slog.Int("lost", len(settle.Lost)),
			slog.Int("gone", len(settle.Gone)), slog.Int("changed", e.Changed))
	case errors.Is(e.Err, context.Canceled):
	default:
		t.logger.LogAttrs(ctx, slog.LevelError, e.Operation+" failed", slog.Any("error", e.Err))
	}
	span.RecordError(e.Err)
	span.SetStatus(codes.Error, e.Err.Error())
}

// traceHeaders is the trace context of ctx as headers; none outside a trace.
func traceHeaders(ctx context.Context) map[string]string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	carrier := propagation.MapCarrier{}
	propagator.Inject(ctx, carrier)
	return carrier
}

// producerLink links a span to the span that enqueued the row. A link, not a parent: the producer's
// trace ended long ago, and a batch has many of them.
func producerLink(headers map[string]string) (trace.Link, bool) {
	if headers["traceparent"] == "" {
		return trace.Link{}, false
	}
	ctx := propagator.Extract(context.Background(), propagation.MapCarrier(headers))
	sc := trace.SpanContextFromContext(ctx)
	return trace.Link{SpanContext: sc}, sc.IsValid()
}

// linkProducers links a claim's span to the producers of its rows.
func linkProducers(ctx context.Context, rows []claimedRow) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	for _, row := range rows {
		if link, ok := producerLink(row.Headers); ok {
			span.AddLink(link)
		}
	}
}

// processing opens the span around one handler call, linked to the producer.
func (t *telemetry) processing(ctx context.Context, row Row) (context.Context, trace.Span) {
	options := t.processSpan
	if link, ok := producerLink(row.Headers); ok {
		options = append(slices.Clip(options), trace.WithLinks(link))
	}
	ctx, span := t.tracer.Start(ctx, t.processName, options...)
	if span.IsRecording() {
		span.SetAttributes(attribute.String("messaging.message.id", row.ID.String()), attribute.Int("txwork.attempt", row.Attempt))
	}
	return ctx, span
}

// processed closes it. The message is the outcome's cause as it is stored: redacted. Failed attempts and
// dead letters are logged, by the first line of their message; the whole is in the table.
func (t *telemetry) processed(ctx context.Context, span trace.Span, row Row, o *Outcome, message string, took time.Duration) {
	t.process.Record(ctx, took.Seconds(), t.processMetrics...)
	t.settled.Add(ctx, 1, t.outcomes[o.kind]...)
	if o.kind == outcomeRetry || o.kind == outcomeFail {
		span.RecordError(errors.New(message))
		span.SetStatus(codes.Error, message)
		t.logFailure(ctx, row, o, message)
	}
	span.End()
}

func (t *telemetry) logFailure(ctx context.Context, row Row, o *Outcome, message string) {
	level, what := slog.LevelInfo, "attempt failed"
	if o.kind == outcomeFail || row.Attempt >= row.MaxAttempts {
		level, what = slog.LevelWarn, "dead letter"
	}
	first, _, _ := strings.Cut(message, "\n")
	t.logger.LogAttrs(ctx, level, what, slog.String("id", row.ID.String()), slog.Int("attempt", row.Attempt),
		slog.Int("max_attempts", row.MaxAttempts), slog.String("error", first))
}

// leaseLapsed reports a lease that ended by the worker's own clock: no renewal got through in time.
func (t *telemetry) leaseLapsed(id uuid.UUID) {
	t.lost.Add(context.Background(), 1, t.attribute[opExtend])
	t.logger.LogAttrs(context.Background(), slog.LevelWarn, "lease ended without a renewal", slog.String("id", id.String()))
}
