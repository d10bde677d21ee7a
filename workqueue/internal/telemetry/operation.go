package telemetry

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/internal/scope"
	"github.com/txwork/txwork/workqueue/internal/fault"
)

// An Operation is a transition of rows, or the call of a handler.
type Operation uint8

const (
	Enqueue Operation = iota
	Claim
	Ack
	Abandon
	Snooze
	Fail
	Settle
	Cancel
	Redrive
	Extend
	Reap
	Purge
	Sweep
	Fold
	process
	operationCount
)

// A convention is what OpenTelemetry and events call an operation.
type convention struct {
	name   string // messaging.operation.name
	typ    string // messaging.operation.type; empty where the conventions know none that fits
	kind   trace.SpanKind
	traced bool
}

// The messaging semantic conventions are still in development: their names are kept in this package only.
// https://opentelemetry.io/docs/specs/semconv/messaging/
var conventions = [operationCount]convention{
	Enqueue: {"enqueue", "send", trace.SpanKindProducer, true},
	Claim:   {"claim", "receive", trace.SpanKindClient, true},
	Ack:     {"ack", "settle", trace.SpanKindClient, true},
	Abandon: {"abandon", "settle", trace.SpanKindClient, true},
	Snooze:  {"snooze", "settle", trace.SpanKindClient, true},
	Fail:    {"fail", "settle", trace.SpanKindClient, true},
	Settle:  {"settle", "settle", trace.SpanKindClient, true},
	Cancel:  {"cancel", "", trace.SpanKindInternal, true},
	Redrive: {"redrive", "", trace.SpanKindInternal, true},
	Extend:  {"extend", "", trace.SpanKindInternal, false},
	Reap:    {"reap", "", trace.SpanKindInternal, false},
	Purge:   {"purge", "", trace.SpanKindInternal, false},
	Sweep:   {"sweep", "", trace.SpanKindInternal, false},
	Fold:    {"fold", "", trace.SpanKindInternal, false},
	process: {"process", "process", trace.SpanKindConsumer, true},
}

func (op Operation) String() string { return conventions[op].name }

// What became of a row that was settled.
const (
	OutcomeAck       = "ack"
	OutcomeAbandon   = "abandon"
	OutcomeSnooze    = "snooze"
	OutcomeLeave     = "leave"
	OutcomeRelease   = "release"
	OutcomeFail      = "fail"
	OutcomeCancel    = "cancel"
	OutcomeExhausted = "exhausted"

	OutcomeUnavailable = "unavailable"

	OutcomeLost = "lost"
	OutcomeGone = "gone"
)

// Why it will be attempted again, or is a dead letter.
const (
	Failed       = "error"
	Permanent    = "permanent"
	Exhausted    = "exhausted"
	LeaseExpired = "lease_expired"
)

// A Row is what an event tells of a row.
type Row struct {
	ID                   uuid.UUID
	Labels               Labels
	Attempt, MaxAttempts int               // 0: not known
	Headers              map[string]string // of a claim
	State                int16
	Outcome              string
	Reason               string
	Error                string        // as it is stored
	Delay                time.Duration // until it is due again; negative: not known
}

// Rows are the rows of an event. They make a [Row] when it is needed, so that nobody pays for what nobody reads.
type Rows interface {
	Len() int
	Row(i int) Row
}

// An Event is an operation that has ended, successfully or not.
type Event struct {
	Operation         Operation
	Requested         int
	Changed           int         // if there are no IDs
	IDs               []uuid.UUID // the rows that changed; those of a claim are its Rows
	Rows              Rows        // what became of each, where that is known
	State             string      // of a purge: which rows
	Failed, Cancelled int         // of a reap: rows that are Failed now, and those of them whose cancel was asked for
	DeadLetters       []byte      // of a reap: an array of rows in JSON
	Duration          time.Duration
	Err               error
	ToldLater         bool // the operation that follows tells which rows were refused

	lost, gone []uuid.UUID
}

