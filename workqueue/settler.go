package workqueue

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/txwork/txwork/internal/history"
	"github.com/txwork/txwork/workqueue/internal/fault"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

const (
	// settlerCount is how many settle at once: while one waits for its commit to reach the disk, the
	// other collects and sends.
	settlerCount = 2
	// settleBatch bounds the rows of one settle.
	settleBatch = 1000
	// settleQueue bounds the outcomes that wait; handlers that are faster wait for the database.
	settleQueue = 4 * settleBatch
	// failedBatches bounds the batches that failed and wait to be bisected.
	failedBatches = 4
)

// A settler settles the outcomes of handlers in batches: many claims, one transaction.
type settler struct {
	engine   *engine
	pending  chan *settlement
	failing  chan failedBatch
	bisector *bisector
	turn     chan struct{} // held by the one that collects
	quit     chan struct{}
	ctx      context.Context
	cancel   context.CancelFunc
}

type failedBatch struct {
	rows []*settlement
	err  error
}

func newSettler(e *engine) *settler {
	return &settler{
		engine:  e,
		pending: make(chan *settlement, settleQueue), quit: make(chan struct{}),
		failing: make(chan failedBatch, failedBatches), turn: make(chan struct{}, 1),
		bisector: &bisector{engine: e},
	}
}

func (s *settler) start(ctx context.Context, running *sync.WaitGroup) {
	s.ctx, s.cancel = context.WithCancel(ctx)
	var settlers sync.WaitGroup
	for range settlerCount {
		settlers.Go(s.run)
	}
	running.Go(func() { settlers.Wait(); close(s.failing) })
	running.Go(s.bisect)
}

// endAfter ends all settling after the given time, so that an unavailable database cannot keep a worker from stopping.
// The returned function stops the timer.
func (s *settler) endAfter(d time.Duration) (lift func()) {
	timer := time.AfterFunc(d, s.cancel)
	return func() { timer.Stop(); s.cancel() }
}

// stop ends the settlers once nothing is pending.
func (s *settler) stop() { close(s.quit) }

// add takes the outcome of a delivery, unless Tx has settled it. It may block, but not for ever: if a handler outlives
// the worker, its outcome is dropped, and its row is left to the lease.
func (s *settler) add(d *delivery) {
	one := d.toSettle()
	if one == nil {
		return
	}
	select {
	case s.pending <- one:
	case <-s.ctx.Done():
	}
}

// toSettle ends the handler's context and returns what is to be settled. It frees the payload, because a settle that
// has to wait needs none. It returns nil if Tx has settled the row, which the engine then forgets.
func (d *delivery) toSettle() *settlement {
	d.cancel(nil)
	d.body = nil
	if d.byTx.Load() != nil {
		d.engine.forget(&d.settlement)
		return nil
	}
	d.settling.Store(true)
	return &d.settlement
}

// run settles batches until stop was called and nothing is left. The bisector takes one that fails, while the settler
// goes on with others.
func (s *settler) run() {
	batch := make([]*settlement, 0, settleBatch)
	for {
		if batch = s.nextBatch(batch[:0]); len(batch) == 0 {
			return
		}
		_, err := s.engine.settle(s.ctx, batch, batchLimitsWith(s.bisector.size.Load()))
		if fault.IsUnsettled(err) {
			select {
			case s.failing <- failedBatch{slices.Clone(batch), err}:
			case <-s.ctx.Done():
				s.engine.forget(batch...) // their leases expire
			}
		}
		clear(batch) // so that it keeps nothing alive until the next batch
	}
}

// nextBatch waits for outcomes. It lingers for more only if there are few and handlers are at work: with no handler at
// work, the next row of a key would be delayed for nothing. After stop it takes what is left; an empty batch means that
// this is nothing. One settler collects at a time: two would divide the outcomes that arrive together, and often one of
// them would settle a single row.
func (s *settler) nextBatch(batch []*settlement) []*settlement {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	linger := s.engine.handling.SettleLinger
	select {
	case first := <-s.pending:
		batch = s.takeReady(append(batch, first))
		for part := 0; part < lingerParts && linger > 0 && len(batch)+len(s.pending) < lingerBatch &&
			!s.engine.flow.Idle(); part++ {
			time.Sleep(linger / lingerParts)
		}
	case <-s.quit:
	}
	return s.takeReady(batch)
}

// lingerParts is how often a settler that lingers checks whether waiting is still worthwhile.
const lingerParts = 8

// lingerBatch is the number of outcomes from which a settler lingers no longer: the share of each in the commit is
// small, and the other settler can collect while they are sent.
const lingerBatch = 128

// settleShares is the number of settles, at least, over which the rows in flight are spread if their settles write
// notes.
const settleShares = 4

