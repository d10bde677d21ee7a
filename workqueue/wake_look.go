package workqueue

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/workqueue/dispatch"
	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/fault"
)

// looks answer for all idle workers of a runtime at once whether there is something to claim. An idle process with many
// queues then costs one short transaction per interval. Workers look at the same moments, see [system.restUntilLook];
// those that ask within lookWindow share the transaction.
//
// A table that is slow or fails is then asked by itself for a while, so that it does not delay the answers of others.
type looks struct {
	system    *system
	window    time.Duration
	closing   chan struct{}  // closed with the runtime
	answering sync.WaitGroup // goroutines that answer

	mu      sync.Mutex
	pending []*look
	alone   map[string]time.Time // until when slow tables are asked in statements of their own
}

const (
	// lookWindow is how long a look waits for those of other workers.
	lookWindow = 10 * time.Millisecond
	// alonePeriod is how long a slow table is asked in a statement of its own.
	alonePeriod = time.Minute
)

// lookLimits are the limits of a transaction that looks for several tables.
var lookLimits = conn.Limits{Lock: 50 * time.Millisecond, Statement: 250 * time.Millisecond}

// A look is one worker's question, and the answer.
type look struct {
	work  *tableWork
	lanes []claimLane
	since *time.Time // when it last asked, by the database's clock

	done  chan struct{}
	found bool           // there is something to claim
	next  *dispatch.Wake // when the next row is due
	asked time.Time      // by the database's clock
	took  time.Duration  // its share of the time
	err   error
}

func newLooks(s *system) *looks {
	return &looks{system: s, window: lookWindow, closing: make(chan struct{})}
}

// ask reports whether the look was answered. It does not wait for the answer, which other workers still need, if the
// worker is woken or is to end.
func (l *looks) ask(ctx context.Context, k *look, woken <-chan struct{}) (answered bool) {
	k.done = make(chan struct{})
	l.mu.Lock()
	l.pending = append(l.pending, k)
	first := len(l.pending) == 1
	l.mu.Unlock()
	if first {
		l.answering.Go(func() { l.answer(context.WithoutCancel(ctx)) })
	}
	select {
	case <-k.done:
		return true
	case <-woken:
	case <-ctx.Done():
	}
	return false
}

// close returns when nothing is asked any more. It is called when no worker is left.
func (l *looks) close() {
	close(l.closing)
	l.answering.Wait()
}

// answer waits for the looks of other workers and answers them all.
func (l *looks) answer(ctx context.Context) {
	if l.system.shared() {
		select {
		case <-time.After(l.window):
		case <-l.closing:
			return
		}
	}
	l.mu.Lock()
	batch := l.pending
	l.pending = nil
	batched, alone := l.split(batch)
	l.mu.Unlock()
	var asking sync.WaitGroup
	for _, of := range alone {
		asking.Go(func() { l.askTable(ctx, of) })
	}
	l.askBatch(ctx, batched)
	asking.Wait()
}

// split groups the looks by table. It separates the tables that share one transaction from those that are asked alone.
// If there is only one table, it is asked alone and needs no limits.
func (l *looks) split(batch []*look) (batched, alone [][]*look) {
	tables := make(map[*tableWork][]*look)
	for _, k := range batch {
		tables[k.work] = append(tables[k.work], k)
	}
	for work, of := range tables {
		if len(tables) == 1 || time.Now().Before(l.alone[work.table.Name()]) {
			alone = append(alone, of)
		} else {
			batched = append(batched, of)
		}
	}
	return batched, alone
}

// askBatch asks for several tables in one transaction and, if that fails, for each alone.
func (l *looks) askBatch(ctx context.Context, tables [][]*look) {
	if len(tables) == 0 {
		return
	}
	var calls []conn.Call
	var all []*look
	for _, of := range tables {
		calls = append(calls, lookCall(of))
		all = append(all, of...)
	}
	ex := poolExecutor{conn.Pool{Conns: l.system.pool, Limits: lookLimits, Slots: conn.Taker{Slots: l.system.slots}}}
	ctx, cancel := context.WithTimeout(ctx, minCallTimeout)
	defer cancel()
	start := time.Now()
	if err := runSafely(ctx, ex, calls...); err != nil {
		var asking sync.WaitGroup
		for _, of := range tables {
			asking.Go(func() { l.noteSlow(of[0].work, l.askTable(context.WithoutCancel(ctx), of)) })
		}
		asking.Wait()
		return
	}
	answered(all, start, nil)
}

