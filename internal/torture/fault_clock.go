//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// clock has the server's clock be hours behind that of the processes, and sets it forward again and again. It never goes
// back: what is due at a time of the server's would have to wait for that time to come again.
type clock struct {
	private
	file   string
	offset time.Duration
}

// leastJump is longer than the second for which sessions may still have the old time: so what any of them says is either
// from before the jump or from after it.
const leastJump = 5 * time.Second

// A clockStep is how far the server's clock is from ours from then on.
type clockStep struct {
	at     time.Time
	offset time.Duration
}

// ours is a time of the server's clock by that of the processes.
func (l *lab) ours(server time.Time) time.Time {
	for _, step := range slices.Backward(l.clocks) {
		if at := server.Add(-step.offset); !at.Before(step.at) {
			return at
		}
	}
	return server
}

// behind is where the server's clock begins.
const behind = -5 * time.Hour

func (c *clock) configure(l *lab) error {
	if err := l.needPrivate(); err != nil {
		return err
	}
	library, err := l.need(context.Background(), "libfaketime", "/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib/faketime/libfaketime.so.1")
	if err != nil {
		return err
	}
	c.file, c.offset = filepath.Join(l.dir, "clock"), behind
	l.environment["LD_PRELOAD"] = library
	l.environment["FAKETIME_TIMESTAMP_FILE"] = c.file
	l.environment["FAKETIME_CACHE_DURATION"] = "1"
	l.environment["FAKETIME_DONT_FAKE_MONOTONIC"] = "1"
	l.environment["FAKETIME_DISABLE_SHM"] = "1"
	return c.set(l)
}

// prepare makes sure that it works: a clock that is not wrong tests nothing.
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

// set replaces the file as a whole: the server reads it at any time.
func (c *clock) set(l *lab) error {
	l.clocks = append(l.clocks, clockStep{time.Now(), c.offset})
	next := c.file + ".next"
	err := os.WriteFile(next, fmt.Appendf(nil, "%+d\n", int(c.offset.Seconds())), 0o644)
	return errors.Join(err, os.Rename(next, c.file))
}

func (c *clock) strike(_ context.Context, l *lab, random *rand.Rand) (string, error) {
	jump := leastJump + time.Duration(random.IntN(1800))*time.Second // the file has whole seconds
	c.offset += jump
	err := c.set(l)
	time.Sleep(episode) // the server looks once a second
	return fmt.Sprintf("forward by %v", jump), err
}
