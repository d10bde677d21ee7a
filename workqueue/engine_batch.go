package workqueue

import (
	"context"
	"log/slog"
	"math/bits"
	"time"

	"github.com/txwork/txwork/workqueue/internal/flow"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// A batchRun runs a batch: each step makes one call of its handler at most, and returns the rows whose outcomes are
// decided by it, which need not wait for the others.
type batchRun struct {
	*engine
	*batching
	began  time.Time
	parts  [][]*delivery // still to be called, the next last
	calls  int           // so far
	failed int           // since the last that succeeded
	most   int           // then nothing is left to find, see [batchRun.split]
}

// together puts the rows in front that are handled together with the first of those that wait, and returns how many
// they are, and their batch, which others may join. The others stay in their order.
func together[R any](waiting []R, of func(R) *delivery) (n int, batch flow.Batch[*delivery]) {
	n = 1
	b := of(waiting[0]).batching
	if b == nil {
		return n, batch
	}
	batch = b.from(of(waiting[0]))
	for i := 1; i < len(waiting) && !batch.IsFull(); i++ {
		if row := waiting[i]; batch.Offer(of(row)) {
			copy(waiting[n+1:i+1], waiting[n:i])
			waiting[n] = row
			n++
		}
	}
	return n, batch
}

// handleBatch calls the handler of rows that belong together until each has an outcome, and takes the rows behind them
// that may run with them. It calls begins before each call, and ended for each row when its outcome is decided, at the
// latest when it returns, or when a hook of the application ends the goroutine.
func (e *engine) handleBatch(rows []*delivery, begins func(), ended func(*delivery)) {
	end := func(d *delivery) { d.ended = true; ended(d) }
	defer func() {
		for _, d := range rows {
			if !d.ended {
				end(d)
			}
		}
	}()
	rows = e.takeRuns(rows)
	for r := e.newBatchRun(rows); r.more(); {
		begins()
		for _, d := range r.step() {
			end(d)
		}
	}
}

// newBatchRun begins a run of rows that belong together.
func (e *engine) newBatchRun(rows []*delivery) *batchRun {
	return &batchRun{engine: e, batching: rows[0].batching, began: time.Now(), parts: [][]*delivery{rows},
		most: 2 * bits.Len(uint(len(rows)))}
}

// more reports whether rows are left without an outcome.
func (r *batchRun) more() bool { return len(r.parts) > 0 }

// step calls the handler with the next part.
func (r *batchRun) step() (decided []*delivery) {
	last := len(r.parts) - 1
	part, decided := r.leaveOut(r.parts[last])
	r.parts = r.parts[:last]
	if len(part) == 0 {
		return decided
	}
	began := r.clock()
	each, all := r.handlePart(part)
	switch {
	case each != nil:
		r.failed = 0
		r.failing.Store(nil)
		return append(decided, r.keepUndecided(part, each)...)
	case !all.costs():
		return append(decided, r.endWith(all, part)...)
	case len(part) == 1:
		r.failed++
		decided = append(decided, part...)
	default:
		r.split(part, all, r.clock()-began)
	}
	if r.failed < r.most || !r.more() {
		return decided
	}
	return append(decided, r.putBack(all)...)
}

// leaveOut decides on rows that do not start, because their claim was lost, they were cancelled, or the domain leaves
// them, and returns the others.
func (r *batchRun) leaveOut(part []*delivery) (rows, decided []*delivery) {
	for _, d := range part {
		if o := r.skipped(d); o != nil {
			d.decide(d.ctx, d.inOrder(o))
			decided = append(decided, d)
		} else if d.byTx.Load() != nil || d.isStopped() {
			d.decide(d.ctx, d.inOrder(interrupted))
			decided = append(decided, d)
		} else {
			rows = append(rows, d)
		}
	}
	return rows, decided
}

// skipped returns how to settle a row that this call leaves out; nil if it does not.
func (r *batchRun) skipped(d *delivery) *Outcome {
	switch cause, lost := context.Cause(d.ctx), d.lost.Load(); {
	case r.calls == 0 && (lost || cause == nil):
		return r.unstarted(d)
	case lost:
		return interrupted
	case cause != nil:
		return outcomeOf(cause)
	}
	return nil
}

// handlePart calls the handler with some rows. If the call says so, each of them gets its outcome, and so does a row
// that was alone in a call which failed.
func (r *batchRun) handlePart(part []*delivery) (each []*Outcome, all *Outcome) {
	start := time.Now()
	base, c := beginCall(part)
	defer c.end()
	if r.calls++; r.calls == 1 {
		for _, d := range part {
			waited := r.dbClock.of(start).Sub(d.DueAt)
			d.settlement.lane.Waits.Add(waited)
			r.table.telemetry.Waited(base, d.labels, waited)
		}
	}
	ctx, call := r.table.telemetry.HandleBatch(base, deliveries(part), start)
	each, all = r.call(ctx, r.handling.HandlerTimeout, part)
	if all != nil && all.costs() && len(part) > 1 {
		message := all.stored(ctx, r.handling.Redact)
		call.End(nil, telemetry.Handled{Failed: true, Type: all.errorType, Error: message})
		if r.calls == 1 {
			r.table.telemetry.LogBatch(ctx, r.logger, slog.LevelInfo, "batch failed, its halves are tried",
				deliveries(part), message)
		}
		return nil, all
	}
	handled := make([]telemetry.Handled, len(part))
	for i, d := range part {
		o := all
		if each != nil {
			o = each[i]
		}
		if o == nil {
			handled[i].Left = true // it is called again
			continue
		}
		d.decide(ctx, d.inOrder(o))
		handled[i] = d.handled()
		if !handled[i].Left {
			d.settlement.lane.Runs.Add(time.Since(start))
		}
	}
	call.End(handled, telemetry.Handled{})
	return each, all
}

// keepUndecided returns the rows of a call that have outcomes. The others, which the call has rolled back, are the next
// part.
func (r *batchRun) keepUndecided(part []*delivery, each []*Outcome) (decided []*delivery) {
	var again []*delivery
	for i, d := range part {
		if each[i] == nil {
			again = append(again, d)
		} else {
			decided = append(decided, d)
		}
	}
	if len(again) > 0 {
		r.parts = append(r.parts, again)
	}
	return decided
}

// endWith decides on all rows that are left as the handler did on the last call, which has decided on its own. It asks
// for no attempt, as when the receiver is away, so that further calls would get the same answer.
func (r *batchRun) endWith(o *Outcome, decided []*delivery) []*delivery {
	for _, part := range r.parts {
		for _, d := range part {
			d.decide(d.ctx, d.inOrder(o))
		}
		decided = append(decided, part...)
	}
	r.parts = nil
	return decided
}

// split has the halves of a part called that failed, the first one first. The time of the call is not held against its
// rows.
func (r *batchRun) split(part []*delivery, all *Outcome, took int64) {
	r.failed++
	for _, d := range part {
		if within := d.runsWithin(); within > 0 {
			d.runLimit.Store(int64(within) + took)
		}
	}
	half := len(part) / 2
	r.parts = append(r.parts, part[half:], part[:half])
}

// putBack ends a run in which all calls have failed for so long that a poison among many good rows would have been
// found: at least one row has failed alone. The others return with their attempt, after a pause that grows for as long
// as no call succeeds, so that an outage costs them as many updates as a backoff.
func (r *batchRun) putBack(last *Outcome) []*delivery {
	retry := r.table.spec.Retry
	pause := retry.after(r.failedFor(r.began, time.Now(), saturated(2*float64(retry.limit()))))
	cause := errUntried{last}
	rows := r.endWith(outcomeOf(SnoozeFor(pause, cause)), nil)
	r.table.telemetry.LogBatch(context.Background(), r.logger, slog.LevelWarn, "all calls of a batch failed, "+
		"the rest of it is put back", deliveries(rows), last.stored(context.Background(), r.handling.Redact))
	return rows
}
