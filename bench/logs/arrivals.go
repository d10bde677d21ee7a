package logs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/txwork/txwork/internal/measure"
)

// A clock collects how long messages took.
type clock struct {
	mu   sync.Mutex
	took []time.Duration
}

func (c *clock) handle(body []byte) {
	now := time.Now().UnixNano()
	var stamped struct{ T int64 }
	if json.Unmarshal(body, &stamped) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = append(c.took, time.Duration(now-stamped.T))
}

func (c *clock) seen() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(len(c.took))
}

// percentiles are those of everything that was collected, which is forgotten.
func (c *clock) percentiles() *measure.Percentiles {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := c.took
	c.took = nil
	return measure.PercentilesOf(took)
}

// await returns once so many messages were seen. Consumers that have stopped delivering are an error.
func (c *clock) await(ctx context.Context, messages int64) error {
	for end := time.Now().Add(5 * time.Minute); c.seen() < messages; {
		if !rest(ctx) {
			return context.Cause(ctx)
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d of %d messages were delivered in 5 minutes", c.seen(), messages)
		}
	}
	return nil
}

// arrivals measures the latency of messages that arrive at a rate, from just before their transaction to their handler,
// and how many were not delivered when the arrivals ended.
func (b *bench) arrivals(ctx context.Context, consumers, perSecond int) (
	p *measure.Percentiles, behind int64, err error,
) {
	c, stop, err := b.start(ctx, consumers)
	if err != nil {
		return nil, 0, err
	}
	written, err := b.arrive(ctx, perSecond)
	want := written * int64(consumers)
	behind = max(want-c.seen(), 0)
	if err == nil {
		err = c.await(ctx, want)
	}
	return c.percentiles(), behind, errors.Join(err, stop())
}

// start starts the store's consumers, and returns once each of them has got a message, which is not measured.
func (b *bench) start(ctx context.Context, consumers int) (c *clock, stop func() error, err error) {
	c = new(clock)
	stop = b.consume(ctx, c.handle)
	if err = b.write(ctx, 1); err == nil {
		err = c.await(ctx, int64(consumers))
	}
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	c.percentiles()
	return c, stop, nil
}

// arrive writes messages at a rate. A transaction has one for each 1,000 a second, at least one.
func (b *bench) arrive(ctx context.Context, perSecond int) (written int64, err error) {
	size := max(1, perSecond/1000)
	due := make(chan struct{}, perSecond)
	go func() {
		defer close(due)
		began, pause := time.Now(), time.Second*time.Duration(size)/time.Duration(perSecond)
		for at := time.Duration(0); at < b.duration(); at += pause {
			time.Sleep(time.Until(began.Add(at)))
			due <- struct{}{}
		}
	}()
	var n atomic.Int64
	err = b.each(func() error {
		var failed error
		for range due {
			if failed != nil {
				continue
			}
			failed = b.write(ctx, size)
			n.Add(int64(size))
		}
		return failed
	})
	return n.Load(), err
}

// measureIdle measures 100 subscriptions of a log, of which 97 get nothing.
func (l *lab) measureIdle(ctx context.Context) (f idleFigures, err error) {
	const busy = 3
	b, err := l.open(ctx, newLog(), busy, 100-busy)
	if err != nil {
		return f, err
	}
	defer b.drop()
	c, stop, err := b.start(ctx, busy)
	if err != nil {
		return f, err
	}
	time.Sleep(3 * time.Second) // the others connect, too, and find that there is nothing
	f.Quiet, err = b.load(func() error { time.Sleep(b.duration()); return nil })
	if err == nil {
		var written int64
		f.Busy, err = b.load(func() (err error) { written, err = b.arrive(ctx, 100); return err })
		if err == nil {
			err = c.await(ctx, written*busy)
		}
	}
	f.Latency = c.percentiles()
	return f, errors.Join(err, stop())
}

// load measures the processor time of the server and the client while something happens.
func (b *bench) load(do func() error) (p processors, err error) {
	began, client := time.Now(), measure.ClientCPU()
	before, _ := measure.ServerCPU(b.server.Dir())
	err = do()
	after, _ := measure.ServerCPU(b.server.Dir())
	client = measure.ClientCPU() - client
	seconds := time.Since(began).Seconds()
	return processors{measure.Milliseconds(after-before) / seconds, measure.Milliseconds(client) / seconds}, err
}
