//go:build unix

package torture

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// clockSource is a library that changes what the server takes for the time. It is not libfaketime, which reads its file
// wherever it is asked for the time: in a signal handler of PostgreSQL that corrupts the memory of malloc, and the
// server crashes.
//
//go:embed clock/clock.c
var clockSource []byte

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
	// leastJump is longer than setting the clock takes, so every reported time can be told to be from before or after
	// the jump.
	leastJump = 6 * time.Second
	lag       = 500 * time.Millisecond // a session takes its number a moment before it reads the clock
)

// behind is the initial offset of the server's clock.
const behind = -5 * time.Hour

func (c *clock) configure(l *lab) error {
	if err := l.needPrivate(); err != nil {
		return err
	}
	library, err := c.compile(context.Background(), l)
	if err != nil {
		return err
	}
	c.file, c.offset = filepath.Join(l.dir, "clock"), behind
	l.environment["LD_PRELOAD"] = library
	l.environment["TXWORK_CLOCK"] = c.file
	l.clocks = []clockStep{{offset: c.offset}}
	return c.write()
}

func (c *clock) compile(ctx context.Context, l *lab) (library string, err error) {
	compiler, err := l.need(ctx, "gcc", "/usr/bin/gcc")
	if err != nil {
		return "", err
	}
	if _, err := l.need(ctx, "libc6-dev", "/usr/include/sys/time.h", "/usr/include/*/sys/time.h"); err != nil {
		return "", err
	}
	library = filepath.Join(l.dir, "clock.so")
	cmd := exec.CommandContext(ctx, compiler, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library,
		"-x", "c", "-")
	cmd.Stdin = bytes.NewReader(clockSource)
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v does not compile the library that sets the clock: %w\n%s", compiler, err, said)
	}
	return library, nil
}

// prepare verifies that the clock is really wrong, since otherwise it would test nothing.
func (c *clock) prepare(ctx context.Context, l *lab) error {
	var now time.Time
	if err := l.admin.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return err
	}
	if off := time.Until(now) - c.offset; off.Abs() > time.Minute {
		return skip("the library does not move the server's clock: it is %v from where it should be", off)
	}
	return nil
}

// write overwrites the file in place: every process of the server has mapped it, and sees the new offset at once.
func (c *clock) write() error {
	file, err := os.OpenFile(c.file, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.Write(binary.NativeEndian.AppendUint64(nil, uint64(int64(c.offset.Seconds()))))
	return err
}

func (c *clock) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	detail, jump := "forward by %v", leastJump+time.Duration(random.Int64N(int64(farthestForward-leastJump)))
	if c.back = !c.back && random.IntN(2) == 0; c.back {
		detail, jump = "back by %v", -leastJump-time.Duration(random.Int64N(int64(farthestBack-leastJump)))
	}
	jump = jump.Truncate(time.Second) // the offset is of whole seconds
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
	time.Sleep(lag)
	err = l.retry(ctx, func(ctx context.Context) (err error) {
		step.after, err = l.lastVersion(ctx)
		return err
	})
	step.until = time.Now()
	l.clocks = append(l.clocks, step)
	return step, err
}
