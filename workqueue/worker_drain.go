package workqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/history"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue/dispatch"
	"github.com/txwork/txwork/workqueue/internal/conn"
)

// A Drain handles what is due now and returns: a [dispatch.Processor] over a worker's handler without the worker's
// loop. It is for platforms that call a process and let it sleep in between, under [dispatch.Poll], [dispatch.Alarm] or
// [dispatch.Group], for commands, and for tests. It may run beside workers; its own runs must not overlap.
//
// Nothing runs between its calls, so it also reaps expired leases and calls the table's sweeps, as the reaper does.
//
// The worker of a domain may have several parts, such as a scheduler and one for each queue: its Drain runs one after
// the other.
type Drain struct {
	// Limit bounds the rows of one Process, over all parts. Default 0: until nothing is due.
	Limit int

	name  string
	parts []*drain
	first int // the part that the next Process begins with
}

// Drain makes a Drain with the worker's handler and options. The worker itself need not run. The error is always nil:
// the signature is that of the workers of all domains, which can have one.
func (w *Worker) Drain() (*Drain, error) {
	d := w.drain(onPool{w.pool}, w.Options().Concurrency)
	d.counts = &history.Counts{Table: w.table.spec.Table}
	return newDrain(d), nil
}

func newDrain(d *drain) *Drain { return &Drain{name: d.table.Name(), parts: []*drain{d}} }

// DrainIn is [Worker.Drain] inside a transaction of the application, as in a test that rolls back: everything happens
// in it, handlers run one after the other, and Claim.Tx is a savepoint. What is due is decided by the time at which the
// transaction began, so a row that is put back with a delay does not come again in it. What settles and sweeps let
// through, the next message of a key or the end of a join, does. No other session can fold until the transaction ends,
// and sweeps hold locks until then: on a table that others work on keep it short. Under REPEATABLE READ and
// SERIALIZABLE it folds nothing, and rows that wait stay where they are.
func (w *Worker) DrainIn(tx pgx.Tx) (*Drain, error) {
	if tx == nil {
		return nil, invalid("transaction", "is nil")
	}
	return newDrain(w.drain(inTx{tx}, 1)), nil
}

// Parts are Drains of one part each, in the order in which Process runs them.
func (d *Drain) Parts() []*Drain {
	parts := make([]*Drain, len(d.parts))
	for i, p := range d.parts {
		parts[i] = newDrain(p)
	}
	return parts
}

// Namespace implements [dispatch.Processor].
func (d *Drain) Namespace() string { return d.name }

// NextWakeAt implements [dispatch.Processor]: the first due time or the first end of a lease. While rows wait for what
// only a sweep of the table can find, such as a deadline or a rate, it is the next sweep: a second after the last run,
// twice as long after each run that found nothing, and a minute at most.
func (d *Drain) NextWakeAt(ctx context.Context) (*dispatch.Wake, error) {
	var first *dispatch.Wake
	var errs []error
	for _, p := range d.parts {
		next, err := p.nextWakeAt(ctx)
		if err != nil {
			errs = append(errs, d.named(p, err))
			continue
		}
		first = earlier(first, next)
	}
	return first, errors.Join(errs...)
}

// Process implements [dispatch.Processor]: it handles what is due and returns how many rows that were, whatever became
// of them. When ctx is cancelled it claims no more and waits for the handlers that run; their context is not
// cancelled. An error of one part does not keep the others from running.
//
// Rows whose claim was lost, and rows that cannot be settled, are named in the error, which keeps no others from being
// handled. Rows that another session has locked are tried again until nothing else is due, and then for a third of the
// lease, but at least 5 s and at most 10 s. After that they are left to their leases. Once nothing at all can be
// settled, all rows are.
func (d *Drain) Process(ctx context.Context) (int, error) {
	total, start := 0, d.first
	var errs []error
	d.first = 0
	for i := range d.parts {
		n := (start + i) % len(d.parts)
		handled, err := d.parts[n].process(ctx, d.Limit-total)
		total += handled
		if err != nil {
			errs = append(errs, d.named(d.parts[n], err))
		}
		if d.Limit > 0 && total >= d.Limit {
			d.first = (n + 1) % len(d.parts) // so that a part which always has work leaves the others their turn
			break
		}
	}
	return total, errors.Join(errs...)
}

// named adds the name of the part to an error, if there are several parts.
func (d *Drain) named(p *drain, err error) error {
	if len(d.parts) == 1 {
		return err
	}
	return fmt.Errorf("%s: %w", p.table.Name(), err)
}

