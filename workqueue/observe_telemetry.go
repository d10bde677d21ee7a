package workqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
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

	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/internal/header"
	"github.com/txwork/txwork/internal/scope"
	"github.com/txwork/txwork/workqueue/internal/fault"
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
	Table string
	// enqueue, claim, ack, abandon, snooze, fail, settle, extend, cancel, redrive, reap, purge, sweep, fold
	Operation string
	Requested int
	Changed   int
	IDs       []uuid.UUID // the rows that changed; empty for reap, purge, sweep and fold
	Duration  time.Duration
	Err       error
}

// An operation is a transition of rows, or the call of a handler.
type operation uint8

const (
	opEnqueue operation = iota
	opClaim
	opAck
	opAbandon
	opSnooze
	opFail
	opSettle
	opCancel
	opRedrive
	opExtend
	opReap
	opPurge
	opSweep
	opFold
	opProcess
	operationCount
)

// A convention is what OpenTelemetry and events call an operation.
type convention struct {
	name   string // messaging.operation.name
	typ    string // messaging.operation.type; empty where the conventions know none that fits
	kind   trace.SpanKind
	traced bool
}

// The messaging semantic conventions are still in development: their names are kept in this file only.
// https://opentelemetry.io/docs/specs/semconv/messaging/
var conventions = [operationCount]convention{
	opEnqueue: {"enqueue", "send", trace.SpanKindProducer, true},
	opClaim:   {"claim", "receive", trace.SpanKindClient, true},
	opAck:     {"ack", "settle", trace.SpanKindClient, true},
	opAbandon: {"abandon", "settle", trace.SpanKindClient, true},
	opSnooze:  {"snooze", "settle", trace.SpanKindClient, true},
	opFail:    {"fail", "settle", trace.SpanKindClient, true},
	opSettle:  {"settle", "settle", trace.SpanKindClient, true},
	opCancel:  {"cancel", "", trace.SpanKindInternal, true},
	opRedrive: {"redrive", "", trace.SpanKindInternal, true},
	opExtend:  {"extend", "", trace.SpanKindInternal, false},
	opReap:    {"reap", "", trace.SpanKindInternal, false},
	opPurge:   {"purge", "", trace.SpanKindInternal, false},
	opSweep:   {"sweep", "", trace.SpanKindInternal, false},
	opFold:    {"fold", "", trace.SpanKindInternal, false},
	opProcess: {"process", "process", trace.SpanKindConsumer, true},
}

func (op operation) String() string { return conventions[op].name }

// propagator carries the W3C trace context in the rows' headers.
var propagator = propagation.TraceContext{}

type telemetry struct {
	table    string
	lane     string // the name of its first lane; empty without one
	tracer   trace.Tracer
	logger   *slog.Logger
	observer Observer
	labels   labelColumns
	series   seriesCache

	duration, maintenance, delay,
	process metric.Float64Histogram
	sent, consumed, arrivals, settled, retried, dead, redriven, cancelled, purged, expired, lost,
	announces metric.Int64Counter
	inFlight, running,
	concurrency metric.Int64ObservableUpDownCounter
	ofTable *prepared // for metrics that concern no operation

	meter   metric.Meter
	workers atWork

	// Made once for all handler calls, because they would be most of what a call allocates.
	processName string
	processSpan []trace.SpanStartOption
}

func newTelemetry(t Telemetry, spec Spec) (*telemetry, error) {
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
		table:    spec.Name(),
		tracer:   scope.Tracer(t.TracerProvider, "workqueue"),
		meter:    scope.Meter(t.MeterProvider, "workqueue"),
		logger:   t.Logger.With("table", spec.Name()),
		observer: t.Observer,
		labels:   spec.labelColumns(),
	}
	if len(spec.Lanes) > 0 {
		tel.lane = spec.Lanes[0]
	}
	tel.processName = opProcess.String() + " " + tel.table
	tel.processSpan = []trace.SpanStartOption{
		trace.WithSpanKind(conventions[opProcess].kind),
		trace.WithAttributes(tel.describe(opProcess)...),
	}
	tel.ofTable = prepare(tel.destination()...)
	if err := tel.create(tel.meter); err != nil {
		return nil, err
	}
	return tel, nil
}