// askTable asks for one table, and reports whether that would delay others.
func (l *looks) askTable(ctx context.Context, of []*look) (slow bool) {
	start := time.Now()
	err := of[0].work.within(ctx, func(ctx context.Context) error {
		return runSafely(ctx, of[0].work.queue.exec, lookCall(of))
	})
	answered(of, start, err)
	return time.Since(start) > lookLimits.Lock || err != nil && !fault.IsOutage(err)
}

func (l *looks) noteSlow(t *tableWork, slow bool) {
	if !slow {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.alone == nil {
		l.alone = make(map[string]time.Time)
	}
	l.alone[t.table.Name()] = time.Now().Add(alonePeriod)
}

func answered(of []*look, start time.Time, err error) {
	now := time.Now()
	for _, k := range of {
		k.took, k.err = now.Sub(start)/time.Duration(len(of)), err
		if err == nil {
			k.work.system.clock.read(start, now, k.asked)
		}
		close(k.done)
	}
}

func runSafely(ctx context.Context, ex executor, calls ...conn.Call) (err error) {
	defer contain.Recover(&err)
	return ex.run(ctx, calls...)
}

// lookCall asks for the workers of one table.
func lookCall(of []*look) conn.Call {
	t := of[0].work.table
	var workers []int
	var since, due []string
	var ids []uuid.UUID
	var lanes [][]any
	for i, k := range of {
		at := "infinity"
		if k.since != nil {
			at = position{due: *k.since}.bound()
		}
		for _, lane := range k.lanes {
			workers, since = append(workers, i), append(since, at)
			due, ids, lanes = append(due, lane.after.bound()), append(ids, lane.after.id), append(lanes, lane.values)
		}
	}
	return conn.Call{
		Statement: t.statements().look, // it only reads, but must fail on a standby that was the primary before
		Args: t.laneArgs(map[string]any{"worker": workers, "asked_before": since, "after_due": due,
			"after_id": ids}, lanes),
		Row: func(scan func(...any) error) error {
			var i int
			var found bool
			var asked time.Time
			var seconds *float64
			var due *time.Time
			if err := scan(&i, &found, &asked, &seconds, &due); err != nil {
				return err
			}
			k := of[i]
			k.found, k.asked, k.next = found, asked, wakeAt(due, seconds)
			return nil
		},
	}
}

// look asks, together with the other idle workers of the runtime, whether there is something to claim, and when there
// will be. If there is nothing, it has the effect of an empty claim and a nextWake. A worker that is woken in the
// meantime claims.
func (c *claimer) look(ctx context.Context, t *tableWork, woken <-chan struct{}) (found bool, next *dispatch.Wake,
	err error) {
	cursors, swept := c.begin(time.Now(), c.lanes)
	k := &look{work: t, lanes: cursors, since: c.askedDue}
	if !t.system.looks.ask(ctx, k, woken) {
		return ctx.Err() == nil, nil, ctx.Err()
	}
	if k.err != nil || k.found {
		return k.found, nil, k.err
	}
	c.advance(c.lanes, nil, swept, false, k.took)
	asked := k.asked
	c.askedDue, c.answer = &asked, nil
	return false, c.withOwn(k.next), nil
}

// shared reports whether there are several workers.
func (s *system) shared() bool {
	s.runtime.mu.Lock()
	defer s.runtime.mu.Unlock()
	return s.runtime.workers > 1
}

// restUntilLook is the time until the next of the moments at which workers with this interval look.
func (s *system) restUntilLook(interval time.Duration) time.Duration {
	return interval - time.Since(s.epoch)%interval
}
