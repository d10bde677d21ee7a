package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/txwork/txwork/internal/header"
)

// A Handling is a handler's call that is under way.
type Handling struct {
	recorder *Recorder
	ctx      context.Context
	span     trace.Span
	row      Row
	start    time.Time
}

// Handle begins a handler's call, with its span, which is linked to the producer. delay is for how long the row could
// have been claimed.
func (r *Recorder) Handle(ctx context.Context, row Row, start time.Time, delay time.Duration) (in context.Context,
	h Handling) {
	in, h = ctx, Handling{r, ctx, noSpan, row, start}
	defer r.contain()
	if r.delay.Enabled(ctx) {
		r.delay.Record(ctx, max(delay, 0).Seconds(), r.with(series{op: process, labels: row.Labels}).record...)
	}
	if !r.traces.Load() { // an SDK that begins to trace does so with the next claim
		return in, h
	}
	var options []trace.SpanStartOption
	if link, ok := producerLink(row.Headers); ok {
		options = []trace.SpanStartOption{trace.WithLinks(link)}
	}
	in, h.span = r.begin(ctx, process, options...)
	h.ctx = in
	if h.span.IsRecording() {
		h.span.SetAttributes(attribute.String("messaging.message.id", row.ID.String()),
			attribute.Int("txwork.attempt", row.Attempt))
		h.span.SetAttributes(r.attributes(row.Labels)...)
	}
	return in, h
}

// A Handled is how a handler's call ended.
type Handled struct {
	Left   bool // to other workers: the row has not started
	Failed bool
	Dead   bool   // failed for good
	Type   string // of the error
	Error  string // as it is stored
}

// End ends the call. Failed attempts and dead letters are logged with the first line of the error.
func (h *Handling) End(e Handled) {
	r := h.recorder
	defer r.contain()
	if !e.Left {
		h.measure(e)
	}
	if e.Failed {
		h.fail(e)
		level, what := slog.LevelInfo, "attempt failed"
		if e.Dead {
			level, what = slog.LevelWarn, "dead letter"
		}
		h.row.Error = e.Error
		r.logAttempt(h.ctx, level, what, h.row)
	}
	h.span.End()
}

func (h *Handling) measure(e Handled) {
	if r := h.recorder; r.process.Enabled(h.ctx) {
		r.process.Record(h.ctx, time.Since(h.start).Seconds(), r.with(series{op: process, labels: h.row.Labels,
			key: errorTypeKey, value: e.Type}).record...)
	}
}

func (h *Handling) fail(e Handled) {
	h.span.SetAttributes(errorTypeKey.String(e.Type))
	h.span.RecordError(errors.New(e.Error))
	h.span.SetStatus(codes.Error, e.Error)
}

// propagator carries the W3C trace context in the rows' headers.
var propagator = propagation.TraceContext{}

// TraceHeaders is the trace context of ctx as headers; none outside a trace.
func TraceHeaders(ctx context.Context) map[string]string {
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
	if len(headers) == 0 || carrier.Get("traceparent") == "" {
		return trace.Link{}, false
	}
	ctx := propagator.Extract(context.Background(), carrier)
	sc := trace.SpanContextFromContext(ctx)
	return trace.Link{SpanContext: sc}, sc.IsValid()
}

func producerLinks(rows Rows) []trace.Link {
	var links []trace.Link
	for i := 0; rows != nil && i < rows.Len(); i++ {
		if link, ok := producerLink(rows.Row(i).Headers); ok {
			links = append(links, link)
		}
	}
	return links
}

// AnswerProcessed is the answer of an arrival whose handler has run, AnswerError that of one that failed.
const (
	AnswerProcessed = "processed"
	AnswerError     = "error"
)

// An Arrival is a message that is processed as it arrives, without a claim.
type Arrival struct{ Handling }

// Arrive begins the processing of a message, with its span, a child of the span in ctx.
func (r *Recorder) Arrive(ctx context.Context, l Labels) (context.Context, Arrival) {
	a := Arrival{Handling{r, ctx, noSpan, Row{Labels: l}, time.Now()}}
	a.begin()
	return a.ctx, a
}

func (a *Arrival) begin() {
	r := a.recorder
	defer r.contain()
	a.ctx, a.span = r.begin(a.ctx, process, trace.WithAttributes(r.attributes(a.row.Labels)...))
}

// End tells the answer. A handler ran if the answer is processed or error.
func (a *Arrival) End(id uuid.UUID, answer string, failure Handled) {
	a.recorder.CountArrival(a.ctx, a.row.Labels, answer)
	defer a.recorder.contain()
	a.span.SetAttributes(answerKey.String(answer))
	if id != uuid.Nil {
		a.span.SetAttributes(attribute.String("messaging.message.id", id.String()))
	}
	if failure.Failed {
		a.fail(failure)
	}
	if answer == AnswerProcessed || failure.Failed {
		a.measure(failure)
	}
	a.span.End()
}

// CountArrival counts an answer.
func (r *Recorder) CountArrival(ctx context.Context, l Labels, answer string) {
	defer r.contain()
	if r.arrivals.Enabled(ctx) {
		r.add(ctx, r.arrivals, 1, series{op: process, labels: l, key: answerKey, value: answer})
	}
}
