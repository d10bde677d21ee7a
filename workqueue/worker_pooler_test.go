package workqueue_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// Behind a pooler in transaction mode, a worker hears of rows only through a connection past the pooler. Without one it
// finds them when it polls, whether or not NoListen is set.
func TestWorkerBehindAPooler(t *testing.T) {
	if os.Getenv(pgtest.PoolerEnv) == "" {
		t.Skip("needs a pooler: make test-versions has one")
	}
	t.Parallel()
	for name, test := range map[string]struct {
		options workqueue.WorkerOptions
		past    bool
	}{
		"listening past it":    {workqueue.WorkerOptions{PollInterval: time.Hour}, true},
		"not listening":        {workqueue.WorkerOptions{PollInterval: 50 * time.Millisecond, NoListen: true}, false},
		"listening through it": {workqueue.WorkerOptions{PollInterval: 50 * time.Millisecond}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			r := rigOn(t, db.URL, db.Schema, rigOptions{})
			r.Pool = db.Pool // the worker's; the test's own connections go past the pooler
			if test.past {
				direct, err := pgx.ParseConfig(db.URL)
				if err != nil {
					t.Fatal(err)
				}
				test.options.ListenConfig = direct
			}
			r.exec("CREATE TABLE ledger (note uuid)")
			r.startIdle(test.options, func(ctx context.Context, c *noteClaim) error {
				return c.Tx(ctx, func(tx pgx.Tx) error {
					_, err := tx.Exec(ctx, "INSERT INTO ledger VALUES ($1)", c.ID)
					return err
				})
			})
			for range 3 {
				r.awaitStatus(workqueue.Done, r.insert("later")...)
			}
			if n := ask[int](r, "SELECT count(DISTINCT note) FROM ledger"); n != 4 {
				t.Errorf("%d effects of 4 rows", n)
			}
		})
	}
}
