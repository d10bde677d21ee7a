package workqueue

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/outage"
	"github.com/txwork/txwork/workqueue/internal/fault"
)

const (
	// patientWaits is how often a batch is repeated whole if its failure says nothing about its rows. It is also how
	// often a refused row is tried while nothing else is settled either. Both take 3 s.
	patientWaits = 6
	// vainTries is how many tries in a row may fail, while nothing is settled, before they are made more slowly.
	vainTries = 32
	// vainStep is the number of further failures after which the pause between tries doubles.
	vainStep = 16
)

// A bisector settles batches that failed. It tries halves of them until each row that cannot be settled is alone. It
// retries such rows with growing pauses, or leaves them to their leases; either way they delay no others.
//
// One goroutine uses it, except for the size.
type bisector struct {
	engine *engine

	now    [][]*settlement // parts to try at once, each in a transaction of its own
	newest bool            // whether the newest of them was taken last
	resume time.Time       // when the next of them may be tried
	later  []*settlement   // tried when they are due

	size    atomic.Int64 // rows in it
	seen    int64        // how many settles of the engine had changed something when the last try failed
	applied int          // settles of its own that changed something
	vain    int          // tries in a row that failed while nothing was settled
	cause   error        // of the last failure
}

// add takes a batch that is to be tried at once.
func (b *bisector) add(batch []*settlement) {
	b.size.Add(int64(len(batch)))
	b.now = append(b.now, batch)
}

// addFailed takes a batch that was tried and failed. The error is that of step.
func (b *bisector) addFailed(ctx context.Context, batch []*settlement, err error) error {
	b.size.Add(int64(len(batch)))
	return b.failed(ctx, batch, err)
}

// rest is how long to rest before the next step; negative if nothing is left.
func (b *bisector) rest() time.Duration {
	switch {
	case len(b.now) > 0:
		return max(time.Until(b.resume), 0)
	case len(b.later) > 0:
		first := slices.MinFunc(b.later, func(x, y *settlement) int { return x.due.Compare(y.due) })
		return max(time.Until(first.due), 0)
	}
	return -1
}

// step tries to settle one part. The error names rows whose claims were lost, and rows that are left to their leases.
func (b *bisector) step(ctx context.Context) error {
	part := b.take()
	changed, err := b.engine.settle(ctx, part, b.limits(part))
	if fault.IsUnsettled(err) {
		return b.failed(ctx, part, err)
	}
	if changed > 0 {
		b.applied++
	}
	b.size.Add(int64(-len(part)))
	return err
}

// take prefers parts to postponed rows. It takes the newest part, which is small, and the oldest, which is large, in
// turn: a good row is then found early, whether few rows are bad or most, in whatever order.
func (b *bisector) take() []*settlement {
	if len(b.now) == 0 {
		return b.takeDue()
	}
	i := 0
	if b.newest = !b.newest; b.newest {
		i = len(b.now) - 1
	}
	part := b.now[i]
	b.now = slices.Delete(b.now, i, i+1)
	return part
}

func (b *bisector) takeDue() (due []*settlement) {
	now := time.Now()
	b.later = slices.DeleteFunc(b.later, func(p *settlement) bool {
		isDue := len(due) < settleBatch && !p.due.After(now)
		if isDue {
			due = append(due, p)
		}
		return isDue
	})
	return due
}

// limits are strict for a part: a row that exceeds them is tried alone, and with each try its limits grow.
func (b *bisector) limits(part []*settlement) TxLimits {
	switch first := part[0]; {
	case first.isNew():
		return batchLimitsWith(b.size.Load() - int64(len(part)))
	case len(part) == 1:
		return TxLimits{
			Lock:      partLimits.Lock << min(first.waits, 4),
			Statement: min(partLimits.Statement<<min(first.waits, 16), b.engine.settleTimeout()),
		}
	}
	return partLimits
}

var (
	// batchLimits are the limits of a batch. It waits for locks far longer than renewals, cancels and other settles
	// take, and no other statements of ours hold the locks that it needs.
	batchLimits = TxLimits{Lock: 500 * time.Millisecond, Statement: 2 * time.Second}
	// partLimits are the limits of a part of a batch that failed. If a part stops waiting too early, it is only tried
	// again after a pause.
	partLimits = TxLimits{Lock: 2 * time.Millisecond, Statement: 500 * time.Millisecond}
)

