//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// clock sets the server's clock hours behind that of the processes, and moves it forward repeatedly, by up to half an
// hour, and back by seconds: whatever was due at a time of the server's then has to wait for that time to come again.
type clock struct {
	private
	file   string
	offset time.Duration
	back   bool // the last step went back: a second one would make rows wait even longer
}

const (
	farthestForward = 30 * time.Minute
	farthestBack    = 9 * time.Second // rows that wait for their time do not change meanwhile; see patience
	// leastJump is longer than it takes until every session sees the new time, so every reported time can be told to be
	// from before or after the jump.
	leastJump = 6 * time.Second
	lag       = 500 * time.Millisecond // a session takes its number a moment before it reads the clock
	lagAfter  = 2 * time.Second        // libfaketime rereads the file once a second
)

// behind is the initial offset of the server's clock.
const behind = -5 * time.Hour

func (c *clock) configure(l *lab) error {
	if err := l.needPrivate(); err != nil {
		return err
	}
	library, err := l.need(context.Background(), "libfaketime", "/usr/lib/*/faketime/libfaketime.so.1",
		"/usr/lib/faketime/libfaketime.so.1")
	if err != nil {
		return err
	}
	c.file, c.offset = filepath.Join(l.dir, "clock"), behind
	l.environment["LD_PRELOAD"] = library
	l.environment["FAKETIME_TIMESTAMP_FILE"] = c.file
	l.environment["FAKETIME_CACHE_DURATION"] = "1"
	l.environment["FAKETIME_DONT_FAKE_MONOTONIC"] = "1"
	l.environment["FAKETIME_DISABLE_SHM"] = "1"
	l.clocks = []clockStep{{offset: c.offset}}
	return c.write()
}

// prepare verifies that the clock is really wrong, since otherwise it would test nothing.
func (c *clock) prepare(ctx context.Context, l *lab) error {
	var now time.Time
	if err := l.admin.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return err
	}
	if off := time.Until(now) - c.offset; off.Abs() > time.Minute {
		return skip("libfaketime does not move the server's clock: it is %v from where it should be", off)
	}
	return nil
}

// write replaces the file atomically, because the server may read it at any time.
func (c *clock) write() error {
	next := c.file + ".next"
	err := os.WriteFile(next, fmt.Appendf(nil, "%+d\n", int(c.offset.Seconds())), 0o644)
	return errors.Join(err, os.Rename(next, c.file))
}

func (c *clock) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	detail, jump := "forward by %v", leastJump+time.Duration(random.Int64N(int64(farthestForward-leastJump)))
	if c.back = !c.back && random.IntN(2) == 0; c.back {
		detail, jump = "back by %v", -leastJump-time.Duration(random.Int64N(int64(farthestBack-leastJump)))
	}
	jump = jump.Truncate(time.Second) // the file contains whole seconds
	step, err := c.jump(ctx, l, jump)
	if err != nil {
		return "", err
	}
	if took := step.until.Sub(step.from) + 2*lag; took > jump.Abs() {
		err = fmt.Errorf("it took %v to set the clock by %v: times in between can be told wrongly", took, jump)
	}
	return fmt.Sprintf(detail, jump.Abs()), err
}

// jump sets the clock, and records which versions have the new time.
func (c *clock) jump(ctx context.Context, l *lab, by time.Duration) (step clockStep, err error) {
	if step.before, err = l.lastVersion(ctx); err != nil {
		return step, err
	}
	time.Sleep(lag)
	l.hit = time.Now()
	c.offset += by
	step.offset, step.from = c.offset, l.hit
	if err := c.write(); err != nil {
		return step, err
	}
	time.Sleep(lagAfter)
	err = l.retry(ctx, func(ctx context.Context) (err error) {
		step.after, err = l.lastVersion(ctx)
		return err
	})
	step.until = time.Now()
	l.clocks = append(l.clocks, step)
	return step, err
}
