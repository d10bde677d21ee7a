package logs

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/txwork/txwork/internal/measure"
)

// A clock collects how long messages took.
type clock struct {
	mu   sync.Mutex
	took []time.Duration
	seen atomic.Int64
}

func (c *clock) handle(body []byte) {
	now := time.Now().UnixNano()
	var stamped struct{ T int64 }
	if json.Unmarshal(body, &stamped) != nil {
		return
	}
	c.seen.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = append(c.took, time.Duration(now-stamped.T))
}

// arrivals measures the latency of messages that arrive at a rate, from just before their transaction to their handler,
// and how many were not delivered when the arrivals ended.
func (b *bench) arrivals(ctx context.Context, perSecond int) (p *measure.Percentiles, behind int64, err error) {
	c := new(clock)
	stop := b.consume(ctx, c.handle)
	time.Sleep(time.Second) // consumers connect
	written, err := b.arrive(ctx, perSecond)
	behind = int64(written) - c.seen.Load()
	time.Sleep(time.Second)
	if err = errors.Join(err, stop()); err != nil {
		return nil, 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p = measure.PercentilesOf(c.took); p == nil {
		return nil, 0, errors.New("nothing was delivered")
	}
	return p, max(behind, 0), nil
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
	b, err := l.open(ctx, newLog(), 3, 97)
	if err != nil {
		return f, err
	}
	defer b.drop()
	c := new(clock)
	stop := b.consume(ctx, c.handle)
	time.Sleep(3 * time.Second) // consumers connect, and find that there is nothing
	f.Quiet, err = b.load(func() error { time.Sleep(b.duration()); return nil })
	if err == nil {
		f.Busy, err = b.load(func() error { _, err := b.arrive(ctx, 100); return err })
	}
	if err = errors.Join(err, stop()); err != nil {
		return f, err
	}
	if f.Latency = measure.PercentilesOf(c.took); f.Latency == nil {
		err = errors.New("nothing was delivered")
	}
	return f, err
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
