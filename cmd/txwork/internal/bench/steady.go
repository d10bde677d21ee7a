package bench

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

// Steady enqueues at a constant rate, whether or not the workers keep up. Latency counts from the time at which a job
// should have been enqueued to the start of its handler, so it includes delays of the producers.
type Steady struct {
	Rate        float64       `json:"rate"` // jobs a second
	Duration    time.Duration `json:"duration_ns"`
	Payload     int           `json:"payload_bytes"` // bytes, at least 8
	Workers     int           `json:"workers"`
	Connections int           `json:"connections"` // of producers
}

// Name implements [Workload].
func (Steady) Name() string { return "steady" }

func (c Steady) total() int64 { return max(1, int64(c.Rate*c.Duration.Seconds())) }

func (c Steady) run(ctx context.Context, l *lab) (*Result, error) {
	s, err := newStore(ctx, l)
	if err != nil {
		return nil, err
	}
	if err := l.settle(ctx, s.table()); err != nil {
		return nil, err
	}
	m, err := l.begin(ctx, s.table())
	if err != nil {
		return nil, err
	}
	t := newTally(c.total())
	var starts latencies
	produced, took, err := c.load(ctx, l, s, t, &starts)
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	r := &Result{PerSecond: t.perSecond()}
	r.latencies("intended to start", starts.list())
	if r.Costs, err = m.end(ctx, t.count(), t.count()); err != nil {
		return nil, err
	}
	finish, cancel := aftermath(ctx)
	defer cancel()
	if r.Jobs, err = s.done(finish, l); err != nil {
		return nil, err
	}
	r.Lost = produced - r.Jobs
	return r.took(took.Seconds()), nil
}

// leadIn is the time before the first intended enqueue, in which workers and connections start.
const leadIn = 500 * time.Millisecond

func (c Steady) load(ctx context.Context, l *lab, s *store, t *tally, starts *latencies) (produced int64,
	took time.Duration, err error) {
	pool, err := l.pool(ctx, c.Connections+c.Workers)
	if err != nil {
		return 0, 0, err
	}
	defer pool.Close()
	if err := warm(ctx, pool, c.Connections+c.Workers); err != nil {
		return 0, 0, err
	}
	t.begun = time.Now().Add(leadIn)
	runners := make([]runner, c.Workers)
	for i := range runners {
		runners[i], err = s.worker(pool, func(number int64, _ int) error {
			starts.add(time.Since(c.intended(t.begun, number)))
			t.add()
			return nil
		})
		if err != nil {
			return 0, 0, err
		}
	}
	defer l.watch("running", t.total, t.count)()
	crew := start(ctx, runners...)
	produced, err = c.produce(ctx, pool, s, t.begun)
	if err == nil {
		err = l.await(ctx, crew, t, stallLimit)
	}
	took = time.Since(t.begun)
	if haltErr := crew.halt(); err == nil {
		err = haltErr
	}
	return produced, took, err
}

func (c Steady) intended(begun time.Time, number int64) time.Time {
	return begun.Add(time.Duration(float64(number) / c.Rate * float64(time.Second)))
}

// produce returns how many jobs it has committed.
func (c Steady) produce(ctx context.Context, pool *pgxpool.Pool, s *store, begun time.Time) (int64, error) {
	var next, produced atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range c.Connections {
		group.Go(func() error {
			for {
				parcels, err := c.await(ctx, &next, begun)
				if err != nil || len(parcels) == 0 {
					return err
				}
				if err := insertIn(ctx, pool, s, parcels); err != nil {
					return err
				}
				produced.Add(int64(len(parcels)))
			}
		})
	}
	err := group.Wait()
	return produced.Load(), err
}

// overdueBatch bounds how many jobs a late producer enqueues in one transaction.
const overdueBatch = 1000

// await waits until the next job is to be enqueued, and takes all further jobs whose time has come as well.
func (c Steady) await(ctx context.Context, next *atomic.Int64, begun time.Time) ([]parcel, error) {
	for {
		number := next.Load()
		if number >= c.total() {
			return nil, nil
		}
		if wait := time.Until(c.intended(begun, number)); wait > 0 {
			if err := pause(ctx, wait); err != nil {
				return nil, err
			}
		}
		due := int64(time.Since(begun).Seconds()*c.Rate) + 1
		n := min(max(due-number, 1), overdueBatch, c.total()-number)
		if next.CompareAndSwap(number, number+n) {
			return parcelsFrom(number, n, c.Payload), nil
		}
	}
}
