package bench

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

// stallLimit is how long nothing may be completed before the remaining jobs count as lost. It is longer than a lease,
// so that a job whose lease has to expire first does not count as lost.
const stallLimit = time.Minute

// A crew is workers that run in the background.
type crew struct {
	stop  context.CancelFunc
	group *errgroup.Group
	ended context.Context // done when one of them has failed or all were stopped
	once  sync.Once
	err   error
}

// start runs workers until halt. They do not end with ctx, so that an interruption does not stop them unnoticed.
func start(ctx context.Context, runners ...runner) *crew {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	group, ended := errgroup.WithContext(ctx)
	for _, r := range runners {
		group.Go(func() error { return r.Run(ended) })
	}
	return &crew{stop: stop, group: group, ended: ended}
}

// halt stops the workers, and returns when everything is settled.
func (c *crew) halt() error {
	c.once.Do(func() {
		c.stop()
		c.err = c.group.Wait()
	})
	return c.err
}

// await returns when the tally is full, when it has not moved for the limit, or when ctx or the crew has ended.
func (c *crew) await(ctx context.Context, t *tally, limit time.Duration) {
	tick := time.NewTicker(limit / 20)
	defer tick.Stop()
	count, moved := t.count(), time.Now()
	for {
		select {
		case <-t.all:
			return
		case <-ctx.Done():
			return
		case <-c.ended.Done():
			return
		case <-tick.C:
		}
		if n := t.count(); n != count {
			count, moved = n, time.Now()
		}
		if time.Since(moved) > limit {
			return
		}
	}
}

// exhaust runs workers of a store until the tally is full and everything is settled, and returns how long that took.
func (l *lab) exhaust(ctx context.Context, phase string, s *store, workers int, t *tally, handle handle) (time.Duration,
	error) {
	pool, err := l.pool(ctx, workers+1)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	runners, err := hire(s, pool, workers, handle)
	if err != nil {
		return 0, err
	}
	return l.complete(ctx, phase, t, runners)
}

// hire makes workers of a store.
func hire(s *store, pool *pgxpool.Pool, workers int, handle handle) (runners []runner, err error) {
	runners = make([]runner, workers)
	for i := range runners {
		if runners[i], err = s.worker(pool, handle); err != nil {
			return nil, err
		}
	}
	return runners, nil
}

// complete lets runners work until the tally is full and everything is settled, and returns how long that took.
func (l *lab) complete(ctx context.Context, phase string, t *tally, runners []runner) (time.Duration, error) {
	t.begun = time.Now()
	defer l.watch(phase, t.total, t.count)()
	c := start(ctx, runners...)
	err := l.await(ctx, c, t, stallLimit)
	if haltErr := c.halt(); err == nil {
		err = haltErr
	}
	return time.Since(t.begun), err
}
