package timers

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// clockInterval is how long a reading of the database's clock is gone on from: two clocks drift apart by
	// some milliseconds in that time.
	clockInterval = time.Minute
	// clockPatience bounds how long a firing waits for a reading when the pool is busy or the database slow.
	clockPatience = time.Second
)

// A clock is the database's as seen from here: a reading, and this machine's monotonic clock since. It is
// right to within half the round trip of the reading. It only tells how late a firing is; what is due is
// decided by the database itself.
type clock struct {
	pool *pgxpool.Pool

	mu    sync.Mutex
	base  time.Time // the database's
	at    time.Time // ours
	tried time.Time // when it was last to be read
}

// now is this machine's time as long as the database's could not be read. The first firings wait for that;
// later readings hold up the firing that takes them and no other.
func (c *clock) now(ctx context.Context) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tried.IsZero() || time.Since(c.tried) > clockInterval {
		c.tried = time.Now()
		c.refresh(ctx)
	}
	if c.base.IsZero() {
		return time.Now()
	}
	return c.base.Add(time.Since(c.at))
}

// refresh is called with the lock held, which it gives up meanwhile where there is a reading to go on from.
// It keeps that one if it fails.
func (c *clock) refresh(ctx context.Context) {
	held := c.base.IsZero()
	if !held {
		c.mu.Unlock()
	}
	base, at, err := c.read(ctx)
	if !held {
		c.mu.Lock()
	}
	if err == nil {
		c.base, c.at = base, at
	}
}

func (c *clock) read(ctx context.Context) (base, at time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, clockPatience)
	defer cancel()
	conn, err := c.pool.Acquire(ctx) // outside of what is measured
	if err != nil {
		return base, at, err
	}
	defer conn.Release()
	before := time.Now()
	err = conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&base)
	return base, before.Add(time.Since(before) / 2), err
}
