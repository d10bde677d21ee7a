package workqueue

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/outage"
)

const (
	// patientWaits is how often a batch that says nothing about its rows is repeated whole, and how often a row that
	// is refused while nothing else is settled either is tried: for 3 s.
	patientWaits = 6
	// vainTries is how many tries in a row may fail, while nothing is settled, before they are made more slowly.
	vainTries = 32
	// vainStep is after how many more the pause between them doubles.
	vainStep = 16
)

// apart are outcomes that are settled apart from all others, because their batch failed. Halves of it are tried, until
// what cannot be settled stands by itself: those rows are tried again and again with growing pauses, or left to their
// leases, and hold nobody up.
//
// It belongs to one goroutine, but for the counters.
type apart struct {
	worker *Worker
	done   func(rows []pendingSettle, lost error)  // settled, or a SettleError says that the claim is void
	leave  func(rows []pendingSettle, cause error) // given up

	now    [][]pendingSettle // tried at once, each by itself
	newest bool              // which of them was taken last
	resume time.Time         // when the next of them may be tried
	later  []pendingSettle   // tried when they are due

	size    atomic.Int64 // rows in it
	settled atomic.Int64 // settles that changed something, also those of others
	seen    int64        // of those, when the last try failed
	applied int          // settles of its own that changed something
	vain    int          // tries in a row that failed while nothing was settled
	cause   error        // of the last failure
}

// add takes a batch to be tried at once.
func (a *apart) add(batch []pendingSettle) {
	a.size.Add(int64(len(batch)))
	a.now = append(a.now, batch)
}

// addFailed takes a batch that was tried and failed.
func (a *apart) addFailed(ctx context.Context, batch []pendingSettle, err error) {
	a.size.Add(int64(len(batch)))
	a.failed(ctx, batch, err)
}

// rest is how long to rest before the next step; negative if nothing is left.
func (a *apart) rest() time.Duration {
	switch {
	case len(a.now) > 0:
		return max(time.Until(a.resume), 0)
	case len(a.later) > 0:
		first := slices.MinFunc(a.later, func(a, b pendingSettle) int { return a.due.Compare(b.due) })
		return max(time.Until(first.due), 0)
	}
	return -1
}

// step tries to settle one part.
func (a *apart) step(ctx context.Context) {
	part := a.take()
	changed, err := a.worker.settleBatch(ctx, part, a.limits(part))
	if isUnsettled(err) {
		a.failed(ctx, part, err)
		return
	}
	if changed > 0 {
		a.settled.Add(1)
		a.applied++
	}
	a.size.Add(int64(-len(part)))
	a.done(part, err)
}

// take prefers parts to rows that have been tried by themselves. It takes the newest part, which is small, and the
// oldest, which is large, in turn: whether few rows are bad or most, in whatever order, a good one is found early.
func (a *apart) take() []pendingSettle {
	if len(a.now) == 0 {
		return a.takeDue()
	}
	i := 0
	if a.newest = !a.newest; a.newest {
		i = len(a.now) - 1
	}
	part := a.now[i]
	a.now = slices.Delete(a.now, i, i+1)
	return part
}

func (a *apart) takeDue() (due []pendingSettle) {
	now := time.Now()
	a.later = slices.DeleteFunc(a.later, func(p pendingSettle) bool {
		isDue := len(due) < settleBatch && !p.due.After(now)
		if isDue {
			due = append(due, p)
		}
		return isDue
	})
	return due
}

// limits of a part are strict: what does not pass is tried by itself, at last with all the time that there is.
func (a *apart) limits(part []pendingSettle) TxLimits {
	switch first := part[0]; {
	case first.isNew():
		return batchLimitsBeside(a.size.Load() - int64(len(part)))
	case len(part) == 1:
		return TxLimits{
			Lock:      partLimits.Lock << min(first.waits, 4),
			Statement: min(partLimits.Statement<<min(first.waits, 16), a.worker.settleLimit()),
		}
	}
	return partLimits
}

// batchLimitsBeside are those of a batch while so many rows are settled apart: where somebody is known to hold locks,
// nobody waits for them.
func batchLimitsBeside(rows int64) TxLimits {
	if rows > 0 {
		return TxLimits{Lock: partLimits.Lock, Statement: batchLimits.Statement}
	}
	return batchLimits
}

