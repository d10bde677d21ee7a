package peer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/txwork/txwork/bench/protocol"
	"github.com/txwork/txwork/internal/measure"
)

// warmUp is how long a load runs at most before it is measured, so that caches, plans and connections exist and all
// goroutines are awake.
const warmUp = 3 * time.Second

// pace writes jobs at a rate while a worker does them. The runner measures the costs between the two events, during
// which the peer keeps everything open.
func (r *runner) pace(ctx context.Context, s Session) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	var handled atomic.Int64
	group, running := errgroup.WithContext(running)
	group.Go(func() error { return s.Work(running, func() { handled.Add(1) }) })
	group.Go(func() error {
		defer stop()
		length := time.Duration(r.config.Seconds * float64(time.Second))
		before, err := r.load(running, s, min(warmUp, length), &handled)
		if err != nil {
			return err
		}
		if err := r.say(protocol.Event{Kind: protocol.Started}); err != nil {
			return err
		}
		begun, spent := time.Now(), measure.ClientCPU()
		after, err := r.load(running, s, length, &handled)
		if err != nil {
			return err
		}
		e := protocol.Event{Kind: protocol.Filled, Jobs: after - before, Seconds: time.Since(begun).Seconds(),
			CPUSeconds: (measure.ClientCPU() - spent).Seconds()}
		if err := r.say(e); err != nil {
			return err
		}
		<-running.Done()
		return nil
	})
	err := group.Wait()
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil // stopped from outside
	}
	return err
}

// load writes jobs at the config's rate for the given length, or longer if the peer is slower than the rate. It waits
// until all are handled, and returns how many jobs have been handled so far.
func (r *runner) load(ctx context.Context, s Session, length time.Duration, handled *atomic.Int64) (total int,
	err error) {
	already := handled.Load()
	begun := time.Now()
	var turns, written atomic.Int64
	group, writing := errgroup.WithContext(ctx)
	for range max(1, r.config.Connections) {
		group.Go(func() error {
			for {
				at := length // at rate 0 nothing is written
				if r.config.Rate > 0 {
					at = time.Duration(float64(turns.Add(1)) / r.config.Rate * float64(time.Second))
				}
				if err := sleep(writing, min(at, length)-time.Since(begun)); err != nil || at >= length {
					return err
				}
				if err := s.InsertOne(writing, protocol.NewBody(r.config.PayloadBytes)); err != nil {
					return err
				}
				written.Add(1)
			}
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	for limit := time.Now().Add(startLimit); handled.Load()-already < written.Load(); {
		if time.Now().After(limit) {
			return 0, fmt.Errorf("%d of %d jobs have not started within %v", written.Load()-handled.Load()+already,
				written.Load(), startLimit)
		}
		if err := sleep(ctx, time.Millisecond); err != nil {
			return 0, err
		}
	}
	return int(handled.Load()), nil
}
