package workqueue

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// inFlight holds the deliveries of an engine from the claim until the settle.
type inFlight struct {
	mu         sync.Mutex
	deliveries map[uuid.UUID]*delivery
}

func (f *inFlight) add(ds []*delivery) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.deliveries == nil {
		f.deliveries = make(map[uuid.UUID]*delivery)
	}
	for _, d := range ds {
		if stale := f.deliveries[d.ID]; stale != nil {
			stale.abort(ErrLeaseLost) // we have claimed the row anew: our older claim is void
		}
		f.deliveries[d.ID] = d
	}
}

// remove forgets deliveries, unless the row has been claimed anew meanwhile.
func (f *inFlight) remove(rows []*settlement) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range rows {
		if d := f.deliveries[s.id]; d != nil && d.claimedRow == s.row {
			delete(f.deliveries, s.id)
		}
	}
}

func (f *inFlight) Has(d *delivery) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.deliveries[d.ID] == d
}

func (f *inFlight) Count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.deliveries)
}

func (f *inFlight) snapshot() []*delivery {
	f.mu.Lock()
	defer f.mu.Unlock()
	ds := make([]*delivery, 0, len(f.deliveries))
	for _, d := range f.deliveries {
		ds = append(ds, d)
	}
	return ds
}

// renewalChunk bounds the rows of one renewal.
const renewalChunk = 1000

// renew renews the leases of all deliveries in flight until ctx is cancelled. A renewal is due after a third of the
// lease; renew checks twice in that time, and at once when a running row was cancelled.
func (e *engine) renew(ctx context.Context) {
	ticker := time.NewTicker(e.handling.Lease / 6)
	defer ticker.Stop()
	defer e.beat.Store(0)
	for {
		e.beat.Store(max(e.clock(), 1))
		urgent := false
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			e.flow.Trim() // before their leases are renewed
		case <-e.cancels:
			urgent = true
		}
		e.renewDue(ctx, urgent)
	}
}

func (e *engine) renewDue(ctx context.Context, all bool) {
	now := e.clock()
	due := slices.DeleteFunc(e.inFlight.snapshot(), func(d *delivery) bool {
		return d.byTx.Load() != nil || !all && d.expires.Load()-now > int64(e.handling.Lease*2/3)
	})
	slices.SortFunc(due, func(a, b *delivery) int { return cmp.Compare(a.expires.Load(), b.expires.Load()) })
	for chunk := range slices.Chunk(due, renewalChunk) {
		e.renewChunk(ctx, chunk)
		e.beat.Store(max(e.clock(), 1))
		e.abortExpired()
	}
	if len(due) == 0 {
		e.abortExpired()
	}
	e.reportNotReturning(due)
}

// reportNotReturning logs which of the renewed rows run for longer than they should.
func (e *engine) reportNotReturning(renewed []*delivery) {
	var overdue deliveries
	for _, d := range renewed {
		within := d.runsWithin()
		if late := within > 0 && e.clock()-d.claimed > int64(within); late && !d.overdue {
			d.overdue = true
			overdue = append(overdue, d)
		}
	}
	if len(overdue) > 0 {
		e.table.telemetry.NotReturning(e.logger, overdue, processName())
	}
}

func (e *engine) renewChunk(ctx context.Context, chunk []*delivery) {
	byID := make(map[uuid.UUID]*delivery, len(chunk))
	refs, within := make([]claimRef, len(chunk)), make([]*int64, len(chunk))
	for i, d := range chunk {
		byID[d.ID] = d
		end := d.runsWithin().Microseconds()
		refs[i], within[i] = d.settlement.claimRef, &end
	}
	// A renewal that takes a third of the lease has failed: the next may reach another server.
	expires := e.clock() + int64(e.handling.Lease)
	var x extension
	err := e.within(ctx, e.handling.Lease/3, func(ctx context.Context) error {
		ctx, call := e.table.telemetry.Start(ctx, telemetry.Extend, len(refs))
		extended, err := e.at.renewing(e.table).extend(ctx, refs, e.handling.Lease, within)
		x, err = extended, e.reallyLost(byID, err)
		call.End(telemetry.Event{IDs: x.ids, Rows: deliveries(chunk), Err: err})
		return err
	})
	for _, id := range x.ids {
		byID[id].expires.Store(expires)
	}
	for _, id := range x.cancelled {
		byID[id].abort(ErrRowCancelled)
	}
	e.abortLost(byID, err)
}

// reallyLost keeps only the claims that are really lost in a renewal's error. A delivery that this worker settled while
// the renewal was under way is no longer held, but not lost.
func (e *engine) reallyLost(byID map[uuid.UUID]*delivery, err error) error {
	var refused *SettleError
	if !errors.As(err, &refused) {
		return err
	}
	over := func(id uuid.UUID) bool { return !e.inFlight.Has(byID[id]) || byID[id].settling.Load() }
	refused.Lost = slices.DeleteFunc(refused.Lost, over)
	refused.Gone = slices.DeleteFunc(refused.Gone, over)
	if len(refused.Lost)+len(refused.Gone) == 0 {
		return nil
	}
	return refused
}

// abortLost cancels the handlers of rows whose claims are lost, and stops renewing them.
func (e *engine) abortLost(byID map[uuid.UUID]*delivery, err error) {
	var lost *SettleError
	if !errors.As(err, &lost) {
		return
	}
	for _, id := range append(lost.Lost, lost.Gone...) {
		byID[id].abort(ErrLeaseLost)
		e.forget(&byID[id].settlement)
	}
}

// abortExpired cancels the handlers of rows whose lease has expired by the worker's own clock because no renewal
// succeeded: another worker may have claimed them since.
func (e *engine) abortExpired() {
	now := e.clock()
	var lapsed deliveries
	for _, d := range e.inFlight.snapshot() {
		if d.expires.Load() < now && !d.lost.Load() && d.byTx.Load() == nil {
			lapsed = append(lapsed, d)
			d.abort(ErrLeaseLost)
		}
	}
	if len(lapsed) > 0 {
		e.table.telemetry.LeasesLapsed(e.logger, lapsed)
	}
}
