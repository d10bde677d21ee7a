package peer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/txwork/txwork/bench/protocol"
)

func (r *runner) fill(ctx context.Context, s Session) error {
	var took time.Duration
	for left := r.config.Jobs; left > 0; {
		bodies := make([]protocol.Body, min(left, max(1, r.config.Batch)))
		for i := range bodies {
			bodies[i] = protocol.NewBody(r.config.PayloadBytes)
		}
		begun := time.Now()
		if err := s.InsertMany(ctx, bodies); err != nil {
			return err
		}
		took += time.Since(begun)
		left -= len(bodies)
	}
	return r.say(protocol.Event{Kind: protocol.Filled, Jobs: r.config.Jobs, Seconds: took.Seconds()})
}

// work runs until it is stopped from outside, because the runner asks the database whether all jobs are done.
func (r *runner) work(ctx context.Context, s Session) error {
	if err := r.say(protocol.Event{Kind: protocol.Started}); err != nil {
		return err
	}
	var count atomic.Int64
	if r.config.Processes > 0 {
		return r.share(ctx, s, &count)
	}
	return s.Work(ctx, func() {
		if count.Add(1) == int64(r.config.Jobs) {
			_ = r.say(protocol.Event{Kind: protocol.Handled, Jobs: r.config.Jobs}) // if it fails, stdin ends, too
		}
	})
}

// progressEvery is how often a process that shares the work reports its progress.
const progressEvery = 10 * time.Millisecond

// share reports at once that the first job has begun, and then regularly how many have.
func (r *runner) share(ctx context.Context, s Session, count *atomic.Int64) error {
	telling, stop := context.WithCancel(ctx)
	told := make(chan struct{})
	go func() {
		defer close(told)
		r.tell(telling, count)
	}()
	err := s.Work(ctx, func() {
		if count.Add(1) == 1 {
			_ = r.say(protocol.Event{Kind: protocol.Progress, Jobs: 1}) // if it fails, stdin ends, too
		}
	})
	stop()
	<-told
	return err
}

func (r *runner) tell(ctx context.Context, count *atomic.Int64) {
	for before := int64(0); sleep(ctx, progressEvery) == nil; {
		if n := count.Load(); n != before {
			before = n
			_ = r.say(protocol.Event{Kind: protocol.Progress, Jobs: int(n)})
		}
	}
}

// startLimit is how long a job may wait for an idle worker.
const startLimit = 30 * time.Second

func (r *runner) latency(ctx context.Context, s Session) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	starts := make(chan time.Time, 1)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return s.Work(ctx, func() { starts <- time.Now() })
	})
	var millis []float64
	group.Go(func() (err error) {
		defer stop()
		millis, err = r.samples(ctx, s, starts)
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	return r.say(protocol.Event{Kind: protocol.Latencies, Millis: millis})
}

func (r *runner) samples(ctx context.Context, s Session, starts <-chan time.Time) (millis []float64, err error) {
	for range r.config.Jobs {
		rest := 20*time.Millisecond + rand.N(40*time.Millisecond)
		if err := sleep(ctx, rest); err != nil {
			return nil, err
		}
		begun := time.Now()
		if err := s.InsertOne(ctx, protocol.NewBody(r.config.PayloadBytes)); err != nil {
			return nil, err
		}
		select {
		case at := <-starts:
			millis = append(millis, float64(at.Sub(begun))/float64(time.Millisecond))
		case <-time.After(startLimit):
			return nil, fmt.Errorf("a job has not started within %v", startLimit)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return millis, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *runner) single(ctx context.Context, s Session) error {
	begun := time.Now()
	ctx, stop := context.WithTimeout(ctx, time.Duration(r.config.Seconds*float64(time.Second)))
	defer stop()
	var written atomic.Int64
	var group errgroup.Group
	for range max(1, r.config.Connections) {
		group.Go(func() error {
			for ctx.Err() == nil {
				// An insert that has begun is finished. If it were cancelled, it would be unknown whether it counts.
				if err := s.InsertOne(context.WithoutCancel(ctx), protocol.NewBody(r.config.PayloadBytes)); err != nil {
					return err
				}
				written.Add(1)
			}
			return nil
		})
	}
	err := group.Wait()
	if err == nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = ctx.Err() // stopped from outside
	}
	if err != nil {
		return err
	}
	return r.say(protocol.Event{Kind: protocol.Filled, Jobs: int(written.Load()), Seconds: time.Since(begun).Seconds()})
}
