//go:build unix

package torture

import (
	"context"
	"strings"
	"sync/atomic"
	"time"
)

// A backlog is the number of rows that have not ended. Producers wait while it is high, so that even a short run tests
// more than claims.
type backlog struct{ rows atomic.Int64 }

const (
	highBacklog  = 1000
	backlogEvery = 250 * time.Millisecond
)

// With very many rows, counting takes a while. The pause after a count keeps a connection from counting most of the
// time, but must be short enough to notice progress.
const (
	countingShare = 20
	longestPause  = 2 * time.Second
)

// countingPause is how long to wait after a count that took the given time.
func countingPause(took, least time.Duration) time.Duration {
	return min(max(least, countingShare*took), longestPause)
}

func (b *backlog) high() bool { return b.rows.Load() > highBacklog }

func (b *backlog) watch(ctx context.Context, l *lab) {
	for ctx.Err() == nil {
		start := time.Now()
		if n, err := l.unfinished(ctx); err == nil {
			b.rows.Store(n)
		}
		if n, err := l.logLeft(ctx); err == nil {
			l.logHigh.Store(n > highBacklog)
		}
		select {
		case <-ctx.Done():
		case <-time.After(countingPause(time.Since(start), backlogEvery)):
		}
	}
}

// unfinished counts the rows of all domains that have not ended.
func (l *lab) unfinished(ctx context.Context) (n int64, err error) {
	var counts []string
	for _, t := range auditedTables(l.schema) {
		counts = append(counts, "(SELECT count(*) FROM "+l.schema+"."+t.Table+" WHERE completed_at IS NULL)")
	}
	err = l.admin.QueryRow(ctx, "SELECT "+strings.Join(counts, " + ")).Scan(&n)
	return n, err
}

// retryLimit is long enough for a server that has just been struck to recover.
const retryLimit = 30 * time.Second

func (l *lab) retry(ctx context.Context, do func(context.Context) error) error {
	for end := time.Now().Add(retryLimit); ; time.Sleep(retryCap) {
		err := do(ctx)
		if err == nil || ctx.Err() != nil || time.Now().After(end) {
			return err
		}
	}
}
