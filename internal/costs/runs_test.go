package costs_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// TestStatementsOfRuns counts the statements of a worker that handles ordered keys in batches: their number depends on
// how many runs there are and not on how many rows.
func TestStatementsOfRuns(t *testing.T) {
	const keys, each, most = 4, 500, 100
	l := newLab(t)
	box, err := outbox.Open(outbox.Options{Schema: "public", Ordering: outbox.PerKey})
	l.ok(err)
	up, _, err := box.DDL()
	l.ok(err)
	l.exec(up)
	for key := range keys {
		messages := make([]outbox.Message, each)
		for i := range messages {
			messages[i] = outbox.Message{Topic: "t", Key: fmt.Sprint("key ", key)}
		}
		l.ok(workqueue.InTx(t.Context(), l.db, func(tx workqueue.Tx) error {
			_, err := box.EnqueueMany(t.Context(), tx, messages...)
			return err
		}))
	}
	statements, commits, spare := l.traffic(func() {
		pool := l.watched()
		defer pool.Close()
		relay, err := outbox.NewRelay(pool, box, outbox.RelayOptions{})
		l.ok(err)
		var done atomic.Int64
		relay.HandleAllBatch(workqueue.BatchOptions{Limit: most},
			func(_ context.Context, batch []*outbox.Delivery) ([]error, error) {
				done.Add(int64(len(batch)))
				return nil, nil
			})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- relay.Run(ctx) }()
		l.eventually("all are handled", func() bool { return done.Load() >= keys*each })
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	const runs = keys * each / most
	t.Logf("%d rows of %d keys in batches of %d: %d statements, %d commits", keys*each, keys, most, statements, commits)
	if limit := drainStatements + runs*runStatements + spare.statements; statements > limit {
		t.Errorf("they took %d statements, want at most %d", statements, limit)
	}
	if limit := drainCommits + runs*runCommits + spare.commits; commits > limit {
		t.Errorf("they took %d commits, want at most %d", commits, limit)
	}
}