// destination returns the attributes of all spans and metrics.
func (t *telemetry) destination() []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String("messaging.system", "txwork"),
		attribute.String("messaging.destination.name", t.table)}
}

// describe returns the attributes of an operation's spans and metrics.
func (t *telemetry) describe(op operation) []attribute.KeyValue {
	attributes := append(t.destination(), attribute.String("messaging.operation.name", op.String()))
	if typ := conventions[op].typ; typ != "" {
		attributes = append(attributes, attribute.String("messaging.operation.type", typ))
	}
	return attributes
}

// transition runs one operation on rows. Every change of a row's state passes through here: span,
// metrics, log and event are made in one place.
func (t *telemetry) transition(ctx context.Context, op operation, requested int, run func(context.Context) ([]uuid.UUID,
	error)) error {
	return t.transitionOf(ctx, op, requested, nil, run)
}

// transitionOf is transition where the labels of the rows are known. They are logged with the rows that are refused.
func (t *telemetry) transitionOf(ctx context.Context, op operation, requested int, about func(uuid.UUID) labels,
	run func(context.Context) ([]uuid.UUID, error)) error {
	start := time.Now()
	ctx, span := t.start(ctx, op, requested)
	ids, err := run(ctx)
	t.finish(ctx, span, Event{
		Table: t.table, Operation: op.String(), Requested: requested, Changed: len(ids), IDs: ids,
		Duration: time.Since(start), Err: err,
	}, op, about)
	return err
}

// count is transition for operations that report a number only.
func (t *telemetry) count(ctx context.Context, op operation, requested int, run func(context.Context) (int,
	error)) error {
	start := time.Now()
	ctx, span := t.start(ctx, op, requested)
	n, err := run(ctx)
	t.finish(ctx, span, Event{
		Table: t.table, Operation: op.String(), Requested: requested, Changed: n,
		Duration: time.Since(start), Err: err,
	}, op, nil)
	return err
}

// contain must be deferred by everything that calls foreign code: a provider, a log handler, the Observer. A panic
// there must not undo what the database has committed, nor end a worker. It is reported to OpenTelemetry's error
// handler.
func (t *telemetry) contain() {
	if r := recover(); r != nil {
		contain.Report(otel.Handle, fmt.Errorf("txwork: telemetry of %s: panic: %v\n%s", t.table, r, debug.Stack()))
	}
}

// noSpan records nothing.
var noSpan = trace.SpanFromContext(context.Background())

func (t *telemetry) start(ctx context.Context, op operation, count int,
	more ...trace.SpanStartOption) (started context.Context, span trace.Span) {
	if !conventions[op].traced {
		return ctx, noSpan
	}
	started, span = ctx, noSpan
	defer t.contain()
	return t.tracer.Start(ctx, op.String()+" "+t.table, append(more, trace.WithSpanKind(conventions[op].kind),
		trace.WithAttributes(append(t.describe(op), attribute.Int("messaging.batch.message_count", count))...))...)
}

// claim is transition for claims. The span is made when the claim has ended, because a claim of an empty table gets
// none. It is linked to the producers of the rows.
func (t *telemetry) claim(ctx context.Context, limit int, run func(context.Context) ([]*delivery,
	error)) ([]*delivery, error) {
	start := time.Now()
	rows, err := run(ctx)
	ended, span := ctx, noSpan
	if len(rows) > 0 || err != nil {
		ended, span = t.start(ctx, opClaim, len(rows), trace.WithTimestamp(start),
			trace.WithLinks(producerLinks(rows)...))
	}
	t.countRows(ended, t.consumed, opClaim, len(rows), func(i int) labels { return rows[i].labels })
	t.finish(ended, span, Event{
		Table: t.table, Operation: opClaim.String(), Requested: limit, Changed: len(rows), IDs: rowIDs(rows),
		Duration: time.Since(start), Err: err,
	}, opClaim, nil)
	return rows, err
}

func (t *telemetry) finish(ctx context.Context, span trace.Span, e Event, op operation, about func(uuid.UUID) labels) {
	if t.observer != nil {
		defer func() {
			defer t.contain()
			t.observer(ctx, e)
		}()
	}
	defer t.contain()
	t.measure(ctx, op, e)
	t.report(ctx, span, e, op, about)
	span.End()
}

