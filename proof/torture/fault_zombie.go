//go:build unix

package torture

import (
	"context"
	"math/rand/v2"
	"syscall"
	"time"
)

// zombie stops a worker in the middle of its work, lets others take its rows, and then continues it as if nothing had
// happened.
type zombie struct{ plain }

func (zombie) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	point := points[random.IntN(len(points)-1)]
	_, m, err := l.crew.pick(ctx, random)
	if err != nil {
		return "", err
	}
	m.tell(order{point, signalStop})
	select {
	case <-m.reached:
	case <-m.ended:
		return "", skip("%s ended before", m.app)
	case <-time.After(reachLimit):
		m.tell(order{pointNow, signalStop})
		point = "rest"
	}
	// Longer than the lease, and long enough for another worker to be in the middle of the same work.
	time.Sleep(lease + 2*reapEvery + rand.N(time.Second))
	m.signal(syscall.SIGCONT)
	return m.app + " at " + point, nil
}
