package workqueue

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/txwork/txwork/workqueue/internal/telemetry"
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

// An Observer is told of every operation on a table that this process makes. What SQL functions do it is not told.
type Observer func(ctx context.Context, e Event)

// An Event is one operation, successful or not. Metrics, spans and log lines are made of the same event.
//
// Every outcome that has been committed is told once, in the Rows of one event: also that of [Claim.Tx], and that of a
// settle which was repeated because its reply was lost. In an application's transaction ([Table.In], [Worker.DrainIn])
// it is told when the statement has succeeded, before the application commits or rolls back.
type Event struct {
	Table string
	// enqueue, claim, ack, abandon, snooze, fail, settle, extend, cancel, redrive, reap, purge, sweep, fold
	Operation string
	Requested int
	Changed   int
	IDs       []uuid.UUID // the rows that changed; empty for reap, sweep and fold
	// Rows are the rows of an enqueue and of a claim, those of a settle with their outcomes, and the dead letters of a
	// reap.
	Rows     []RowEvent
	Reaped   Reaped // of a reap
	State    string // of a purge: done or dead_letter
	Duration time.Duration
	Err      error
}

// A RowEvent is what an [Event] tells of one row. [Queue.Ack] and the other settles by ids know neither Attempt nor
// Labels.
type RowEvent struct {
	ID          uuid.UUID
	Labels      map[string]string // the values of Spec.Labels
	Attempt     int               // 1 is the first
	MaxAttempts int
	// Outcome is what became of a settled row, in the words of the metrics' txwork.outcome.
	Outcome RowOutcome
	// Reason is why a row will be attempted again, error, or why it is a dead letter: permanent, exhausted or
	// lease_expired. Otherwise it is empty.
	Reason string
	Error  string    // as it is stored
	State  Status    // the row's state since then; that of a row whose claim was lost is not known, and Ready
	DueAt  time.Time // when it is due again, by this process's clock; zero if the outcome did not say
}

// A RowOutcome is what became of a row that was settled.
type RowOutcome string

const (
	RowAcked       RowOutcome = "ack"         // done
	RowAbandoned   RowOutcome = "abandon"     // an attempt failed, another will follow
	RowSnoozed     RowOutcome = "snooze"      // put back for later
	RowLeft        RowOutcome = "leave"       // left to other workers; metrics count it as released
	RowReleased    RowOutcome = "release"     // put back where it was, as by a worker that stops
	RowFailed      RowOutcome = "fail"        // a dead letter, by [Permanent]
	RowCancelled   RowOutcome = "cancel"      // ended by a cancel
	RowUnavailable RowOutcome = "unavailable" // put back where it was: its destination cannot be reached
	RowExhausted   RowOutcome = "exhausted"   // a dead letter, because it was the last attempt
	RowLost        RowOutcome = "lost"        // the claim was lost, so nothing was changed: [ErrLeaseLost]
	RowGone        RowOutcome = "gone"        // the row does not exist any more: [ErrGone]
)

func newTelemetry(t Telemetry, spec Spec) (*telemetry.Recorder, error) {
	o := telemetry.Options{
		TracerProvider: t.TracerProvider, MeterProvider: t.MeterProvider, Logger: t.Logger,
		Table: spec.Name(), Labels: spec.Labels, Refused: refusedRows,
	}
	if len(spec.Lanes) > 0 {
		o.Lane = spec.Lanes[0]
	}
	if t.Observer != nil {
		o.Subscriber = func(ctx context.Context, e telemetry.Event) { t.Observer(ctx, newEvent(spec, e)) }
	}
	return telemetry.New(o)
}

// labelColumns are where a Spec's labels are among the columns that are written and claimed.
type labelColumns struct{ written, claimed []int }

func (s Spec) labelColumns() (c labelColumns) {
	for _, name := range s.Labels {
		is := func(c Column) bool { return c.Name == name }
		c.written = append(c.written, slices.IndexFunc(s.Columns, is))
		c.claimed = append(c.claimed, slices.IndexFunc(s.claimed(), is))
	}
	return c
}

func refusedRows(err error) (lost, gone []uuid.UUID) {
	if refused, ok := errors.AsType[*SettleError](err); ok {
		return refused.Lost, refused.Gone
	}
	return nil, nil
}

func newEvent(spec Spec, e telemetry.Event) Event {
	event := Event{
		Table: spec.Name(), Operation: e.Operation.String(), Requested: e.Requested, Changed: e.Changed, IDs: e.IDs,
		State: e.State, Duration: e.Duration, Err: e.Err,
	}
	if e.Operation == telemetry.Reap {
		event.Reaped = Reaped{Requeued: e.Changed - e.Failed, Failed: e.Failed}
	}
	if e.Operation == telemetry.Claim {
		event.IDs = make([]uuid.UUID, 0, e.Changed)
	}
	now := time.Now()
	for i := 0; e.Rows != nil && i < e.Rows.Len(); i++ {
		r := e.Rows.Row(i)
		if e.Operation == telemetry.Claim {
			event.IDs = append(event.IDs, r.ID)
		}
		row := RowEvent{ID: r.ID, Attempt: r.Attempt, MaxAttempts: r.MaxAttempts, Outcome: RowOutcome(r.Outcome),
			Reason: r.Reason, Error: r.Error, State: Status(r.State)}
		if r.Delay >= 0 {
			row.DueAt = now.Add(r.Delay)
		}
		if r.Attempt > 0 && len(spec.Labels) > 0 {
			row.Labels = make(map[string]string, len(spec.Labels))
			for i, name := range spec.Labels {
				row.Labels[name] = r.Labels[i]
			}
		}
		event.Rows = append(event.Rows, row)
	}
	return event
}
