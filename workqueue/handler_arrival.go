package workqueue

import (
	"cmp"
	"context"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/fault"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
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
	ctx, arrival := t.telemetry.Arrive(ctx, t.telemetry.Pick(t.labels.written, values))
	var id uuid.UUID
	answer, failure := telemetry.AnswerError, telemetry.Handled{Failed: true, Type: "panic",
		Error: "the handler panicked or ended its goroutine"}
	defer func() { arrival.End(id, answer, failure) }()
	id, answer, err := process(ctx)
	failure = telemetry.Handled{}
	if err != nil {
		answer, failure = telemetry.AnswerError, failureOf(err)
	}
	return err
}

// failureOf reads an error of the database or of the application. The methods of the latter may panic.
func failureOf(err error) telemetry.Handled {
	o := outcomeOf(err)
	e := telemetry.Handled{Failed: true, Type: fault.Type(err),
		Error: cmp.Or(o.stored(context.Background(), nil), conn.Storable(text(err)))}
	if e.Type == "_OTHER" {
		e.Type = cmp.Or(o.errorType, "_OTHER")
	}
	return e
}

// CountArrival counts an answer in txwork.arrivals, or "error" if err is not nil, for a message whose processing the
// caller cannot observe. Values are those of Spec.Columns in their order.
func (t *Table) CountArrival(ctx context.Context, values []any, answer string, err error) {
	if err != nil {
		answer = telemetry.AnswerError
	}
	t.telemetry.CountArrival(ctx, t.telemetry.Pick(t.labels.written, values), answer)
}
