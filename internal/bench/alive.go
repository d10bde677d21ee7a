package bench

import (
	"context"
	"fmt"
	"time"
)

const (
	aliveEvery = time.Second
	aliveLimit = 15 * time.Second // a server that is slower than that measures nothing
)

// await waits for a crew, and no longer than the server lives: workers go on trying, which is right for them and of no
// use here. Nothing else may use the meter meanwhile, which asks.
func (l *lab) await(ctx context.Context, c *crew, t *tally, limit time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	died := make(chan error, 1)
	go func() {
		defer cancel()
		died <- l.untilDead(ctx)
	}()
	c.await(ctx, t, limit)
	cancel()
	return <-died
}

// untilDead returns nil if ctx ends before the server does.
func (l *lab) untilDead(ctx context.Context) error {
	for pause(ctx, aliveEvery) == nil {
		if err := l.ask(context.WithoutCancel(ctx)); err != nil {
			return fmt.Errorf("the database no longer answers: %w", err)
		}
	}
	return nil
}

func (l *lab) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, aliveLimit)
	defer cancel()
	return l.meter.exec(ctx, "SELECT 1")
}