func (t *telemetry) measure(ctx context.Context, op operation, e Event) {
	histogram := t.duration
	if conventions[op].typ == "" {
		histogram = t.maintenance
	}
	if histogram.Enabled(ctx) {
		histogram.Record(ctx, e.Duration.Seconds(),
			t.with(series{op: op, key: errorTypeKey, value: fault.Type(e.Err)}).record...)
	}
}

func (t *telemetry) report(ctx context.Context, span trace.Span, e Event, op operation, about func(uuid.UUID) labels) {
	var settle *SettleError
	var repeated *repeatedError
	switch {
	case e.Err == nil:
		t.logger.LogAttrs(ctx, slog.LevelDebug, e.Operation, slog.Int("changed", e.Changed),
			slog.Duration("took", e.Duration))
		return
	case errors.As(e.Err, &settle):
		t.add(ctx, t.lost, len(settle.Lost), series{op: op})
		t.logRows(ctx, t.logger, e.Operation+" refused", slices.Concat(settle.Lost, settle.Gone), about,
			slog.Int("lost", len(settle.Lost)), slog.Int("gone", len(settle.Gone)), slog.Int("changed", e.Changed))
	case errors.Is(e.Err, context.Canceled), errors.As(e.Err, &repeated):
	default:
		// The caller gets the error, and may log it. A worker has no caller to give it to, and logs it itself.
		t.logger.LogAttrs(ctx, slog.LevelDebug, e.Operation+" failed", slog.Any("error", e.Err))
	}
	span.SetAttributes(errorTypeKey.String(fault.Type(e.Err)))
	span.RecordError(e.Err)
	span.SetStatus(codes.Error, e.Err.Error())
}

// maxLoggedIDs bounds the ids of a line about many rows.
const maxLoggedIDs = 10

// logRows logs a warning about several rows. It has the ids of the first of them and, if they are known, their labels,
// each value once, separated by spaces.
func (t *telemetry) logRows(ctx context.Context, logger *slog.Logger, what string, ids []uuid.UUID,
	about func(uuid.UUID) labels, more ...slog.Attr) {
	ids = ids[:min(len(ids), maxLoggedIDs)]
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	var attributes []slog.Attr
	for i, name := range t.labels.names {
		if about == nil || name == t.lane && logger != t.logger { // a worker's logger has its lane
			continue
		}
		var values []string
		for _, id := range ids {
			if value := about(id)[i]; !slices.Contains(values, value) {
				values = append(values, value)
			}
		}
		attributes = append(attributes, slog.String(name, strings.Join(values, " ")))
	}
	attributes = append(attributes, slog.String("id", strings.Join(texts, " ")))
	logger.LogAttrs(ctx, slog.LevelWarn, what, append(attributes, more...)...)
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
	carrier := header.Carrier(headers)
	if carrier.Get("traceparent") == "" {
		return trace.Link{}, false
	}
	ctx := propagator.Extract(context.Background(), carrier)
	sc := trace.SpanContextFromContext(ctx)
	return trace.Link{SpanContext: sc}, sc.IsValid()
}

func producerLinks(rows []*delivery) []trace.Link {
	var links []trace.Link
	for _, row := range rows {
		if link, ok := producerLink(row.Headers); ok {
			links = append(links, link)
		}
	}
	return links
}

// starting measures for how long the row could have been claimed when its handler starts. at is a time of the
// database's clock.
func (t *telemetry) starting(ctx context.Context, row claimedRow, at time.Time) {
	defer t.contain()
	if t.delay.Enabled(ctx) {
		t.delay.Record(ctx, max(at.Sub(row.DueAt), 0).Seconds(),
			t.with(series{op: opProcess, labels: row.labels}).record...)
	}
}

// processing opens the span around one handler call, linked to the producer.
func (t *telemetry) processing(ctx context.Context, row claimedRow) (started context.Context, span trace.Span) {
	started, span = ctx, noSpan
	defer t.contain()
	options := t.processSpan
	if link, ok := producerLink(row.Headers); ok {
		options = append(slices.Clip(options), trace.WithLinks(link))
	}
	started, span = t.tracer.Start(ctx, t.processName, options...)
	if span.IsRecording() {
		span.SetAttributes(attribute.String("messaging.message.id", row.ID.String()), attribute.Int("txwork.attempt",
			row.Attempt))
		span.SetAttributes(t.labels.attributes(row.labels)...)
	}
	return started, span
}

