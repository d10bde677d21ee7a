package periodic

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
)

const (
	// DefaultConcurrency is how many schedules are decided at once. A decision takes milliseconds and one
	// connection of the pool.
	DefaultConcurrency = 4

	// DefaultLease is how long a crashed scheduler keeps others from its schedules, beside the reaper's
	// interval: less than for other workers, since a decision is short.
	DefaultLease = 10 * time.Second

	// bufferPoll is how often a schedule looks whether the occurrence has ended for which another one waits.
	bufferPoll = time.Second

	// paused is how long a scheduler puts a paused schedule back for that it has claimed all the same.
	paused = 365 * 24 * time.Hour
)

// SchedulerOptions configure a [Scheduler]: those of a worker, with [DefaultConcurrency] and [DefaultLease].
type SchedulerOptions struct {
	workqueue.WorkerOptions
}

// A Scheduler writes the occurrences of a plan when they are due. Any number of them, in any number of
// processes, share a plan; there is no leader.
type Scheduler struct {
	plan   *Plan
	worker *workqueue.Worker
}

// NewScheduler makes a scheduler; Run starts it.
func NewScheduler(pool *pgxpool.Pool, p *Plan, o SchedulerOptions) (*Scheduler, error) {
	if p == nil {
		return nil, workqueue.Invalid("plan", "is nil")
	}
	if o.Concurrency == 0 {
		o.Concurrency = DefaultConcurrency
	}
	if o.Lease == 0 {
		o.Lease = DefaultLease
	}
	s := &Scheduler{plan: p}
	domain := workqueue.Domain[columns]{Table: p.table, Fields: (*columns).fields}
	var err error
	s.worker, err = workqueue.NewWorker(pool, domain, s.handle, o.WorkerOptions)
	return s, err
}

// Run writes occurrences until ctx is cancelled, see [workqueue.Worker.Run]. A Scheduler runs once.
func (s *Scheduler) Run(ctx context.Context) error { return s.worker.Run(ctx) }

// Wake makes the scheduler look now. It never blocks.
func (s *Scheduler) Wake() { s.worker.Wake() }

// Drain is the scheduler as a [workqueue.Processor] that writes what is owed and returns, see [workqueue.Drain].
func (s *Scheduler) Drain() *workqueue.Drain { return s.worker.Drain() }

// DrainIn is [Scheduler.Drain] inside a transaction, see [workqueue.Worker.DrainIn].
func (s *Scheduler) DrainIn(tx pgx.Tx) *workqueue.Drain { return s.worker.DrainIn(tx) }

// columns receive what a claim returns. It is not used: only what is read under the row's lock holds.
type columns struct{ values [15]any }

func (c *columns) fields() []any {
	dest := make([]any, len(c.values))
	for i := range c.values {
		dest[i] = &c.values[i]
	}
	return dest
}

// handle decides about one schedule, in the transaction that settles its claim: the decision, the occurrences
// and the next due time commit together or not at all.
func (s *Scheduler) handle(ctx context.Context, c *workqueue.Claim[columns]) error {
	return c.Tx(ctx, func(tx pgx.Tx) error { return s.plan.advance(ctx, workqueue.Pgx(tx), c.ID) })
}

// advance returns the outcome of the claim: put back until the schedule is due again, or done where it never is.
func (p *Plan) advance(ctx context.Context, tx workqueue.Tx, id uuid.UUID) error {
	r, err := p.one(ctx, tx, p.statements.load, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil // deleted: the settle finds that, too
	case err != nil:
		return err
	case r.Paused:
		return workqueue.Snooze(paused)
	}
	d, err := p.decide(ctx, tx, r)
	if err != nil {
		return err
	}
	return p.carryOut(ctx, tx, r, d)
}

// A decision is a verdict and when to decide again.
type decision struct {
	verdict
	next *time.Time // nominal; nil for never
	wake *time.Time // nil for never
}

func (p *Plan) decide(ctx context.Context, tx workqueue.Tx, r row) (decision, error) {
	var d decision
	owed, err := p.owed(r, &d)
	if err != nil {
		return d, err
	}
	if r.BufferedAt != nil {
		owed = append([]time.Time{*r.BufferedAt}, owed...)
	}
	live := 0
	if r.Rule.Overlap != schedule.OverlapAllow && len(owed) > 0 && p.options.Live != nil {
		if live, err = p.options.Live(ctx, tx, r.Name); err != nil {
			return d, err
		}
	}
	v := judge(r.Rule.Overlap, owed, live)
	v.skipped += d.skipped
	d.verdict = v
	if v.buffered != nil {
		again := r.now.Add(bufferPoll)
		if d.wake == nil || again.Before(*d.wake) {
			d.wake = &again
		}
	}
	return d, nil
}

// owed are the nominal times that the misfire policy wants fired. It sets when the schedule is due next.
func (p *Plan) owed(r row, d *decision) ([]time.Time, error) {
	if r.NextAt == nil {
		return nil, nil
	}
	parsed, err := schedule.Parse(r.Expr, r.Zone)
	if err != nil {
		return nil, err
	}
	fire, skipped, following, ok := r.Rule.Due(parsed, *r.NextAt, r.now.Add(p.lead(r.Rule)))
	d.skipped = skipped
	if ok {
		wake := p.dueAt(r.Rule, following)
		d.next, d.wake = &following, &wake
	}
	return fire, nil
}

func (p *Plan) carryOut(ctx context.Context, tx workqueue.Tx, r row, d decision) error {
	fired, last := 0, (*time.Time)(nil)
	if n := len(d.start); n > 0 {
		var err error
		if fired, err = p.options.Insert(ctx, tx, planned(r.Schedule, d.start)); err != nil {
			return err
		}
		last = &d.start[n-1]
	}
	var now time.Time
	err := workqueue.Query(ctx, tx, func(scan func(...any) error) error { return scan(&now) },
		p.statements.advance, r.ID, d.next, last, d.buffered, fired, d.skipped)
	if err != nil || d.wake == nil {
		return err
	}
	return workqueue.Snooze(d.wake.Sub(now))
}