// Options are those of a [Recorder].
type Options struct {
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	Logger         *slog.Logger
	Table          string
	Labels         []string
	Lane           string // the name of the table's first lane; empty without one
	// Subscriber is told of every event; nil if nobody subscribes.
	Subscriber func(context.Context, Event)
	// Refused reads the rows that an error names as not changed.
	Refused func(error) (lost, gone []uuid.UUID)
}

// A Recorder is the telemetry of one table.
type Recorder struct {
	instruments
	table      string
	lane       string
	labels     []string
	tracer     trace.Tracer
	logger     *slog.Logger
	subscriber func(context.Context, Event)
	refused    func(error) (lost, gone []uuid.UUID)
	series     seriesCache
	ofTable    *prepared // for metrics that concern no operation

	meter   metric.Meter
	workers atWork
	traces  atomic.Bool // the span of the last claim was that of an SDK

	spans [operationCount]spanStart
}

// A spanStart is what all spans of an operation begin with. It is made once, because it would be most of what an
// operation allocates, also if nobody traces.
type spanStart struct {
	name    string
	options []trace.SpanStartOption
}

// New returns the telemetry of a table. Providers and a logger that are nil are the global ones.
func New(o Options) (*Recorder, error) {
	o.TracerProvider = cmp.Or(o.TracerProvider, otel.GetTracerProvider())
	o.MeterProvider = cmp.Or(o.MeterProvider, otel.GetMeterProvider())
	o.Logger = cmp.Or(o.Logger, slog.Default())
	r := &Recorder{
		table: o.Table, lane: o.Lane, labels: o.Labels, subscriber: o.Subscriber, refused: o.Refused,
		tracer: scope.Tracer(o.TracerProvider, "workqueue"),
		meter:  scope.Meter(o.MeterProvider, "workqueue"),
		logger: o.Logger.With("table", o.Table),
	}
	for op := range operationCount {
		r.spans[op] = spanStart{op.String() + " " + r.table, []trace.SpanStartOption{
			trace.WithSpanKind(conventions[op].kind), trace.WithAttributes(r.describe(op)...)}}
	}
	r.ofTable = prepare(r.destination()...)
	if err := r.create(r.meter); err != nil {
		return nil, err
	}
	return r, nil
}

// destination returns the attributes of all spans and metrics.
func (r *Recorder) destination() []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String("messaging.system", "txwork"),
		attribute.String("messaging.destination.name", r.table)}
}

// describe returns the attributes of an operation's spans and metrics.
func (r *Recorder) describe(op Operation) []attribute.KeyValue {
	attributes := append(r.destination(), attribute.String("messaging.operation.name", op.String()))
	if typ := conventions[op].typ; typ != "" {
		attributes = append(attributes, attribute.String("messaging.operation.type", typ))
	}
	return attributes
}

// contain must be deferred by everything that calls foreign code: a provider, a log handler, a subscriber. A panic
// there must not undo what the database has committed, nor end a worker. It is reported to OpenTelemetry's error
// handler.
func (r *Recorder) contain() {
	if p := recover(); p != nil {
		contain.Report(otel.Handle, fmt.Errorf("txwork: telemetry of %s: panic: %v\n%s", r.table, p, debug.Stack()))
	}
}

// noSpan records nothing.
var noSpan = trace.SpanFromContext(context.Background())

// A Call is an operation that is under way.
type Call struct {
	recorder  *Recorder
	op        Operation
	requested int
	ctx       context.Context
	span      trace.Span
	start     time.Time
}

// Start begins an operation on rows, with its span. The span of a claim is made at its end, because a claim of an empty
// table gets none.
func (r *Recorder) Start(ctx context.Context, op Operation, requested int) (context.Context, Call) {
	c := Call{recorder: r, op: op, requested: requested, ctx: ctx, span: noSpan, start: time.Now()}
	if op != Claim && conventions[op].traced {
		c.trace(requested, nil)
	}
	return c.ctx, c
}

// begin begins a span of an operation.
func (r *Recorder) begin(ctx context.Context, op Operation, more ...trace.SpanStartOption) (context.Context,
	trace.Span) {
	s := &r.spans[op]
	return r.tracer.Start(ctx, s.name, append(slices.Clip(s.options), more...)...)
}