// processed closes that span. message is the outcome's cause as it is stored: redacted. Failed attempts and dead
// letters are logged with the first line of the message; the table has all of it.
func (t *telemetry) processed(ctx context.Context, span trace.Span, row claimedRow, o *Outcome, message string,
	took time.Duration) {
	defer t.contain()
	failed := o.kind == outcomeRetry || o.kind == outcomeFail
	if t.process.Enabled(ctx) && o.kind != outcomeLeave { // that row has not started
		s := series{op: opProcess, labels: row.labels, key: errorTypeKey}
		if failed {
			s.value = o.errorType
		}
		t.process.Record(ctx, took.Seconds(), t.with(s).record...)
	}
	if failed {
		span.SetAttributes(errorTypeKey.String(o.errorType))
		span.RecordError(errors.New(message))
		span.SetStatus(codes.Error, message)
		t.logFailure(ctx, row, o, message)
	}
	span.End()
}

func (t *telemetry) logFailure(ctx context.Context, row claimedRow, o *Outcome, message string) {
	level, what := slog.LevelInfo, "attempt failed"
	if o.kind == outcomeFail || row.Attempt >= row.MaxAttempts {
		level, what = slog.LevelWarn, "dead letter"
	}
	t.logAttempt(ctx, level, what, row.labels, row.ID, row.Attempt, row.MaxAttempts, message)
}

func (t *telemetry) logAttempt(ctx context.Context, level slog.Level, what string, l labels, id uuid.UUID, attempt,
	most int, message string) {
	first, _, _ := strings.Cut(message, "\n")
	t.logRow(ctx, level, what, l, id, slog.Int("attempt", attempt), slog.Int("max_attempts", most),
		slog.String("error", first))
}

// deadInReap logs the dead letters of a reap, an array in JSON, as it logs those of handlers.
func (t *telemetry) deadInReap(ctx context.Context, rows []byte) {
	if rows == nil {
		return
	}
	defer t.contain()
	var letters []struct {
		ID          uuid.UUID
		Attempt     int
		MaxAttempts int `json:"max_attempts"`
		Error       string
		Labels      labels
	}
	if err := json.Unmarshal(rows, &letters); err != nil {
		t.logger.LogAttrs(ctx, slog.LevelError, "dead letters of a reap cannot be read", slog.Any("error", err))
	}
	for _, l := range letters {
		t.logAttempt(ctx, slog.LevelWarn, "dead letter", l.Labels, l.ID, l.Attempt, l.MaxAttempts, l.Error)
	}
}

// logRow logs what concerns a row, with its labels and its id.
func (t *telemetry) logRow(ctx context.Context, level slog.Level, what string, l labels, id uuid.UUID,
	more ...slog.Attr) {
	t.logger.LogAttrs(ctx, level, what, append(append(t.labels.logged(l), slog.String("id", id.String())), more...)...)
}

// announced counts a notification on behalf of producers.
func (t *telemetry) announced(ctx context.Context) {
	defer t.contain()
	t.announces.Add(ctx, 1, t.ofTable.add...)
}

// leasesLapsed reports leases that ended by the worker's own clock, because no renewal got through in time. It logs one
// line, because in an outage all leases may end at once.
func (t *telemetry) leasesLapsed(logger *slog.Logger, ids []uuid.UUID, about func(uuid.UUID) labels) {
	defer t.contain()
	t.add(context.Background(), t.lost, len(ids), series{op: opExtend})
	t.logRows(context.Background(), logger, "leases ended without a renewal", ids, about, slog.Int("rows", len(ids)))
}

// notReturning reports rows whose handlers run for longer than they should, once each. Whoever looks for the process
// that holds such a row finds it by this line.
func (t *telemetry) notReturning(logger *slog.Logger, ids []uuid.UUID, about func(uuid.UUID) labels) {
	defer t.contain()
	t.logRows(context.Background(), logger, "handlers run for longer than they should", ids, about,
		slog.Int("rows", len(ids)), slog.String("process", processName()))
}
