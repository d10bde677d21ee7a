package periodic

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

const (
	// DefaultConcurrency is how many decisions about schedules run at the same time. A decision takes milliseconds and
	// one connection of the pool.
	DefaultConcurrency = 4

	// DefaultLease is how long a crashed scheduler blocks its schedules, in addition to the reaper's interval. It is
	// shorter than for other workers, because a decision is short.
	DefaultLease = 10 * time.Second

	// DefaultLockWait is how long a decision waits for a lock, such as that of an application that has changed the
	// schedule and not committed. After that the decision is given up, and made again later.
	DefaultLockWait = 2 * time.Second

	// maxPiece and maxPieceBytes bound the occurrences of one transaction and their templates, however many are owed.
	// Such a transaction takes ten to a hundred milliseconds, far less than a lease.
	maxPiece, maxPieceBytes = 250, 8 << 20

	// bufferPoll is how often a schedule with a buffered occurrence checks whether the earlier occurrence has ended.
	bufferPoll = time.Second

	// paused is for how long a scheduler puts back a schedule that was paused after the claim.
	paused = 365 * 24 * time.Hour
)

// SchedulerOptions configure a [Scheduler]. They are a worker's options with other defaults: [DefaultConcurrency],
// [DefaultLease], and as TxLimits the lease, but at most [DefaultLease], for Idle and Statement, and [DefaultLockWait]
// for Lock.
type SchedulerOptions struct {
	workqueue.WorkerOptions
}

// A Scheduler writes the occurrences of a plan when they are due. Any number of schedulers in any number of processes
// may share a plan, without a leader.
type Scheduler struct {
	plan   *Plan
	pool   *pgxpool.Pool
	logger *slog.Logger
	worker *workqueue.Worker
	aside  aside
}

// SchedulerOptionsOf returns the options of a scheduler that runs together with a worker: it uses the same runtime and
// shutdown times.
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

// NewScheduler returns a scheduler. Run starts it.
func NewScheduler(pool *pgxpool.Pool, p *Plan, o SchedulerOptions) (*Scheduler, error) {
	if p == nil {
		return nil, validate.Errorf("plan", "is nil")
	}
	o.Concurrency = cmp.Or(o.Concurrency, DefaultConcurrency)
	o.Lease = cmp.Or(o.Lease, DefaultLease)
	if o.TxLimits == (workqueue.TxLimits{}) {
		limit := min(o.Lease, DefaultLease).Truncate(time.Millisecond)
		o.TxLimits = workqueue.TxLimits{Idle: limit, Statement: limit, Lock: min(limit, DefaultLockWait)}
	}
	s := &Scheduler{plan: p, pool: pool, logger: cmp.Or(p.options.Telemetry.Logger, slog.Default())}
	domain := workqueue.Domain[record]{Table: p.table, Columns: (*record).columns}
	worker, err := workqueue.NewWorker(pool, domain, s.handle, o.WorkerOptions)
	if err != nil {
		return nil, err
	}
	s.worker = worker
	return s, nil
}

// Run writes occurrences until ctx is cancelled, see [workqueue.Worker.Run]. A Scheduler runs once.
//
// A scheduler from whose role row-level security hides occurrences does not know which of them run. It leaves all
// schedules to schedulers of other roles, says so, and asks every minute whether it sees all.
func (s *Scheduler) Run(ctx context.Context) error {
	for warned := false; s.isBlind(ctx); warned = true {
		if !warned {
			s.logger.WarnContext(ctx, "scheduler leaves its schedules to others", "table", s.plan.table.Name(), "error",
				errHidden)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(hiddenPause):
		}
	}
	return s.worker.Run(ctx)
}

// isBlind asks whether row-level security hides occurrences. If the database does not answer, the worker finds out.
func (s *Scheduler) isBlind(ctx context.Context) bool {
	if s.plan.options.Live == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, DefaultLease)
	defer cancel()
	blind := false
	err := workqueue.InTx(ctx, s.pool, func(tx workqueue.Tx) error {
		live, err := s.plan.options.Live(ctx, tx, "")
		blind = live < 0
		return err
	})
	return err == nil && blind
}

// Workers and Tables make a scheduler a part of a service, see package service.
func (s *Scheduler) Workers() []*workqueue.Worker { return s.worker.Workers() }

// Tables is the table of the plan.
func (s *Scheduler) Tables() []*workqueue.Table { return s.worker.Tables() }

// Wake makes the scheduler look for due schedules now. It never blocks.
func (s *Scheduler) Wake() { s.worker.Wake() }

// Drain returns the scheduler as a [workqueue.Drain]: each run writes the owed occurrences and returns.
func (s *Scheduler) Drain() (*workqueue.Drain, error) { return s.worker.Drain() }

// DrainIn is [Scheduler.Drain] inside a transaction, see [workqueue.Worker.DrainIn]. It makes one decision about each
// schedule: if more than 250 occurrences are owed, it writes the first 250.
func (s *Scheduler) DrainIn(tx pgx.Tx) (*workqueue.Drain, error) { return s.worker.DrainIn(tx) }

// handle decides about one schedule, in the transaction that settles its claim: the decision, the occurrences and the
// next due time commit together or not at all. Occurrences that exceed one transaction are left to the next claim.
func (s *Scheduler) handle(ctx context.Context, c *workqueue.Claim[record]) error {
	if s.aside.has(c.ID) {
		return workqueue.Snooze(asideSnooze)
	}
	var failure error
	err := c.Tx(ctx, func(tx pgx.Tx) error {
		failure = s.plan.advance(ctx, workqueue.Pgx(tx), c.ID, c.Attempt)
		return failure
	})
	switch {
	case errors.Is(failure, errHidden):
		return workqueue.Snooze(hiddenPause) // another role may be able to decide
	case postgres.IsOwn(failure) && s.aside.add(c.ID):
		s.logger.WarnContext(ctx, "scheduler leaves schedules that it cannot decide about to others for a while", "table",
			s.plan.table.Name(), "error", failure, "tries_again_in", asideFor)
	}
	return err
}