// batchLimitsWith returns the limits of a batch while the given number of rows is being bisected. If there are any,
// another session may hold locks, and no batch waits long for them.
func batchLimitsWith(rows int64) TxLimits {
	if rows > 0 {
		return TxLimits{Lock: partLimits.Lock, Statement: batchLimits.Statement}
	}
	return batchLimits
}

// failed decides what becomes of a part that could not be settled.
func (b *bisector) failed(ctx context.Context, part []*settlement, err error) error {
	b.cause = err
	waits := 0
	for _, p := range part {
		if p.mark == 0 {
			p.mark = b.applied + 1
		}
		waits = max(waits, p.waits)
	}
	others := b.applied >= part[0].mark // were settled since this part failed first
	b.slowDown(others)
	switch kind := fault.CauseOf(err); {
	case kind == fault.Away && waits < patientWaits:
		b.postpone(part, err)
	case len(part) > 1:
		b.split(ctx, part, err)
	case kind == fault.Refused && (others || waits >= patientWaits):
		b.size.Add(-1)
		return b.engine.leaveToLease(part, err)
	default:
		b.postpone(part, err)
	}
	return nil
}

// slowDown keeps tries that all fail from becoming a load. While nothing at all can be settled, the rate falls to one
// try in five seconds.
func (b *bisector) slowDown(others bool) {
	if n := b.engine.settles.Load(); n != b.seen {
		b.seen, b.vain = n, 0
	}
	if !others {
		b.vain++
	}
	if b.inVain() {
		b.resume = time.Now().Add(growing((b.vain - vainTries) / vainStep))
	}
}

func (b *bisector) inVain() bool { return b.vain >= vainTries }

// growing is the pause after n earlier ones.
func growing(n int) time.Duration { return min(outage.MinPause<<min(n, 16), outage.MaxPause) }

// split separates rows that another session has locked from the others. If none of the rows is locked, it halves them.
func (b *bisector) split(ctx context.Context, part []*settlement, err error) {
	if fault.IsLocked(err) {
		free, locked := b.byLock(ctx, part)
		if len(locked) > 0 {
			b.postpone(locked, err)
			part = free
		}
	}
	half := len(part) / 2
	for _, rows := range [][]*settlement{part[:half], part[half:]} {
		if len(rows) > 0 {
			b.now = append(b.now, rows)
		}
	}
}

// byLock separates the rows that no session has locked from the others. If it cannot find out, it takes all rows for
// free.
func (b *bisector) byLock(ctx context.Context, part []*settlement) (free, locked []*settlement) {
	var unlocked []uuid.UUID
	e := b.engine
	call := collectIDs(e.table.statements().unlocked, map[string]any{"ids": settledIDs(part)}, &unlocked)
	err := e.within(ctx, e.settleTimeout(), func(ctx context.Context) error {
		return e.at.queue(e.table, partLimits).exec.run(ctx, call)
	})
	if err != nil {
		return part, nil
	}
	for _, s := range part {
		if slices.Contains(unlocked, s.id) {
			free = append(free, s)
		} else {
			locked = append(locked, s)
		}
	}
	return free, locked
}

// postpone makes rows wait for their next try. Only the first rows that wait are logged, because those that follow
// mostly fail for the same cause.
func (b *bisector) postpone(rows []*settlement, err error) {
	kind, now := fault.CauseOf(err), time.Now()
	if kind != fault.Away && rows[0].waits == 0 && len(b.later) == 0 {
		b.engine.table.telemetry.LogRow(context.Background(), slog.LevelWarn, "settle postponed",
			rows[0].row.labels, rows[0].id, slog.Int("rows", len(rows)), slog.Any("error", err))
	}
	for _, p := range rows {
		p.due = now.Add(growing(p.waits))
		p.waits++
		if kind != fault.Refused {
			p.mark = 0
		}
	}
	b.later = append(b.later, rows...)
}

// abandon empties the bisector, and returns its rows.
func (b *bisector) abandon() []*settlement {
	rows := append(slices.Concat(b.now...), b.later...)
	b.now, b.later = nil, nil
	b.size.Store(0)
	return rows
}

func settledIDs(rows []*settlement) []uuid.UUID {
	ids := make([]uuid.UUID, len(rows))
	for i, p := range rows {
		ids[i] = p.id
	}
	return ids
}
