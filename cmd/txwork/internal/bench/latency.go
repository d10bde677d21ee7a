package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Latency measures the time from insert to handler start, one job at a time on an idle queue. It includes the insert's
// transaction and its commit.
type Latency struct {
	Count   int64 `json:"count"`
	Payload int   `json:"payload_bytes"` // bytes
}

// Name implements [Workload].
func (Latency) Name() string { return "latency" }

// idle is how long the queue is idle between two jobs.
const idle = 20 * time.Millisecond

func (c Latency) run(ctx context.Context, l *lab) (*Result, error) {
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
	t := newTally(c.Count)
	took, samples, err := c.sample(ctx, l, s, t)
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	r := &Result{}
	r.latencies("insert to start", samples)
	const warmUp = 1
	if r.Costs, err = m.end(ctx, t.count()+warmUp, t.count()+warmUp); err != nil {
		return nil, err
	}
	finish, cancel := aftermath(ctx)
	defer cancel()
	done, err := s.done(finish, l)
	if err != nil {
		return nil, err
	}
	r.Jobs = max(done-warmUp, 0)
	r.Lost = c.Count - r.Jobs
	return r.took(took.Seconds()), nil
}

func (c Latency) sample(ctx context.Context, l *lab, s *store, t *tally) (time.Duration, []time.Duration, error) {
	pool, err := l.pool(ctx, fillConnections)
	if err != nil {
		return 0, nil, err
	}
	defer pool.Close()
	started := make(chan time.Time, 1)
	w, err := s.worker(pool, func(int64, int) error {
		started <- time.Now()
		return nil
	})
	if err != nil {
		return 0, nil, err
	}
	defer l.watch("measuring", c.Count, t.count)()
	crew := start(ctx, w)
	samples, err := c.samples(ctx, pool, s, t, started)
	took := time.Since(t.begun)
	if haltErr := crew.halt(); haltErr != nil {
		err = haltErr
	}
	return took, samples, err
}

// samples ignores the first job, which opens connections and prepares statements.
func (c Latency) samples(ctx context.Context, pool *pgxpool.Pool, s *store, t *tally,
	started <-chan time.Time) (samples []time.Duration, err error) {
	for i := range c.Count + 1 {
		if err := pause(ctx, idle); err != nil {
			return samples, err
		}
		begun := time.Now()
		if i == 1 {
			t.begun = begun
		}
		job := []parcel{{number: i, size: c.Payload}}
		if err := insertIn(ctx, pool, s, job); err != nil {
			return samples, err
		}
		select {
		case at := <-started:
			if i > 0 {
				samples = append(samples, at.Sub(begun))
				t.add()
			}
		case <-time.After(stallLimit):
			return samples, fmt.Errorf("a job has not started within %v", stallLimit)
		case <-ctx.Done():
			return samples, context.Cause(ctx)
		}
	}
	return samples, nil
}
