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

// clock has the server's clock be hours behind that of the processes, and sets it forward again and again. It never goes
// back: what is due at a time of the server's would have to wait for that time to come again.
type clock struct {
	private
	file   string
	offset time.Duration
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
	l.clocksDiffer, l.offset = true, c.offset
	l.environment["LD_PRELOAD"] = library
	l.environment["FAKETIME_TIMESTAMP_FILE"] = c.file
	l.environment["FAKETIME_CACHE_DURATION"] = "1"
	l.environment["FAKETIME_DONT_FAKE_MONOTONIC"] = "1"
	l.environment["FAKETIME_DISABLE_SHM"] = "1"
	return c.set()
}

// prepare makes sure that it works: a clock that is not wrong tests nothing.
func (c *clock) prepare(ctx context.Context, l *lab) error {
	var now time.Time
	if err := l.admin.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return err
	}
	if off := time.Until(now) - c.offset; off.Abs() > time.Minute {
		l.clocksDiffer, l.offset = false, 0
		return skip("libfaketime does not move the server's clock: it is %v from where it should be", off)
	}
	return nil
}

// set replaces the file as a whole: the server reads it at any time.
func (c *clock) set() error {
	next := c.file + ".next"
	err := os.WriteFile(next, fmt.Appendf(nil, "%+d\n", int(c.offset.Seconds())), 0o644)
	return errors.Join(err, os.Rename(next, c.file))
}

func (c *clock) strike(_ context.Context, l *lab, random *rand.Rand) (string, error) {
	jump := time.Second + time.Duration(random.Int64N(int64(30*time.Minute)))
	c.offset += jump
	err := c.set()
	time.Sleep(episode) // the server looks once a second
	l.offset = c.offset
	return fmt.Sprintf("forward by %v", jump.Round(time.Second)), err
}
