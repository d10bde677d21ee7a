package kills

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/workqueue"
)

// A crew is a group of worker processes, a random one of which is killed regularly and restarted.
type crew struct {
	*testing.T
	db     *pgtest.DB
	role   string
	every  time.Duration // between two kills
	mu     sync.Mutex
	slots  []*process
	kills  int
	ending bool
}

type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout io.Reader
	stderr bytes.Buffer
}

// startCrew runs n processes and a reaper until the test ends or calls stop.
func startCrew(t *testing.T, db *pgtest.DB, role string, n int, every time.Duration, tables ...*workqueue.Table) *crew {
	t.Helper()
	c := &crew{T: t, db: db, role: role, every: every, slots: make([]*process, n)}
	for i := range c.slots {
		c.slots[i] = c.spawn(i)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { c.killer(ctx) })
	if len(tables) > 0 {
		all.Go(func() { c.reap(ctx, tables) })
	}
	t.Cleanup(func() {
		cancel()
		all.Wait()
		c.stop()
	})
	return c
}

func member(i int) string { return string(rune('0' + i)) }

func (c *crew) spawn(i int) *process {
	p := &process{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), roleEnv+"="+c.role, urlEnv+"="+c.db.URL, schemaEnv+"="+c.db.Schema, memberEnv+"="+
		member(i))
	p.cmd.Stderr = &p.stderr
	if err := p.start(); err != nil {
		c.Error(err)
	}
	return p
}

func (p *process) start() (err error) {
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	if p.stdout, err = p.cmd.StdoutPipe(); err != nil {
		return err
	}
	return p.cmd.Start()
}

// ready waits until the process reacts to SIGTERM, or has died.
func (p *process) ready() { p.stdout.Read(make([]byte, 1)) }

func (c *crew) killer(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(c.every/2 + rand.N(c.every)):
			c.killOne()
		}
	}
}

func (c *crew) killOne() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending {
		return
	}
	i := rand.IntN(len(c.slots))
	c.slots[i].cmd.Process.Kill()
	c.end(c.slots[i])
	c.kills++
	c.slots[i] = c.spawn(i)
}

func (c *crew) end(p *process) error {
	err := p.cmd.Wait()
	p.stdin.Close()
	return err
}

// stop ends the processes in order, as a deployment does.
func (c *crew) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending {
		return
	}
	c.ending = true
	for _, p := range c.slots {
		p.ready()
		p.cmd.Process.Signal(syscall.SIGTERM)
	}
	for _, p := range c.slots {
		if err := c.end(p); err != nil {
			c.Errorf("a process did not stop in order: %v\n%s", err, p.stderr.String())
		}
	}
}

func (c *crew) killed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kills
}

// reap is the maintenance job.
func (c *crew) reap(ctx context.Context, tables []*workqueue.Table) {
	for ctx.Err() == nil {
		for _, table := range tables {
			q := table.On(c.db.Pool)
			if _, err := q.ReapExpired(ctx, reaper.DefaultBatchSize); err != nil && ctx.Err() == nil {
				c.Error(err)
			}
			if _, err := q.Sweep(ctx, 1000); err != nil && ctx.Err() == nil {
				c.Error(err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// patience is how long there may be no progress.
const patience = pgtest.Patience

// until waits for a count to reach its goal. It gives up if the count does not change for the patience.
func (c *crew) until(what string, goal int, count func() int) {
	c.Helper()
	last, moved := -1, time.Now()
	for {
		n := count()
		if n >= goal {
			return
		}
		if n != last {
			last, moved = n, time.Now()
		}
		if time.Since(moved) > patience {
			c.Fatalf("%s: %d of %d, and no progress", what, n, goal)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func execute(t *testing.T, db *pgtest.DB, sql string, args ...any) {
	t.Helper()
	if _, err := db.Pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func ask[V any](t *testing.T, db *pgtest.DB, sql string, args ...any) (v V) {
	t.Helper()
	if err := db.Pool.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}
