package timers

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// clockInterval is how long a reading of the database's clock is used. Two clocks drift apart by a few milliseconds
	// in that time.
	clockInterval = time.Minute
	// clockPatience bounds how long a firing waits for a reading when the pool is busy or the database slow.
	clockPatience = time.Second
)

// A clock estimates the database's time: it reads the database's clock now and then, and adds the time that has passed
// since on this machine's monotonic clock. Its error is at most half the round trip of the reading. It only tells how
// late a firing is; the database itself decides which timers are due.
type clock struct {
	pool *pgxpool.Pool

	mu    sync.Mutex
	base  time.Time // the database's time at the last reading
	at    time.Time // this machine's time of that reading
	tried time.Time // when the last reading began
}

// now returns this machine's time until the database's clock could be read. Firings wait for the first reading. A later
// reading delays only the firing that makes it.
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

// refresh is called with the lock held. If there is an earlier reading, it releases the lock while it reads, so that
// other firings can use that one. If it fails, it keeps the earlier reading.
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
	conn, err := c.pool.Acquire(ctx) // before the round trip is measured
	if err != nil {
		return base, at, err
	}
	defer conn.Release()
	before := time.Now()
	err = conn.QueryRow(ctx, "SELECT pg_catalog.clock_timestamp()").Scan(&base)
	return base, before.Add(time.Since(before) / 2), err
}
