package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	aliveEvery = time.Second
	aliveLimit = 15 * time.Second // figures from a server that is slower than this would be useless
)

var errNoAnswer = errors.New("the database no longer answers")

// autopsy says that the server has died if that may be why something failed.
func (l *lab) autopsy(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, errNoAnswer) || l.ask(context.WithoutCancel(ctx)) == nil {
		return err
	}
	return fmt.Errorf("%w: %w", errNoAnswer, err)
}

// await waits for a crew, but gives up when the server dies: workers would retry, which is right for them and useless
// here. It uses the meter, so nothing else may use it meanwhile.
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

// untilDead returns nil if ctx ends while the server still answers.
func (l *lab) untilDead(ctx context.Context) error {
	for pause(ctx, aliveEvery) == nil {
		if err := l.ask(context.WithoutCancel(ctx)); err != nil {
			return fmt.Errorf("%w: %w", errNoAnswer, err)
		}
	}
	return nil
}

func (l *lab) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, aliveLimit)
	defer cancel()
	return l.meter.exec(ctx, "SELECT 1")
}
