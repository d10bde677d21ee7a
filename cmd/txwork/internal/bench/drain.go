package bench

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// Drain fills the table, and then lets workers empty it.
type Drain struct {
	Jobs        int64 `json:"jobs"`
	Payload     int   `json:"payload_bytes"` // bytes
	Processes   int   `json:"processes"`     // of workers, each of which has Workers; 0: they are in this process
	Workers     int   `json:"workers"`
	Concurrency int   `json:"concurrency"` // handlers of a worker; 0: the default

	HoldSnapshot bool    `json:"hold_snapshot"` // a transaction elsewhere holds back vacuum meanwhile
	Fail         float64 `json:"fail"`
}

// Name implements [Workload].
func (Drain) Name() string { return "drain" }

func (d Drain) run(ctx context.Context, l *lab) (*Result, error) {
	s, err := newStore(ctx, l)
	if err != nil {
		return nil, err
	}
	s.options.Concurrency = d.Concurrency
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

// latencySamples is how many latencies are measured when a drain behind a held snapshot is over and the snapshot is
// still held.
const latencySamples = 100

// afterwards measures the idle latency while vacuum cannot remove what the drain has left behind.
func (d Drain) afterwards(ctx context.Context, l *lab, s *store, r *Result) error {
	_, samples, err := Latency{Count: latencySamples, Payload: d.Payload}.sample(ctx, l, s, newTally(latencySamples))
	if ctx.Err() == nil && err != nil {
		return err
	}
	r.latencies("insert to start", samples)
	return nil
}

func (d Drain) drain(ctx context.Context, l *lab, s *store) (*Result, error) {
	m, err := l.begin(ctx, s.table())
	if err != nil {
		return nil, err
	}
	t := newTally(d.Jobs)
	took, attempts, err := d.empty(ctx, l, s, t, m)
	if err != nil {
		return nil, err
	}
	r := &Result{PerSecond: t.perSecond(), LastToFirstQuarter: t.lastToFirst()}
	if r.Costs, err = m.end(ctx, t.count(), attempts); err != nil {
		return nil, err
	}
	finish, cancel := aftermath(ctx)
	defer cancel()
	if r.Jobs, err = s.done(finish, l); err != nil {
		return nil, err
	}
	r.Lost = d.Jobs - r.Jobs
	return r.took(took.Seconds()), nil
}

// empty lets the workers do all jobs, in this process or in others.
func (d Drain) empty(ctx context.Context, l *lab, s *store, t *tally, m *measurement) (took time.Duration,
	attempts int64, err error) {
	if d.Processes > 0 {
		return d.emptyByTeam(ctx, l, t, m)
	}
	f := &failing{share: d.Fail}
	took, err = l.exhaust(ctx, "draining", s, d.Workers, t, func(_ int64, attempt int) error {
		if err := f.attempt(attempt); err != nil {
			return err
		}
		t.add()
		return nil
	})
	return took, f.started.Load(), err
}

func (d Drain) emptyByTeam(ctx context.Context, l *lab, t *tally, m *measurement) (took time.Duration, attempts int64,
	err error) {
	team, err := l.form(ctx, d, t)
	if err != nil {
		return 0, 0, err
	}
	defer team.dismiss()
	runners := make([]runner, len(team))
	for i, member := range team {
		runners[i] = member
	}
	took, err = l.complete(ctx, "draining", t, runners)
	attempts, m.elsewhere.cpu, m.elsewhere.memory = team.spent()
	return took, attempts, err
}

// failing makes an evenly distributed share of the first attempts fail: for a tenth, every tenth.
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

// holdSnapshot opens a transaction like that of a long report, or one that an operator forgot.
func (l *lab) holdSnapshot(ctx context.Context) (release func(), err error) {
	conn, err := pgx.ConnectConfig(ctx, l.meter.config.Copy())
	if err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class")
	release = func() {
		ctx, cancel := aftermath(ctx)
		defer cancel()
		_ = conn.Close(ctx) // rolls back
	}
	if err != nil {
		release()
	}
	return release, err
}