// A drain is the part of a [Drain] for one worker.
type drain struct {
	*engine
	concurrency int

	pause time.Duration // until the next sweep, while nothing else is known to be due
	width int           // of the next batch, see narrow

	isPartial bool // the role may not fold and sweep
}

// drain makes a part that runs at most so many handlers at once.
func (w *Worker) drain(at place, concurrency int) *drain {
	d := &drain{engine: newEngine(w.consumer), concurrency: concurrency, width: MaxBatch}
	d.workAt(at)
	return d
}

func (d *drain) nextWakeAt(ctx context.Context) (*dispatch.Wake, error) {
	next, err := d.queue.NextWakeAt(ctx)
	if err != nil || len(d.table.spec.Sweeps) == 0 {
		return next, err
	}
	waiting, err := d.queue.anyWaiting(ctx)
	if err != nil || !waiting {
		return next, err
	}
	return earlier(next, &dispatch.Wake{At: time.Now().Add(d.pause), In: d.pause}), nil
}

// slowDown plans the next sweep after a run.
func (d *drain) slowDown(found bool) {
	if found {
		d.pause = 0
	}
	d.pause = min(max(2*d.pause, sweepAtLeastEvery), maxSweepInterval)
}

// process handles at most so many rows; with a limit below 1, until nothing is due.
func (d *drain) process(ctx context.Context, limit int) (int, error) {
	total, swept, err := 0, 0, error(nil)
	defer func() { d.slowDown(total+swept > 0) }()
	if swept, err = d.maintain(ctx); err != nil {
		return 0, err
	}
	d.claimer.topics.changed() // since the last run
	s := newDrainSettler(d.engine)
	defer d.renewing(context.WithoutCancel(ctx))()
	for ctx.Err() == nil && (limit < 1 || total < limit) && !s.inVain() {
		if err = d.fold(context.WithoutCancel(ctx)); err != nil {
			break
		}
		var n int
		var more bool
		n, more, err = d.batch(ctx, s, d.next(limit-total))
		total += n
		if n == 0 && !more || err != nil {
			break
		}
	}
	err = errors.Join(err, s.finish(ctx))
	d.flush(context.WithoutCancel(ctx))
	return total, err
}

// flush sends what was counted, or leaves it to a later beat.
func (d *drain) flush(ctx context.Context) {
	if d.counts != nil {
		pool := d.at.(onPool).pool
		homeOf(pool, d.table).drained(ctx, d.counts, teller{d.table, pool.AcquireFunc})
	}
}

// next is how many rows to claim: no more than handlers that run at once can take, because runAll starts all at once.
func (d *drain) next(rest int) int {
	n := min(d.concurrency*d.each, d.width)
	if rest > 0 {
		n = min(n, rest)
	}
	return n
}

func (d *drain) maintain(ctx context.Context) (swept int, err error) {
	if _, err := d.queue.ReapExpired(ctx, sweepLimit); err != nil {
		return 0, err
	}
	if d.isPartial, err = d.seesPart(ctx); err != nil || d.isPartial {
		return 0, err
	}
	if swept, err = d.queue.Sweep(ctx, sweepLimit); d.forbids(err) {
		return 0, nil
	}
	return swept, err
}

func (d *drain) fold(ctx context.Context) error {
	if d.isPartial {
		return nil
	}
	_, err := d.queue.Fold(ctx)
	if d.forbids(err) {
		return nil
	}
	return err
}

// forbids reports whether the role may not fold and sweep, which is then left to others, see [tableWork.leaves]. In a
// transaction of the application such an error is final, so seesPart asks first there.
func (d *drain) forbids(err error) bool {
	if !d.at.commits() || !postgres.IsForbidden(err) {
		return false
	}
	d.warn(err)
	d.isPartial = true
	return true
}

func (d *drain) warn(err error) {
	d.logger.LogAttrs(context.Background(), slog.LevelWarn, "the role may not fold and sweep this table: rows "+
		"that wait for a key or a join are left to processes whose roles see all of its rows and have all rights on them",
		slog.String("table", d.table.Name()), slog.Any("error", err))
}

// seesPart asks, in a transaction of the application, whether row-level security hides rows or notes of the table.
func (d *drain) seesPart(ctx context.Context) (hidden bool, err error) {
	if d.at.commits() {
		return false, nil
	}
	err = d.queue.exec.run(ctx, conn.Call{
		Statement: conn.Statement{Name: "hidden", Text: "SELECT " + d.table.hides()},
		Row:       func(scan func(...any) error) error { return scan(&hidden) },
	})
	if hidden {
		d.warn(errHidden)
	}
	return hidden, err
}

