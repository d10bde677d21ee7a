package periodic

import (
	"context"
	"errors"
	"time"

	"github.com/txwork/txwork/workqueue/validate"

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

	// DefaultLockWait is how long a decision waits for a lock that somebody holds, such as an application that has
	// changed the schedule and not committed: it then gives up its place, and is made again.
	DefaultLockWait = 2 * time.Second

	// maxPiece and maxPieceBytes bound the occurrences of one transaction and their templates: some ten to a hundred
	// milliseconds, far from a lease, however much is owed.
	maxPiece, maxPieceBytes = 250, 8 << 20

	// bufferPoll is how often a schedule looks whether the occurrence has ended for which another one waits.
	bufferPoll = time.Second

	// paused is how long a scheduler puts a paused schedule back for that it has claimed all the same.
	paused = 365 * 24 * time.Hour
)

// SchedulerOptions configure a [Scheduler]: those of a worker, with [DefaultConcurrency], [DefaultLease] and, as
// TxLimits, the lease, but at most [DefaultLease], for Idle and Statement, and [DefaultLockWait] for Lock.
type SchedulerOptions struct {
	workqueue.WorkerOptions
}

// A Scheduler writes the occurrences of a plan when they are due. Any number of them, in any number of
// processes, share a plan; there is no leader.
type Scheduler struct {
	plan   *Plan
	worker *workqueue.Worker
}

// SchedulerOptionsOf are the options of a scheduler that runs together with a worker: it has the same runtime, and
// stops in the same time.
func SchedulerOptionsOf(o workqueue.WorkerOptions) SchedulerOptions {
	return SchedulerOptions{WorkerOptions: workqueue.WorkerOptions{
		PollInterval:    o.PollInterval,
		ShutdownTimeout: o.ShutdownTimeout,
		Redact:          o.Redact,
		NoListen:        o.NoListen,
		ListenConfig:    o.ListenConfig,
		Runtime:         o.Runtime,
	}}
}

// NewScheduler makes a scheduler; Run starts it.
func NewScheduler(pool *pgxpool.Pool, p *Plan, o SchedulerOptions) (*Scheduler, error) {
	if p == nil {
		return nil, validate.Errorf("plan", "is nil")
	}
	if o.Concurrency == 0 {
		o.Concurrency = DefaultConcurrency
	}
	if o.Lease == 0 {
		o.Lease = DefaultLease
	}
	if o.TxLimits == (workqueue.TxLimits{}) {
		limit := min(o.Lease, DefaultLease).Truncate(time.Millisecond)
		o.TxLimits = workqueue.TxLimits{Idle: limit, Statement: limit, Lock: min(limit, DefaultLockWait)}
	}
	s := &Scheduler{plan: p}
	domain := workqueue.Domain[columns]{Table: p.table, Fields: (*columns).fields}
	worker, err := workqueue.NewWorker(pool, domain, s.handle, o.WorkerOptions)
	if err != nil {
		return nil, err
	}
	s.worker = worker
	return s, nil
}

// Run writes occurrences until ctx is cancelled, see [workqueue.Worker.Run]. A Scheduler runs once.
func (s *Scheduler) Run(ctx context.Context) error { return s.worker.Run(ctx) }

// Workers and Tables make a scheduler a part of a service, see package service.
func (s *Scheduler) Workers() []*workqueue.Worker { return s.worker.Workers() }

// Tables is the table of the plan.
func (s *Scheduler) Tables() []*workqueue.Table { return s.worker.Tables() }

// Wake makes the scheduler look now. It never blocks.
func (s *Scheduler) Wake() { s.worker.Wake() }

// Drain is the scheduler as a [workqueue.Drain], each of whose runs writes what is owed and returns.
func (s *Scheduler) Drain() (*workqueue.Drain, error) { return s.worker.Drain() }

// DrainIn is [Scheduler.Drain] inside a transaction, see [workqueue.Worker.DrainIn]. It makes one decision about a
// schedule: of more than 250 occurrences that are owed it writes the first.
func (s *Scheduler) DrainIn(tx pgx.Tx) (*workqueue.Drain, error) { return s.worker.DrainIn(tx) }

// columns receive what a claim returns. It is not used: only what is read after it holds.
type columns struct{ values [14]any }

