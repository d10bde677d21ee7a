package workqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// handle calls the handler of a delivery and decides on its outcome, which its owner passes on to settle, unless
// [Claim.Tx] has settled it. It decides in a deferred function, which also runs if the handler ends its goroutine.
//
// A handler does not start if the lease was lost while the row waited, or the topic of the row has begun to rest. The
// settle is attempted in any case: its guard decides, and after its lease has expired a row is still ours until another
// session takes it.
func (e *engine) handle(d *delivery) {
	if d.lost.Load() || e.topicRests(d) {
		d.decide(d.ctx, released)
		return
	}
	if o := d.leaveOutcome(); o != nil {
		d.decide(d.ctx, o)
		return
	}
	start := time.Now()
	waited := e.dbClock.of(start).Sub(d.DueAt)
	ctx, call := e.table.telemetry.Handle(d.ctx, d.row(), start, waited)
	e.counts.Waited(d.labels[e.table.counted], waited)
	result := exited
	defer func() {
		d.decide(ctx, d.conclude(result))
		handled := d.handled()
		if !handled.Left {
			e.counts.Ran(d.labels[e.table.counted], time.Since(start))
		}
		call.End(handled)
	}()
	result = d.call(ctx)
}

// topicRests reports that the topic of a row has begun to rest since the row was claimed, unless the row is its probe.
func (e *engine) topicRests(d *delivery) bool {
	return !d.probes && d.topic != "" && e.claimer.topics.rests(d.topic)
}

// leaveOutcome returns how to settle a row that the domain does not start; nil if it does. If the domain panics, which
// is logged, the handler is called, as for every row.
func (d *delivery) leaveOutcome() (o *Outcome) {
	leaves := d.engine.leaves
	if leaves == nil || d.unreadable != nil {
		return nil
	}
	defer func() {
		if r := recover(); r != nil {
			o = nil
			d.engine.table.telemetry.LogRow(d.ctx, slog.LevelError, "Domain.Leaves panicked, the row is handled",
				d.labels, d.ID, slog.String("error", text(panicked(r).cause)))
		}
	}()
	if err := leaves(d.ctx, d); err != nil {
		return outcomeOf(err)
	}
	return nil
}

// call runs the handler and reads its result. A panic is a failed attempt, whose error has the stack.
func (d *delivery) call(ctx context.Context) (result *Outcome) {
	defer func() {
		if r := recover(); r != nil {
			result = panicked(r)
		}
	}()
	if d.unreadable != nil {
		return outcomeOf(d.unreadable)
	}
	if timeout := d.engine.handling.HandlerTimeout; timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = withTimeout(ctx, timeout)
		defer cancel()
	}
	err := d.engine.handler(ctx, d)
	if err == nil && d.byTx.Load() == nil {
		err = d.txErr // a handler that drops this error must not ack what was rolled back
	}
	return outcomeOf(err)
}

// panicked is the outcome of a handler that has panicked with r, with the stack of its goroutine.
func panicked(r any) *Outcome {
	o := retried(fmt.Errorf("panic: %v\n%s", r, debug.Stack())).read()
	o.errorType = "panic"
	return o
}

// withTimeout is the context of a handler whose calls may take so long.
func withTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, timeoutError(timeout))
}

// A timeoutError is the cause of that context's end. Its text is made when it is read: few handlers exceed a timeout.
type timeoutError time.Duration

func (e timeoutError) Error() string {
	return fmt.Sprintf("handler exceeded its timeout of %v", time.Duration(e))
}

// conclude makes the outcome from the handler's result and from the reason for which its context was cancelled.
func (d *delivery) conclude(o *Outcome) *Outcome {
	if o.kind != outcomeRetry && o.kind != outcomeUnavailable {
		return o
	}
	switch cause := context.Cause(d.ctx); {
	case errors.Is(cause, ErrShutdown):
		return interrupted
	case errors.Is(cause, ErrRowCancelled):
		return &Outcome{kind: outcomeCancel, cause: o.cause}
	}
	return o
}

// decide makes an outcome that of the row, unless Tx has settled it.
func (d *delivery) decide(ctx context.Context, o *Outcome) {
	if d.byTx.Load() == nil {
		d.settlement.outcome, d.settlement.message, d.settlement.folds = o, d.engine.stored(ctx, o), d.folds()
	}
}

// stored is an outcome's cause as it goes into the table.
func (e *engine) stored(ctx context.Context, o *Outcome) string {
	if e.handling.Redact == nil || o.cause == nil {
		return o.stored()
	}
	return conn.Storable(e.redact(ctx, o.stored()))
}

// redact calls the application's hook. Should that panic, the text is withheld: it may hold a secret.
func (e *engine) redact(ctx context.Context, message string) (redacted string) {
	defer func() {
		if recover() != nil {
			redacted = "withheld: the Redact hook panicked"
		}
	}()
	return e.handling.Redact(ctx, message)
}

// handled is how the handler's call ended, for telemetry.
func (d *delivery) handled() telemetry.Handled {
	s := cmp.Or(d.byTx.Load(), &d.settlement)
	o := s.outcome
	if o.kind == outcomeUnavailable {
		return telemetry.Handled{Type: o.errorType}
	}
	if o.kind != outcomeRetry && o.kind != outcomeFail {
		return telemetry.Handled{Left: o.kind == outcomeLeave}
	}
	return telemetry.Handled{Failed: true, Dead: o.kind == outcomeFail || d.Attempt >= d.MaxAttempts,
		Type: o.errorType, Error: s.message}
}

// succeeded reports whether the row is done, or settled by Tx.
func (d *delivery) succeeded() bool {
	return d.byTx.Load() != nil || outcomes[d.settlement.outcome.kind].ends == Done
}
