//go:build unix

package torture

import (
	"context"
	"math/rand/v2"
	"syscall"
	"time"
)

// reachLimit is how long a strike waits for a worker to reach a point. A worker without work reaches none.
const reachLimit = 3 * time.Second

// workerKill makes a worker send itself SIGKILL after a claim, in the middle of a handler, or before or after a settle.
type workerKill struct{ plain }

func (workerKill) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	point := points[random.IntN(len(points))]
	_, m, err := l.crew.pick(ctx, random)
	if err != nil {
		return "", err
	}
	m.tell(order{point, signalKill})
	select {
	case <-m.ended:
		return m.app + " at " + point, nil
	case <-time.After(reachLimit):
		m.signal(syscall.SIGKILL)
		<-m.ended
		return m.app + " while idle", nil
	}
}
