//go:build unix

package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// postgresCrash ends the server without a checkpoint, and starts it again after a while.
type postgresCrash struct{ private }

func (postgresCrash) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	defer l.outage(time.Now())
	if err := l.server.Crash(); err != nil {
		return "", err
	}
	away := time.Duration(random.IntN(700)) * time.Millisecond
	time.Sleep(away)
	if err := l.server.Restart(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("away for %v", away), l.awaitServer(ctx)
}