var errHidden = errors.New("row-level security hides rows from the role")

// batch claims from every lane, in their order and from the start, runs the handlers and settles their outcomes. It
// reports whether the claim may have left more.
func (d *drain) batch(ctx context.Context, s *drainSettler, limit int) (handled int, more bool, err error) {
	d.claimer.startOver()
	rows, err := d.claim(ctx, limit)
	detached := context.WithoutCancel(ctx)
	rows, back := d.narrow(rows)
	s.settle(detached, back) // before a suspect can end the process
	s.settle(detached, d.runAll(rows))
	return len(rows), d.claimer.more, err
}

// narrow returns the first rows that may run at once, and the settles that put back the others: the next batch begins
// with those.
func (d *drain) narrow(rows []*delivery) (admitted []*delivery, back []*settlement) {
	width := math.MaxInt
	d.width = min(2*d.width, MaxBatch)
	for i, one := range rows {
		if own, _, is := one.place.Suspect(); is {
			width = min(width, own)
			d.width = min(d.width, own)
		}
		if i >= width {
			for _, other := range rows[i:] {
				other.decide(other.ctx, released)
				back = append(back, other.toSettle())
			}
			return rows[:i], back
		}
	}
	return rows, nil
}

// runAll runs all handlers at once, or one after the other in a transaction of the application, and returns what is to
// be settled.
func (d *drain) runAll(rows []*delivery) (outcomes []*settlement) {
	outcomes = make([]*settlement, 0, len(rows))
	var mu sync.Mutex
	handle := func(unit []*delivery) {
		defer func() { // also if the handler ends its goroutine
			mu.Lock()
			defer mu.Unlock()
			for _, row := range unit {
				if s := row.toSettle(); s != nil {
					outcomes = append(outcomes, s)
				}
			}
		}()
		if unit[0].batching != nil {
			d.handleBatch(unit, func() {}, func(*delivery) {})
		} else {
			d.handle(unit[0])
		}
	}
	places := make(chan struct{}, d.concurrency)
	var running sync.WaitGroup
	for len(rows) > 0 {
		n, _ := together(rows, func(row *delivery) *delivery { return row })
		unit := rows[:n:n]
		rows = rows[n:]
		if !d.at.commits() {
			handle(unit)
			continue
		}
		places <- struct{}{}
		running.Go(func() {
			defer func() { <-places }()
			handle(unit)
		})
	}
	running.Wait()
	return outcomes
}

// renewing renews the leases while the handlers run. In a transaction of the application no other session sees them.
func (d *drain) renewing(ctx context.Context) (stop func()) {
	if !d.at.commits() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { d.renew(ctx) })
	return func() { cancel(); done.Wait() }
}

// A drainSettler settles the outcomes of one Process.
type drainSettler struct {
	*bisector
	errs []error // that name rows, see [bisector.step]
}

func newDrainSettler(e *engine) *drainSettler {
	return &drainSettler{bisector: &bisector{engine: e}}
}

// settle settles what can be settled without a pause.
func (s *drainSettler) settle(ctx context.Context, batch []*settlement) {
	if len(batch) == 0 {
		return
	}
	for s.add(batch); s.rest() == 0; {
		s.step(ctx)
	}
}

func (s *drainSettler) step(ctx context.Context) {
	if err := s.bisector.step(ctx); err != nil {
		s.errs = append(s.errs, err)
	}
}

// finish tries again what could not be settled yet, for a while, and leaves the rest to its leases. In a transaction of
// the application, which holds locks of its own, it does not wait.
func (s *drainSettler) finish(ctx context.Context) error {
	end := time.Now()
	if s.engine.at.commits() {
		end = end.Add(s.engine.settleTimeout())
	}
	for rest := s.rest(); rest >= 0 && time.Now().Add(rest).Before(end) && !s.inVain(); rest = s.rest() {
		select {
		case <-ctx.Done():
			end = time.Now()
		case <-time.After(rest):
			s.step(context.WithoutCancel(ctx))
		}
	}
	if rest := s.abandon(); len(rest) > 0 {
		s.errs = append(s.errs, s.engine.leaveToLease(rest, s.cause))
	}
	return errors.Join(s.errs...)
}
