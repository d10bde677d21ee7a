package bench

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// Drain fills the table, and then has workers empty it.
type Drain struct {
	Jobs         int64
	Payload      int  // bytes
	Workers      int  // all in this process
	Concurrency  int  // handlers of a worker; 0: the default
	DeleteOnAck  bool // rows of the core that are deleted when they are done, in the place of jobs
	HoldSnapshot bool // a transaction elsewhere holds back vacuum meanwhile
	Fail         float64
}

// Name implements [Workload].
func (Drain) Name() string { return "drain" }

func (d Drain) run(ctx context.Context, l *lab) (*Result, error) {
	s, err := d.store(ctx, l)
	if err != nil {
		return nil, err
	}
	if err := l.fill(ctx, "filling", s, d.Jobs, d.Payload); err != nil {
		return nil, err
	}
	if !d.HoldSnapshot {
		return d.drain(ctx, l, s)
	}
	release, err := l.holdSnapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	r, err := d.drain(ctx, l, s)
	if err == nil && ctx.Err() == nil && r.Lost == 0 {
		err = d.afterwards(ctx, l, s, r)
	}
	return r, err
}

// latencySamples are taken when a drain behind a held snapshot is over, and the snapshot is not.
const latencySamples = 100

// afterwards measures what is left of the idle latency where nothing that the drain left behind can be removed.
func (d Drain) afterwards(ctx context.Context, l *lab, s store, r *Result) error {
	_, samples, err := Latency{Count: latencySamples, Payload: d.Payload}.sample(ctx, l, s, newTally(latencySamples))
	if ctx.Err() == nil && err != nil {
		return err
	}
	r.Percentiles = percentilesOf("insert to start", samples)
	return nil
}

func (d Drain) store(ctx context.Context, l *lab) (store, error) {
	if d.DeleteOnAck {
		s, err := newDeletedStore(ctx, l)
		if err == nil {
			s.options.Concurrency = d.Concurrency
		}
		return s, err
	}
	s, err := newJobStore(ctx, l)
	if err == nil {
		s.options.Concurrency = d.Concurrency
	}
	return s, err
}

func (d Drain) drain(ctx context.Context, l *lab, s store) (*Result, error) {
	m, err := l.begin(ctx, s.table())
	if err != nil {
		return nil, err
	}
	t := newTally(d.Jobs)
	f := &failing{share: d.Fail}
	took, err := l.exhaust(ctx, "draining", s, d.Workers, t, func(_ int64, attempt int) error {
		if err := f.attempt(attempt); err != nil {
			return err
		}
		t.add()
		return nil
	})
	if err != nil {
		return nil, err
	}
	r := &Result{PerSecond: t.perSecond(), LastToFirstQuarter: t.lastToFirst()}
	if r.Costs, err = m.end(ctx, t.count(), f.started.Load()); err != nil {
		return nil, err
	}
	finish, cancel := aftermath(ctx)
	defer cancel()
	if r.Jobs, err = s.done(finish, l, d.Jobs); err != nil {
		return nil, err
	}
	r.Lost = d.Jobs - r.Jobs
	return r.took(took.Seconds()), nil
}

// failing lets a share of the first attempts fail, evenly: every tenth for a tenth.
type failing struct {
	share   float64
	started atomic.Int64 // attempts
	firsts  atomic.Int64
}

func (f *failing) attempt(attempt int) error {
	f.started.Add(1)
	if attempt > 1 {
		return nil
	}
	n := float64(f.firsts.Add(1))
	if int64(n*f.share) > int64((n-1)*f.share) {
		return errOnPurpose
	}
	return nil
}

type onPurpose struct{}

func (onPurpose) Error() string { return "on purpose" }

var errOnPurpose = onPurpose{}

// holdSnapshot is a long report, or a transaction that somebody forgot.
func (l *lab) holdSnapshot(ctx context.Context) (release func(), err error) {
	conn, err := pgx.ConnectConfig(ctx, l.meter.config.Copy())
	if err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class")
	release = func() {
		ctx, cancel := aftermath(ctx)
		defer cancel()
		_ = conn.Close(ctx) // which rolls back
	}
	if err != nil {
		release()
	}
	return release, err
}