func (c *columns) fields() []any {
	dest := make([]any, len(c.values))
	for i := range c.values {
		dest[i] = &c.values[i]
	}
	return dest
}

// handle decides about one schedule, in the transaction that settles its claim: the decision, the occurrences
// and the next due time commit together or not at all. What does not fit one transaction is left to the next claim.
func (s *Scheduler) handle(ctx context.Context, c *workqueue.Claim[columns]) error {
	return c.Tx(ctx, func(tx pgx.Tx) error { return s.plan.advance(ctx, workqueue.Pgx(tx), c.ID, c.Attempt) })
}

// advance returns the outcome of the claim: put back until the schedule is due again, or done where it never is. All
// that takes long is done before the row is locked. Where somebody has changed it meanwhile, all is decided anew.
func (p *Plan) advance(ctx context.Context, tx workqueue.Tx, id uuid.UUID, attempt int) error {
	r, version, err := p.load(ctx, tx, id)
	if err != nil {
		return unlessDeleted(err)
	}
	owed, d, err := p.owed(r)
	if err != nil {
		return err
	}
	same, err := p.lock(ctx, tx, id, version)
	switch {
	case err != nil:
		return unlessDeleted(err)
	case !same:
		return workqueue.Again(0)
	case r.Paused:
		return workqueue.Snooze(paused)
	}
	if d.verdict, err = p.judge(ctx, tx, r, owed); err != nil {
		return err
	}
	d.limit(r, pieceOf(r, attempt))
	return p.carryOut(ctx, tx, r, d)
}

// unlessDeleted leaves a schedule that is gone to the settle, which finds that, too.
func unlessDeleted(err error) error {
	if errors.Is(err, workqueue.ErrNotFound) {
		return nil
	}
	return err
}

// A decision is a verdict and when to decide again.
type decision struct {
	verdict
	missed int        // skipped by the misfire policy
	next   *time.Time // nominal; nil for never
	wake   *time.Time // nil for never
}

// owed are the nominal times that the misfire policy wants fired, and when the schedule is due next.
func (p *Plan) owed(r row) (owed []time.Time, d decision, err error) {
	if r.BufferedAt != nil {
		owed = []time.Time{*r.BufferedAt}
	}
	if r.NextAt == nil || r.Paused {
		return owed, d, nil
	}
	parsed, err := schedule.Parse(r.Expr, r.Zone)
	if err != nil {
		return nil, d, err
	}
	fire, missed, following, ok := r.Rule.Due(parsed, *r.NextAt, r.now.Add(p.lead(r.Rule)))
	d.missed = missed
	if ok {
		wake := p.dueAt(r.Rule, following)
		d.next, d.wake = &following, &wake
	}
	return append(owed, fire...), d, nil
}

// judge applies the overlap policy to what is owed.
func (p *Plan) judge(ctx context.Context, tx workqueue.Tx, r row, owed []time.Time) (verdict, error) {
	if r.Rule.Overlap == schedule.OverlapAllow || len(owed) == 0 || p.options.Live == nil {
		return judge(r.Rule.Overlap, owed, 0), nil
	}
	live, err := p.options.Live(ctx, tx, r.Name)
	return judge(r.Rule.Overlap, owed, live), err
}

// limit leaves all but the first of the occurrences to the next decision, which is due at once, and has an
// occurrence that waits looked at again soon.
func (d *decision) limit(r row, most int) {
	switch {
	case len(d.start) > most:
		d.next, d.wake = &d.start[most], &r.now
		d.start = d.start[:most]
	case d.buffered != nil:
		again := r.now.Add(bufferPoll)
		if d.wake == nil || again.Before(*d.wake) {
			d.wake = &again
		}
	}
}

// pieceOf is how many occurrences a transaction writes. Each failed attempt halves it: a database that is too slow
// for a piece may be quick enough for a smaller one.
func pieceOf(r row, attempt int) int {
	return max(min(maxPiece, maxPieceBytes/max(len(r.Template), 1))>>(attempt-1), 1)
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
	err := p.table.In(tx).Query(ctx, func(scan func(...any) error) error { return scan(&now) },
		p.statements.advance, r.ID, d.next, last, d.buffered, fired, d.missed+d.skipped)
	if err != nil || d.wake == nil {
		return err
	}
	return workqueue.Again(d.wake.Sub(now))
}
