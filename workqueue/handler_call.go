package workqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// handle calls the handler of a delivery and decides on its outcome, which its owner passes on to settle, unless
// [Claim.Tx] has settled it. It decides in a deferred function, which also runs if the handler panics or ends its
// goroutine: both are failed attempts.
func (e *engine) handle(d *delivery) {
	if o := e.unstarted(d); o != nil {
		d.decide(d.ctx, o)
		return
	}
	start := time.Now()
	waited := e.dbClock.of(start).Sub(d.DueAt)
	ctx, call := e.table.telemetry.Handle(d.ctx, d.row(), start, waited)
	counts := d.settlement.lane
	counts.Waits.Add(waited)
	result := exited
	defer func() {
		if r := recover(); r != nil {
			result = panicked(r)
		}
		d.decide(ctx, result)
		handled := d.handled()
		if !handled.Left {
			counts.Runs.Add(time.Since(start))
		}
		call.End(handled)
	}()
	result = d.call(ctx)
}

// unstarted returns how to settle a row whose handler is not called; nil if it is. A handler does not start if the
// lease was lost while the row waited, the topic of the row has begun to rest, or the domain leaves the row to others.
// The settle is attempted in any case: its guard decides, and after its lease has expired a row is still ours until
// another session takes it.
func (e *engine) unstarted(d *delivery) (o *Outcome) {
	if d.lost.Load() || e.topicRests(d) {
		return released
	}
	if e.leaves == nil || d.unreadable != nil {
		return nil
	}
	defer func() {
		if r := recover(); r != nil {
			o = nil
			e.table.telemetry.LogRow(d.ctx, slog.LevelError, "Domain.Leaves panicked, the row is handled", d.labels, d.ID,
				slog.String("error", text(panicked(r).cause)))
		}
	}()
	if err := e.leaves(d.ctx, d); err != nil {
		return outcomeOf(err)
	}
	return nil
}

// topicRests reports that the topic of a row has begun to rest since the row was claimed, unless the row is its probe.
func (e *engine) topicRests(d *delivery) bool {
	return !d.probes && d.topic != "" && e.claimer.topics.rests(d.topic)
}

// call calls the handler and reads its result.
func (d *delivery) call(ctx context.Context) *Outcome {
	if d.unreadable != nil {
		return outcomeOf(d.unreadable)
	}
	if timeout := d.engine.handling.HandlerTimeout; timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = withTimeout(ctx, timeout)
		defer cancel()
	}
	return outcomeOf(d.orTxErr(d.engine.handler(ctx, d)))
}

// orTxErr is the result of a handler. One that drops the error of Tx must not acknowledge what was rolled back.
func (d *delivery) orTxErr(result error) error {
	if result == nil && d.byTx.Load() == nil {
		return d.txErr
	}
	return result
}

// panicked is the outcome of a handler that has panicked with r: a failed attempt, whose error has the stack.
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

// decide makes an outcome that of the row, unless Tx has settled it. If the handler's context was cancelled by a
// shutdown, or with the row, that is why the handler has failed.
func (d *delivery) decide(ctx context.Context, o *Outcome) {
	if d.byTx.Load() != nil {
		return
	}
	if o.kind == outcomeRetry || o.kind == outcomeUnavailable {
		switch cause := context.Cause(d.ctx); {
		case errors.Is(cause, ErrShutdown):
			o = interrupted
		case errors.Is(cause, ErrRowCancelled):
			o = &Outcome{kind: outcomeCancel, cause: o.cause}
		}
	}
	s := &d.settlement
	s.outcome, s.message, s.folds = o, o.stored(ctx, d.engine.handling.Redact), d.folds()
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