// advance returns the outcome of the claim: a snooze until the schedule is due again, or done if it is never due again.
// Everything slow happens before the row is locked. If another transaction has changed the row meanwhile, advance
// decides anew.
func (p *Plan) advance(ctx context.Context, tx workqueue.Tx, id uuid.UUID, attempt int) error {
	r, version, err := p.load(ctx, tx, id)
	if err != nil {
		return unlessDeleted(err)
	}
	owed, d, unknown := p.owed(r)
	same, err := p.lock(ctx, tx, id, version)
	switch {
	case err != nil:
		return unlessDeleted(err)
	case !same:
		return workqueue.Again(0)
	case len(r.triggers) > 0:
		return p.writeTriggers(ctx, tx, r, attempt)
	case r.Paused:
		return workqueue.Snooze(paused)
	case unknown != nil:
		return unknown
	}
	if d.verdict, err = p.judge(ctx, tx, r, owed); err != nil {
		return err
	}
	d.limit(r, pieceOf(r, attempt))
	return p.carryOut(ctx, tx, r, d)
}

// unlessDeleted ignores that a schedule is gone: the settle notices that, too.
func unlessDeleted(err error) error {
	if errors.Is(err, workqueue.ErrNotFound) {
		return nil
	}
	return err
}

// A decision is a verdict and the time of the next decision.
type decision struct {
	verdict
	missed  int        // skipped by the misfire policy
	earlier int        // how many of the owed occurrences come before the plan's: buffered, or of earlier definitions
	left    debts      // of those, what is left to the next decision
	next    *time.Time // nominal; nil for never
	wake    *time.Time // nil for never
}

// owed returns the nominal times that should fire by the misfire policy, and when the schedule is due next.
func (p *Plan) owed(r row) (owed []time.Time, d decision, err error) {
	if r.Paused {
		return nil, d, nil
	}
	if r.BufferedAt != nil {
		owed = []time.Time{*r.BufferedAt}
	}
	due, dropped := r.owed.judged(r.now)
	owed, d.missed = append(owed, due...), dropped
	d.earlier = len(owed)
	if r.NextAt == nil {
		return owed, d, nil
	}
	parsed, err := schedule.Parse(r.Expr, r.Zone)
	if err != nil {
		return nil, d, err
	}
	fire, missed, following, ok := r.Rule.Due(parsed, *r.NextAt, r.now.Add(p.lead(r.Rule)))
	d.missed += missed
	if ok {
		wake := p.dueAt(r.Rule, following)
		d.next, d.wake = &following, &wake
	}
	return append(owed, fire...), d, nil
}

// judge applies the overlap policy to the owed occurrences.
func (p *Plan) judge(ctx context.Context, tx workqueue.Tx, r row, owed []time.Time) (verdict, error) {
	if r.Rule.Overlap == schedule.OverlapAllow || len(owed) == 0 || p.options.Live == nil {
		return judge(r.Rule.Overlap, owed, 0), nil
	}
	live, err := p.options.Live(ctx, tx, r.Name)
	if err == nil && live < 0 {
		err = errHidden
	}
	return judge(r.Rule.Overlap, owed, live), err
}

// errHidden is why a scheduler does not decide whether an occurrence may start.
var errHidden = errors.New("txwork: row-level security hides occurrences from the role: run the scheduler as the owner " +
	"of the tables or as a role with BYPASSRLS")

// hiddenPause is for how long a scheduler puts back a schedule about which it cannot decide, and how often it asks
// whether it can.
const hiddenPause = time.Minute

// limit leaves all but the first occurrences to the next decision, which is due at once. If an occurrence is buffered,
// the next decision is due after bufferPoll.
func (d *decision) limit(r row, most int) {
	switch {
	case len(d.start) > most:
		if most < d.earlier {
			d.left = settled(d.start[most:d.earlier])
		}
		if planned := max(most, d.earlier); planned < len(d.start) {
			d.next = &d.start[planned]
		}
		d.wake = &r.now
		d.start = d.start[:most]
	case d.buffered != nil:
		again := r.now.Add(bufferPoll)
		if d.wake == nil || again.Before(*d.wake) {
			d.wake = &again
		}
	}
}

// pieceOf is how many occurrences a transaction writes. Each failed attempt halves it, because a database that is too
// slow for one transaction may be fast enough for a smaller one.
func pieceOf(r row, attempt int) int {
	return max(min(maxPiece, maxPieceBytes/max(len(r.Template), 1))>>(attempt-1), 1)
}

func (p *Plan) carryOut(ctx context.Context, tx workqueue.Tx, r row, d decision) error {
	fired, last := 0, (*time.Time)(nil)
	if n := len(d.start); n > 0 {
		var err error
		occurrences := r.planned(d.start)
		if fired, err = p.options.Insert(ctx, tx, occurrences); err != nil {
			return err
		}
		for _, o := range occurrences {
			if o.Duplicate { // what stands in its way may do so for long: it is not tried again
				fired++
			}
		}
		last = &d.start[n-1]
	}
	left, err := d.left.stored()
	if err != nil {
		return err
	}
	var now time.Time
	err = p.table.In(tx).Query(ctx, func(scan func(...any) error) error { return scan(&now) },
		p.statements.advance, r.ID, d.next, last, d.buffered, fired, d.missed+d.skipped, left)
	if err != nil || d.wake == nil {
		return err
	}
	return workqueue.Again(d.wake.Sub(now.Add(r.ahead)))
}
