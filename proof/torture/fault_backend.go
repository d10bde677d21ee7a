//go:build unix

package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"
)

// backendTerminate ends some of the run's sessions.
type backendTerminate struct{ plain }

func (backendTerminate) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	n, err := l.terminate(ctx, 0.1+0.9*random.Float64())
	if err == nil && n == 0 {
		return "", skip("nobody was connected")
	}
	return fmt.Sprintf("%d sessions", n), err
}

// terminate ends each of the run's sessions with the given probability.
func (l *lab) terminate(ctx context.Context, share float64) (n int, err error) {
	err = l.admin.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE pg_terminate_backend(pid))
		FROM pg_stat_activity
		WHERE application_name LIKE 'torture %' AND datname = current_database() AND random() < $1`, share).Scan(&n)
	return n, err
}

// backendKill kills one backend. PostgreSQL then ends all others and recovers, because the shared memory may be
// corrupt.
type backendKill struct{ private }

func (backendKill) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	var pids []int
	err := l.admin.QueryRow(ctx, `
		SELECT array_agg(pid ORDER BY pid) FROM pg_stat_activity
		WHERE application_name LIKE 'torture %' AND datname = current_database()`).Scan(&pids)
	if err == nil && len(pids) == 0 {
		err = skip("nobody was connected")
	}
	if err != nil {
		return "", err
	}
	witness, err := l.admin.Acquire(ctx) // a session that ends together with all others
	if err != nil {
		return "", err
	}
	defer witness.Release()
	defer l.outage(time.Now())
	if err := syscall.Kill(pids[random.IntN(len(pids))], syscall.SIGKILL); err != nil {
		return "", err
	}
	l.killed++
	_, _ = witness.Conn().WaitForNotification(ctx) // on a busy machine the server notices the kill late
	return fmt.Sprintf("1 of %d sessions", len(pids)), l.awaitServer(ctx)
}
