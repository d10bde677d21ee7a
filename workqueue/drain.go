package workqueue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// A Drain handles what is due now and returns: a [Processor] over a worker's handler without the worker's loop.
// It is for platforms that call a process and let it sleep in between, under [Poll], [Alarm] or [Group], for
// commands, and for tests. It may run beside workers; its own runs must not overlap.
//
// Nothing runs between its calls, so it also takes back expired leases and calls the table's sweeps, as the
// reaper does.
type Drain struct {
	worker *Worker
	turn   int           // of the lanes
	pause  time.Duration // until the next sweep, while nothing else is known to be due
	// Limit bounds the rows of one Process. Default 0: until nothing is due.
	Limit int
}

// Drain makes a Drain with the worker's handler and options. The worker itself need not run.
func (w *Worker) Drain() *Drain {
	one := newWorker(w.table, w.pool, w.options)
	one.target, one.handle = w.target, w.handle
	one.queue = w.table.On(w.pool)
	return &Drain{worker: one}
}

// DrainIn is [Worker.Drain] inside a transaction of the application, as in a test that rolls back: everything
// happens in it, handlers run one after the other, and Claim.Tx is a savepoint. What is due is decided by the
// time at which the transaction began, so a row that is put back with a delay does not come again in it. What
// settles and sweeps let through, the next message of a key or the end of a join, does. The sweeps hold locks until the
// transaction ends: on a table that others work on keep it short.
func (w *Worker) DrainIn(tx pgx.Tx) *Drain {
	d := w.Drain()
	d.worker.outer, d.worker.queue = tx, w.table.In(Pgx(tx))
	d.worker.options.Concurrency = 1
	return d
}

// Namespace implements [Processor].
func (d *Drain) Namespace() string { return d.worker.table.Name() }

// NextWakeAt implements [Processor]: the first due time or the first end of a lease. While rows wait for what only
// a sweep of the table can find, such as a deadline or a rate, it is the next sweep: a second after the last
// run, twice as long after each run that found nothing, and a minute at most.
func (d *Drain) NextWakeAt(ctx context.Context) (*Wake, error) {
	next, err := d.worker.queue.NextWakeAt(ctx)
	if err != nil || len(d.worker.table.spec.Sweeps) == 0 {
		return next, err
	}
	waiting, err := d.worker.queue.anyWaiting(ctx)
	if err != nil || !waiting {
		return next, err
	}
	return earlier(next, &Wake{At: time.Now().Add(d.pause), In: d.pause}), nil
}

// slowDown plans the next sweep after a run.
func (d *Drain) slowDown(found bool) {
	if found {
		d.pause = 0
	}
	d.pause = min(max(2*d.pause, sweepAtLeastEvery), maxSweepInterval)
}

// Process implements [Processor]: it handles what is due and returns how many rows that were, whatever became
// of them. When ctx is cancelled it claims no more and waits for the handlers that run; their context is not
// cancelled.
func (d *Drain) Process(ctx context.Context) (int, error) {
	total, swept, err := 0, 0, error(nil)
	defer func() { d.slowDown(total+swept > 0) }()
	if swept, err = d.maintain(ctx); err != nil {
		return 0, err
	}
	for ctx.Err() == nil && (d.Limit == 0 || total < d.Limit) {
		n, err := d.batch(ctx, d.next(total))
		total += n
		if n == 0 || err != nil {
			return total, err
		}
	}
	return total, nil
}

// next is how many rows to claim: no more than can be handled at once, since nothing renews those that wait.
func (d *Drain) next(total int) int {
	n := min(d.worker.options.Concurrency, MaxBatch)
	if d.Limit > 0 {
		n = min(n, d.Limit-total)
	}
	return n
}

func (d *Drain) maintain(ctx context.Context) (swept int, err error) {
	q := d.worker.queue
	if _, err := q.ReapExpired(ctx, sweepLimit); err != nil {
		return 0, err
	}
	return q.Sweep(ctx, sweepLimit)
}

// batch claims from every lane, in their order, runs the handlers and settles what they returned.
func (d *Drain) batch(ctx context.Context, limit int) (int, error) {
	w := d.worker
	c := newClaimer(w, w.beginner())
	c.turn = d.turn
	d.turn++
	start := w.clock()
	rows, err := w.claim(ctx, c, limit)
	deliveries := w.deliveries(ctx, rows, start)
	settled := d.handle(context.WithoutCancel(ctx), deliveries)
	return len(rows), errors.Join(err, settled)
}

// handle runs the handlers at once and settles their outcomes in one transaction.
func (d *Drain) handle(ctx context.Context, deliveries []*delivery) error {
	w := d.worker
	var mu sync.Mutex
	var batch []settlement
	w.settle = func(d *delivery, o *Outcome) {
		mu.Lock()
		defer mu.Unlock()
		batch = append(batch, settlement{d.ref(), o, w.stored(d.ctx, o)})
	}
	w.held.add(deliveries)
	defer d.renewing(ctx)()
	var running sync.WaitGroup
	for _, one := range deliveries {
		if w.outer != nil {
			w.runOne(one)
			continue
		}
		running.Go(func() { w.runOne(one) })
	}
	running.Wait()
	defer w.held.remove(deliveries...)
	if len(batch) == 0 {
		return nil
	}
	return w.table.telemetry.transition(ctx, opSettle, len(batch), func(ctx context.Context) ([]uuid.UUID, error) {
		return w.queue.settle(ctx, batch)
	})
}

// renewing keeps the leases while the handlers run. In a transaction of the application nobody else sees them.
func (d *Drain) renewing(ctx context.Context) (stop func()) {
	if d.worker.outer != nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { d.worker.renew(ctx) })
	return func() { cancel(); done.Wait() }
}