// failed decides what becomes of a part that could not be settled.
func (a *apart) failed(ctx context.Context, part []pendingSettle, err error) {
	a.cause = err
	waits := 0
	for i := range part {
		if part[i].mark == 0 {
			part[i].mark = a.applied + 1
		}
		waits = max(waits, part[i].waits)
	}
	others := a.applied >= part[0].mark // were settled since
	a.slowDown(others)
	switch kind := failureOf(err); {
	case kind == failedAway && waits < patientWaits:
		a.postpone(part, err)
	case len(part) > 1:
		a.split(ctx, part, err)
	case kind == failedRefused && (others || waits >= patientWaits):
		a.size.Add(-1)
		a.leave(part, err)
	default:
		a.postpone(part, err)
	}
}

// slowDown keeps tries that are all in vain from becoming a load: where nothing at all can be settled, they come down
// to one in five seconds.
func (a *apart) slowDown(others bool) {
	if n := a.settled.Load(); n != a.seen {
		a.seen, a.vain = n, 0
	}
	if !others {
		a.vain++
	}
	if a.inVain() {
		a.resume = time.Now().Add(growing((a.vain - vainTries) / vainStep))
	}
}

func (a *apart) inVain() bool { return a.vain >= vainTries }

// growing is a pause after so many others.
func growing(n int) time.Duration { return min(outage.MinPause<<min(n, 16), outage.MaxPause) }

// split parts the rows that somebody holds from the others. Where the lock is not that of a row of theirs, or no lock
// fails them, it halves them.
func (a *apart) split(ctx context.Context, part []pendingSettle, err error) {
	if isLocked(err) {
		free, held := a.byLock(ctx, part)
		if len(held) > 0 {
			a.postpone(held, err)
			part = free
		}
	}
	half := len(part) / 2
	for _, rows := range [][]pendingSettle{part[:half], part[half:]} {
		if len(rows) > 0 {
			a.now = append(a.now, rows)
		}
	}
}

// byLock tells rows that nobody holds from others. When it cannot be told, none is held.
func (a *apart) byLock(ctx context.Context, part []pendingSettle) (free, held []pendingSettle) {
	unlocked, err := a.worker.unlocked(ctx, part)
	if err != nil {
		return part, nil
	}
	isFree := make(map[uuid.UUID]bool, len(unlocked))
	for _, id := range unlocked {
		isFree[id] = true
	}
	for _, p := range part {
		if isFree[p.id] {
			free = append(free, p)
		} else {
			held = append(held, p)
		}
	}
	return free, held
}

func (w *Worker) unlocked(ctx context.Context, part []pendingSettle) (free []uuid.UUID, err error) {
	ids := make([]uuid.UUID, len(part))
	for i, p := range part {
		ids[i] = p.id
	}
	err = w.within(ctx, w.settleLimit(), func(ctx context.Context) error {
		unlocked := collectIDs(w.table.statements.unlocked, map[string]any{"ids": ids}, &free)
		return w.settling(partLimits).exec.run(ctx, unlocked)
	})
	return free, err
}

// postpone has rows wait for their next try. The first that wait are told; what follows is mostly of the same cause.
func (a *apart) postpone(rows []pendingSettle, err error) {
	kind, now := failureOf(err), time.Now()
	if kind != failedAway && rows[0].waits == 0 && len(a.later) == 0 {
		a.worker.table.telemetry.logRow(context.Background(), slog.LevelWarn, "settle postponed", rows[0].labels,
			rows[0].id,
			slog.Int("rows", len(rows)), slog.Any("error", err))
	}
	for i := range rows {
		p := &rows[i]
		p.due = now.Add(growing(p.waits))
		p.waits++
		if kind != failedRefused {
			p.mark = 0
		}
	}
	a.later = append(a.later, rows...)
}

// abandon empties it.
func (a *apart) abandon() []pendingSettle {
	rows := append(slices.Concat(a.now...), a.later...)
	a.now, a.later = nil, nil
	a.size.Store(0)
	return rows
}
