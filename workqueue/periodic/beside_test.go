package periodic_test

import (
	"context"
	"errors"
	"testing"

	"github.com/txwork/txwork/workqueue/periodic"
)

func TestTogetherOneThatCannotStartStopsTheOthers(t *testing.T) {
	t.Parallel()
	broken := errors.New("does not fit")
	ended := 0
	err := periodic.Together(t.Context(),
		func(ctx context.Context) error { <-ctx.Done(); ended++; return nil },
		func(context.Context) error { return broken },
	)
	if !errors.Is(err, broken) || ended != 1 {
		t.Errorf("got %v, %d ended", err, ended)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := periodic.Together(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil }); err != nil {
		t.Errorf("got %v of a worker that was told to end", err)
	}
}