// takeReady takes pending outcomes, up to a full batch. Of settles that write notes it takes no more than a share of
// the rows in flight: while one share is settled, another is folded and a third is claimed and handled. If it took all
// at once, they would go through these steps together, and each step would wait for the one before.
func (s *settler) takeReady(batch []*settlement) []*settlement {
	share, noted := max(lingerBatch, s.engine.inFlight.Count()/settleShares), 0
	for _, one := range batch {
		if one.folds {
			noted++
		}
	}
	for len(batch) < settleBatch && noted < share {
		select {
		case one := <-s.pending:
			batch = append(batch, one)
			if one.folds {
				noted++
			}
		default:
			return batch
		}
	}
	return batch
}

// settle settles rows in one transaction and returns how many that changed. It is guarded by the tokens, so repeating a
// settle whose reply was lost changes nothing. Unless it has to be repeated, it ends the engine's responsibility for
// the rows: the error is then a [SettleError].
func (e *engine) settle(ctx context.Context, batch []*settlement, l TxLimits) (changed int, err error) {
	if slices.ContainsFunc(batch, (*settlement).writesNotes) {
		began := e.notes.settleBegins()
		defer e.notes.settleEnded(began) // also where the reply was lost
	}
	try := firstTry
	if !batch[0].isNew() {
		try = furtherTry
	}
	timeout := l.Statement + e.settleTimeout() // the server's limit ends first, which shows that the server is there
	err = e.within(ctx, timeout, func(ctx context.Context) error {
		ctx, call := e.table.telemetry.Start(ctx, telemetry.Settle, len(batch))
		done, err := e.at.settle(ctx, e.table, batch, l, try)
		if try == furtherTry && fault.IsUnsettled(err) {
			err = &telemetry.Repeated{Err: err}
		}
		changed = len(done.ids)
		e.settled(done.rows)
		call.End(telemetry.Event{IDs: done.ids, Rows: settlements(done.rows), Err: err})
		return err
	})
	if fault.IsUnsettled(err) {
		return changed, err
	}
	if changed > 0 {
		e.settles.Add(1)
	}
	e.forget(batch...)
	return changed, err
}

// outcomeOfHistory is what history calls the ends of rows, in the words of telemetry. The others are not counted.
var outcomeOfHistory = map[string]history.Outcome{
	telemetry.OutcomeAck: history.Done, telemetry.OutcomeAbandon: history.Retried,
	telemetry.OutcomeFail: history.Dead, telemetry.OutcomeExhausted: history.Dead,
	telemetry.OutcomeSnooze: history.Snoozed, telemetry.OutcomeUnavailable: history.Snoozed,
	telemetry.OutcomeCancel: history.Cancelled,
	telemetry.OutcomeLost:   history.Lost, telemetry.OutcomeGone: history.Lost,
}

// settled counts what became of rows. It wakes the worker if one of them may be ready again, or if they have made room
// under the rule of its lanes.
func (e *engine) settled(rows []*settlement) {
	wakes := len(rows) > 0 && e.table.spec.Admission != "" && e.claimer.rule.isDue()
	for _, s := range rows {
		if o, counted := outcomeOfHistory[s.became]; counted {
			s.lane.Settled(o)
		}
		if s.outcome.kind == outcomeUnavailable {
			e.claimer.topics.changed()
		}
		wakes = wakes || outcomes[s.outcome.kind].again
	}
	if wakes && e.poll != nil {
		e.poll.Wake()
	}
}

// leaveToLease ends the engine's responsibility for rows that cannot be settled, as the error says: their leases
// expire.
func (e *engine) leaveToLease(rows []*settlement, cause error) error {
	for _, s := range rows {
		e.table.telemetry.LogRow(context.Background(), slog.LevelError, "settle failed; the row is left to the reaper",
			s.row.labels, s.id, slog.Any("error", cause))
	}
	e.forget(rows...)
	return fmt.Errorf("txwork: %s: %s could not be settled and is left to its lease: %w", e.table.Name(),
		countIDs(settledIDs(rows)), cause)
}

// forget takes rows out of flight. The next claim looks what a probe has found out.
func (e *engine) forget(rows ...*settlement) {
	for _, s := range rows {
		if s.row != nil && s.row.probes {
			e.claimer.topics.changed()
			if e.poll != nil {
				e.poll.Wake()
			}
		}
	}
	e.inFlight.remove(rows)
	e.flow.Settled()
}

// bisect settles the batches that failed, until no more come. When it has too many rows, the settlers wait.
func (s *settler) bisect() {
	a, failing := s.bisector, s.failing
	for failing != nil || a.rest() >= 0 {
		more := failing
		if a.size.Load() >= settleQueue {
			more = nil
		}
		var next <-chan time.Time
		if rest := a.rest(); rest >= 0 {
			next = time.After(rest)
		}
		select {
		case <-s.ctx.Done():
			s.engine.forget(a.abandon()...) // their leases expire
			return
		case batch, ok := <-more:
			if !ok {
				failing = nil
				continue
			}
			a.addFailed(s.ctx, batch.rows, batch.err)
		case <-next:
			a.step(s.ctx)
		}
	}
}