// trace begins the span of a call. That of a claim is linked to the producers of its rows, whose headers are read only
// if it is recorded.
func (c *Call) trace(n int, claimed Rows, more ...trace.SpanStartOption) {
	r := c.recorder
	defer r.contain()
	c.ctx, c.span = r.begin(c.ctx, c.op, more...)
	if c.span.IsRecording() {
		c.span.SetAttributes(attribute.Int("messaging.batch.message_count", n))
		for _, link := range producerLinks(claimed) {
			c.span.AddLink(link)
		}
	}
	if c.op == Claim {
		r.traces.Store(c.span.SpanContext().IsValid())
	}
}

// End completes the event of an operation, which has ended, and tells it: metrics, log, span, and whoever subscribes.
func (c *Call) End(e Event) {
	r := c.recorder
	e.Operation, e.Requested, e.Duration = c.op, c.requested, time.Since(c.start)
	switch {
	case e.IDs != nil:
		e.Changed = len(e.IDs)
	case c.op == Claim && e.Rows != nil:
		e.Changed = e.Rows.Len()
	}
	if e.Err != nil && !e.ToldLater {
		e.lost, e.gone = r.refused(e.Err)
	}
	if e.DeadLetters != nil {
		e.Rows = r.deadLetters(c.ctx, e.DeadLetters)
	}
	if c.op == Claim && (e.Changed > 0 || e.Err != nil) {
		c.trace(e.Changed, e.Rows, trace.WithTimestamp(c.start))
	}
	r.measure(c.ctx, e)
	r.report(c.ctx, c.span, e)
	if r.subscriber != nil {
		defer r.contain()
		r.subscriber(c.ctx, e)
	}
}

// A Repeated is the error of an operation that was repeated. Its first failure has been reported already.
type Repeated struct{ Err error }

func (e *Repeated) Error() string { return e.Err.Error() }
func (e *Repeated) Unwrap() error { return e.Err }

// report makes an event's log lines, and ends its span.
func (r *Recorder) report(ctx context.Context, span trace.Span, e Event) {
	defer r.contain()
	if e.Err == nil {
		r.logger.LogAttrs(ctx, slog.LevelDebug, e.Operation.String(), slog.Int("changed", e.Changed),
			slog.Duration("took", e.Duration))
	} else {
		r.logError(ctx, e)
		span.SetAttributes(errorTypeKey.String(fault.Type(e.Err)))
		span.RecordError(e.Err)
		span.SetStatus(codes.Error, e.Err.Error())
	}
	span.End()
	if e.Operation == Reap && e.Rows != nil {
		for i := range e.Rows.Len() {
			r.logAttempt(ctx, slog.LevelWarn, "dead letter", e.Rows.Row(i))
		}
	}
}

// A letter is a dead letter of a reap.
type letter struct {
	ID          uuid.UUID
	Attempt     int
	MaxAttempts int `json:"max_attempts"`
	Error       string
	Labels      Labels
}

// stateFailed is the state of dead letters.
const stateFailed = 3

// letters implement [Rows].
type letters []letter

func (l letters) Len() int { return len(l) }

func (l letters) Row(i int) Row {
	return Row{ID: l[i].ID, Labels: l[i].Labels, Attempt: l[i].Attempt, MaxAttempts: l[i].MaxAttempts,
		State: stateFailed, Outcome: OutcomeExhausted, Reason: LeaseExpired, Error: l[i].Error, Delay: -1}
}

func (r *Recorder) deadLetters(ctx context.Context, rows []byte) letters {
	defer r.contain()
	var l letters
	if err := json.Unmarshal(rows, &l); err != nil {
		r.logger.LogAttrs(ctx, slog.LevelError, "dead letters of a reap cannot be read", slog.Any("error", err))
	}
	return l
}

// Announced counts a notification on behalf of producers.
func (r *Recorder) Announced(ctx context.Context) {
	defer r.contain()
	r.announces.Add(ctx, 1, r.ofTable.add...)
}
