package workqueue

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// renewalChunk bounds the rows of one renewal.
const renewalChunk = 1000

// renew renews the leases of all deliveries in flight until ctx is cancelled. A renewal is due after a third of the
// lease; renew checks twice in that time, and at once when a running row was cancelled.
func (w *Worker) renew(ctx context.Context) {
	ticker := time.NewTicker(w.options.Lease / 6)
	defer ticker.Stop()
	defer w.beat.Store(0)
	for {
		w.beat.Store(max(w.clock(), 1))
		urgent := false
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.flow.Trim() // before their leases are renewed
		case <-w.cancels:
			urgent = true
		}
		w.renewDue(ctx, urgent)
	}
}

func (w *Worker) renewDue(ctx context.Context, all bool) {
	now := w.clock()
	due := slices.DeleteFunc(w.inFlight.snapshot(), func(d *delivery) bool {
		return d.settled.Load() != nil || !all && d.expires.Load()-now > int64(w.options.Lease*2/3)
	})
	slices.SortFunc(due, func(a, b *delivery) int { return cmp.Compare(a.expires.Load(), b.expires.Load()) })
	for chunk := range slices.Chunk(due, renewalChunk) {
		w.renewChunk(ctx, chunk)
		w.beat.Store(max(w.clock(), 1))
		w.abortExpired()
	}
	w.abortExpired()
	w.reportNotReturning(due)
}

// reportNotReturning logs which of the renewed rows run for longer than they should.
func (w *Worker) reportNotReturning(renewed []*delivery) {
	var overdue deliveries
	for _, d := range renewed {
		within := d.runsWithin()
		if late := within > 0 && w.clock()-d.claimed > int64(within); late && !d.overdue {
			d.overdue = true
			overdue = append(overdue, d)
		}
	}
	if len(overdue) > 0 {
		w.table.telemetry.NotReturning(w.logger, overdue, processName())
	}
}

// clock is the worker's monotonic clock.
func (w *Worker) clock() int64 { return int64(time.Since(w.epoch)) }

func (w *Worker) renewChunk(ctx context.Context, chunk []*delivery) {
	byID := make(map[uuid.UUID]*delivery, len(chunk))
	refs, within := make([]claimRef, len(chunk)), make([]*int64, len(chunk))
	for i, d := range chunk {
		byID[d.ID] = d
		end := d.runsWithin().Microseconds()
		refs[i], within[i] = d.ref(), &end
	}
	// A renewal that takes a third of the lease has failed: the next may reach another server.
	expires := w.clock() + int64(w.options.Lease)
	var x extension
	err := w.within(ctx, w.options.Lease/3, func(ctx context.Context) error {
		ctx, call := w.table.telemetry.Start(ctx, telemetry.Extend, len(refs))
		extended, err := w.renewing.extend(ctx, refs, w.options.Lease, within)
		x, err = extended, w.reallyLost(byID, err)
		call.End(telemetry.Event{IDs: x.ids, Rows: deliveries(chunk), Err: err})
		return err
	})
	for _, id := range x.ids {
		byID[id].expires.Store(expires)
	}
	for _, id := range x.cancelled {
		byID[id].abort(ErrRowCancelled)
	}
	w.abortLost(byID, err)
}

// reallyLost keeps only the claims that are really lost in a renewal's error. A delivery that this worker settled while
// the renewal was under way is no longer held, but not lost.
func (w *Worker) reallyLost(byID map[uuid.UUID]*delivery, err error) error {
	var refused *SettleError
	if !errors.As(err, &refused) {
		return err
	}
	settled := func(id uuid.UUID) bool { return !w.inFlight.Has(byID[id]) || byID[id].settling.Load() }
	refused.Lost = slices.DeleteFunc(refused.Lost, settled)
	refused.Gone = slices.DeleteFunc(refused.Gone, settled)
	if len(refused.Lost)+len(refused.Gone) == 0 {
		return nil
	}
	return refused
}

// abortLost cancels the handlers of rows whose claims are lost, and stops renewing them.
func (w *Worker) abortLost(byID map[uuid.UUID]*delivery, err error) {
	var lost *SettleError
	if !errors.As(err, &lost) {
		return
	}
	for _, id := range append(lost.Lost, lost.Gone...) {
		byID[id].abort(ErrLeaseLost)
		w.left(byID[id])
	}
}

// abortExpired cancels the handlers of rows whose lease has expired by the worker's own clock because no renewal
// succeeded: another worker may have claimed them since.
func (w *Worker) abortExpired() {
	now := w.clock()
	var lapsed deliveries
	w.inFlight.each(func(d *delivery) {
		if d.expires.Load() < now && !d.lost.Load() && d.settled.Load() == nil {
			lapsed = append(lapsed, d)
			d.abort(ErrLeaseLost)
		}
	})
	if len(lapsed) > 0 {
		w.table.telemetry.LeasesLapsed(w.logger, lapsed)
	}
}
