package workqueue

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/fault"
)

const (
	answerProcessed = "processed"
	answerError     = "error"
)

// ProcessArrival calls process for a message that is processed as it arrives, without a claim, as an inbox does, and
// returns its error unchanged. It reports the call like a worker's call of a handler:
//
//   - A span "process <table>" of kind CONSUMER, a child of the span in ctx. It has the labels of values, which are
//     those of Spec.Columns in their order, the answer, and the id of the row if process returns one.
//   - txwork.arrivals counts the answer, or "error" if process returns an error, panics or ends its goroutine.
//   - messaging.process.duration has the call if the answer is "processed" or "error". For any other answer, such as
//     "duplicate", no handler has run.
func (t *Table) ProcessArrival(ctx context.Context, values []any,
	process func(ctx context.Context) (id uuid.UUID, answer string, err error)) error {
	arrived := t.telemetry.arriving(ctx, values)
	var id uuid.UUID
	answer, failure := answerError, &arrivalError{"panic", "the handler panicked or ended its goroutine"}
	defer func() { arrived.end(id, answer, failure) }()
	id, answer, err := process(arrived.ctx)
	failure = nil
	if err != nil {
		answer, failure = answerError, newArrivalError(err)
	}
	return err
}

// An arrivalError is the error of an arrival, as spans and metrics tell it.
type arrivalError struct{ kind, message string }

// newArrivalError reads an error of the database or of the application. The methods of the latter may panic.
func newArrivalError(err error) *arrivalError {
	o := outcomeOf(err)
	e := &arrivalError{fault.Type(err), cmp.Or(o.stored(), conn.Storable(text(err)))}
	if e.kind == "_OTHER" {
		e.kind = cmp.Or(o.errorType, "_OTHER")
	}
	return e
}

// CountArrival counts an answer in txwork.arrivals, or "error" if err is not nil, for a message whose processing the
// caller cannot observe. Values are those of Spec.Columns in their order.
func (t *Table) CountArrival(ctx context.Context, values []any, answer string, err error) {
	if err != nil {
		answer = answerError
	}
	t.telemetry.countArrival(ctx, t.telemetry.labelsOf(values), answer)
}

// An arrival is a message that is processed as it arrives.
type arrival struct {
	telemetry *telemetry
	labels    labels
	start     time.Time
	ctx       context.Context // with the span
	span      trace.Span
}

func (t *telemetry) arriving(ctx context.Context, values []any) *arrival {
	a := &arrival{telemetry: t, labels: t.labelsOf(values), start: time.Now(), ctx: ctx, span: noSpan}
	defer t.contain()
	a.ctx, a.span = t.tracer.Start(ctx, t.processName,
		append(slices.Clip(t.processSpan), trace.WithAttributes(t.labels.attributes(a.labels)...))...)
	return a
}

// end reports the answer. The failure is nil unless the answer is an error.
func (a *arrival) end(id uuid.UUID, answer string, failure *arrivalError) {
	t := a.telemetry
	defer t.contain()
	t.countArrival(a.ctx, a.labels, answer)
	measured := series{op: opProcess, labels: a.labels, key: errorTypeKey}
	a.span.SetAttributes(answerKey.String(answer))
	if id != uuid.Nil {
		a.span.SetAttributes(attribute.String("messaging.message.id", id.String()))
	}
	if failure != nil {
		measured.value = failure.kind
		a.span.SetAttributes(errorTypeKey.String(failure.kind))
		a.span.RecordError(errors.New(failure.message))
		a.span.SetStatus(codes.Error, failure.message)
	}
	if (answer == answerProcessed || failure != nil) && t.process.Enabled(a.ctx) {
		t.process.Record(a.ctx, time.Since(a.start).Seconds(), t.with(measured).record...)
	}
	a.span.End()
}

func (t *telemetry) countArrival(ctx context.Context, l labels, answer string) {
	defer t.contain()
	if t.arrivals.Enabled(ctx) {
		t.add(ctx, t.arrivals, 1, series{op: opProcess, labels: l, key: answerKey, value: answer})
	}
}

// labelsOf picks the labels from the values of all columns.
func (t *telemetry) labelsOf(values []any) labels {
	defer t.contain()
	return pickLabels(t.labels.written, values)
}
